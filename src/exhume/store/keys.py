"""The operator's key: one secret outside the store, from which every secret of the store is derived.

It signs receipts, keys the digests of messages, and seals what the rules remember. Whoever takes the store without it
can neither confirm a guess of what was sent nor read the memories of the rules.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import struct
from pathlib import Path

from exhume.errors import InputError, MissingExtraError, StoreError
from exhume.files import PRIVATE, atomic_file

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
except ImportError as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingExtraError("the durable store", "serve") from error

__all__ = ["OperatorKey", "content_digest", "signed_by"]

_PREFIX = "exhume-key-1"
_SIZE = 32


class OperatorKey:
    """One secret of 32 bytes and what follows from it.

    Parameters
    ----------
    secret
        The 32 bytes.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _SIZE:
            raise InputError("key", f"{_SIZE} bytes", f"{len(secret)} bytes")
        self._digests = self._derived(secret, "digests of messages")
        self._seal = ChaCha20Poly1305(self._derived(secret, "memories of rules"))
        self._signer = Ed25519PrivateKey.from_private_bytes(self._derived(secret, "signatures of receipts"))
        self._secret = secret

    @classmethod
    def make(cls) -> OperatorKey:
        """Return a new key."""
        return cls(secrets.token_bytes(_SIZE))

    @classmethod
    def load(cls, path: str | Path) -> OperatorKey:
        """Read a key file."""
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError as error:
            raise InputError("key file", "a file that can be read", f"'{path}' ({error.strerror})") from None
        except UnicodeDecodeError:
            raise InputError("key file", f"one line, {_PREFIX} and 64 hexadecimal digits", "something else") from None
        found = re.fullmatch(rf"{_PREFIX} ([0-9a-f]{{{2 * _SIZE}}})", text)
        if found is None:
            raise InputError("key file", f"one line, {_PREFIX} and 64 hexadecimal digits", "something else")
        return cls(bytes.fromhex(found[1]))

    def save(self, path: str | Path) -> None:
        """Write the key to a new file that only its owner can read; an existing one is never replaced."""
        if Path(path).exists():
            raise InputError("key file", "a name that is not taken", f"'{path}'")
        with atomic_file(Path(path), PRIVATE) as stream:
            stream.write(f"{_PREFIX} {self._secret.hex()}\n".encode())

    @property
    def public(self) -> str:
        """The public half of the signing key, in hexadecimal digits: all that is needed to check a receipt."""
        return self._signer.public_key().public_bytes_raw().hex()

    def opener(self, client: str, key: str) -> bytes:
        """Return the key of one message's digest. Its sender gets it with the receipt; the store does not hold it."""
        return hmac.digest(self._digests, f"{len(client)}:{client}:{key}".encode(), "sha256")

    def digest(self, client: str, key: str, body: bytes) -> bytes:
        """Return the digest by which a retry is known from another message under the same key."""
        return content_digest(self.opener(client, key), body)

    def sign(self, statement: bytes) -> bytes:
        """Sign a statement; the same one gets the same signature."""
        return self._signer.sign(statement)

    def seal(self, content: bytes, purpose: str) -> bytes:
        """Encrypt what only the key's holder may read."""
        nonce = os.urandom(12)
        return nonce + self._seal.encrypt(nonce, content, purpose.encode())

    def unseal(self, sealed: bytes, purpose: str) -> bytes:
        """Read what was sealed with this key for this purpose."""
        try:
            return self._seal.decrypt(sealed[:12], sealed[12:], purpose.encode())
        except InvalidTag:
            raise StoreError(f"the {purpose} in the store are damaged, or sealed with another key") from None

    @staticmethod
    def _derived(secret: bytes, purpose: str) -> bytes:
        return hashlib.blake2b(purpose.encode(), key=secret, digest_size=32, person=b"exhume key 1").digest()

    def __repr__(self) -> str:
        return f"OperatorKey(public='{self.public}')"


def content_digest(opener: bytes, body: bytes) -> bytes:
    """Return a keyed digest of what a message says: its header and its tensors, each by its name.

    Encoders may write the same message with its fields in another order; that is no other message.
    """
    try:
        (size,) = struct.unpack_from("<Q", body)
        header = json.loads(body[8 : 8 + size])
        places = {name: header[name].pop("data_offsets") for name in header if name != "__metadata__"}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError("message", "safetensors bytes", "something else") from None
    made = hmac.new(opener, json.dumps(header, sort_keys=True).encode(), "sha256")
    data = memoryview(body)[8 + size :]
    for name in sorted(places):
        start, end = places[name]
        made.update(data[start:end])
    return made.digest()


def signed_by(public: str, statement: bytes, signature: bytes) -> bool:
    """Say whether the holder of a public key's other half signed a statement."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, statement)
    except (InvalidSignature, ValueError):
        return False
    return True
