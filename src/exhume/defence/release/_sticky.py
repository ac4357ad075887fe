"""Noise that belongs to a state: the same ledger always gets the same draw, so that waiting cannot average it away.

The draw is seeded by a keyed hash of a digest of the totals. In bit-exact mode (a grid ledger) the digest is of the
totals' very bits: an addition and its deletion bring back the same draw, always.

Without a grid, an addition and its deletion leave the totals a few units of roundoff away. There the digest is of four
secret bilinear forms of the gram and four of the moment, each rounded to `RESOLUTION` of the totals' size. Two
states closer than that share a draw, and a return to within roundoff misses its old draw with a probability of about
roundoff over resolution for each form, some 1 in 1,000. Rounding all d^2 entries instead would miss nearly always, or
need a grid so coarse that different states share noise.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np

from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.options import HIDDEN
from exhume.protocol.ledger import Ledger

__all__ = ["RESOLUTION", "Sticky", "as_key", "keyed_generator"]

RESOLUTION = 2.0**-38
"""Rounding step of a form, relative to the totals' size."""

_FORMS = 4


def as_key(key: str | bytes | None) -> bytes:
    """Return a secret of 16 to 64 bytes, given as bytes or as hexadecimal digits; None makes one."""
    if key is None:
        return secrets.token_bytes(32)
    try:
        made = bytes.fromhex(key) if isinstance(key, str) else bytes(key)
    except ValueError:
        raise InputError("key", "hexadecimal digits", HIDDEN) from None
    if not 16 <= len(made) <= 64:
        raise InputError("key", "a secret of 16 to 64 bytes", f"{len(made)} bytes")
    return made


class Sticky:
    """A source of standard normal draws, one per state of a ledger."""

    def __init__(self, key: bytes, purpose: str) -> None:
        self._key = key
        self._purpose = purpose
        self._forms: tuple[Matrix, Matrix, Matrix] | None = None

    def draw(self, ledger: Ledger, shape: tuple[int, int]) -> Matrix:
        """Return the draw of the present state."""
        return keyed_generator(self._key, self._purpose, b"draw" + self.digest(ledger)).standard_normal(shape)

    def digest(self, ledger: Ledger) -> bytes:
        """Return what names the present state."""
        total = ledger.summary
        if ledger.grid is not None:
            exact = hashlib.blake2b(np.ascontiguousarray(total.gram + 0.0).data, key=self._key)
            exact.update(np.ascontiguousarray(total.moment + 0.0).data)  # + 0.0 makes -0.0 and 0.0 the same
            return exact.digest()
        left, right, classes = self._directions(ledger)
        parts = []
        # The trace bounds the Frobenius norm of a positive semidefinite gram, at the cost of its diagonal only.
        sizes = float(np.trace(total.gram)), float(np.linalg.norm(total.moment))
        for matrix, side, size in ((total.gram, right, sizes[0]), (total.moment, classes, sizes[1])):
            forms = ((left.T @ matrix) * side.T).sum(axis=1)
            # A power of two near the size: roundoff moves it to its neighbour only at the boundary itself.
            step = RESOLUTION * 2.0 ** np.round(np.log2(size)) if size > 0 else 1.0
            parts.append(np.rint(forms / step) + 0.0)
        return hashlib.blake2b(np.concatenate(parts).tobytes(), key=self._key).digest()

    def _directions(self, ledger: Ledger) -> tuple[Matrix, Matrix, Matrix]:
        if self._forms is None or (len(self._forms[0]), len(self._forms[2])) != (ledger.d, ledger.c):
            rng = keyed_generator(self._key, self._purpose, b"forms")
            shapes = ((ledger.d, _FORMS), (ledger.d, _FORMS), (ledger.c, _FORMS))
            left, right, classes = (rng.standard_normal(shape) for shape in shapes)
            self._forms = left, right, classes
        return self._forms


def keyed_generator(key: bytes, purpose: str, message: bytes) -> np.random.Generator:
    """Return the generator that a secret, a purpose and a message stand for."""
    # blake2b takes at most 16 bytes of personalisation: the purpose goes into the message.
    seed = hashlib.blake2b(purpose.encode() + b"\0" + message, key=key, digest_size=32).digest()
    return np.random.Generator(np.random.PCG64DXSM(int.from_bytes(seed, "little")))
