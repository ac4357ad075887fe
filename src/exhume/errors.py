"""Every error that Exhume raises on purpose.

All derive from `ExhumeError`, so that a caller can catch one class. Input errors also derive from
`ValueError`: they name the field, say what is allowed and what came, and leave all state unchanged.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "AttackError",
    "ConflictError",
    "DataError",
    "ExhumeError",
    "HeadroomError",
    "InputError",
    "MissingExtraError",
    "NotHeldError",
    "NotIdentifiedError",
    "NoteWarning",
    "OldNameWarning",
    "RefusedError",
    "SingularStateError",
    "StaleServerError",
    "StoreError",
    "UnsettledError",
    "WireError",
    "WorkerDiedError",
    "shown",
    "unknown_name",
]

_MOST_SHOWN = 240
_LAST_SHOWN = 60


def shown(text: object) -> str:
    """Return a text as it can be put into one line of a message: escaped where it does not print, and shortened.

    What a sender wrote may hold line breaks, terminal codes or a megabyte. Both ends of a long text are kept.
    """
    whole = str(text)
    size = len(whole)
    if size > _MOST_SHOWN:
        whole = f"{whole[: _MOST_SHOWN - _LAST_SHOWN]} ... {whole[-_LAST_SHOWN:]}"
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in whole)
    return line if size <= _MOST_SHOWN else f"{line} ({size} characters)"


class ExhumeError(Exception):
    """The base of all errors that Exhume raises on purpose."""


class InputError(ExhumeError, ValueError):
    """A value that is not allowed: says which field, what is allowed and, in one short line, what came."""

    def __init__(self, field: str, allowed: str, got: object) -> None:
        self.field = field
        self.allowed = allowed
        self.got = got
        super().__init__(f"{field} must be {allowed}; got {shown(got)}")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.field, self.allowed, self.got)


class NotHeldError(InputError):
    """A client was asked to delete rows that it does not hold."""


class HeadroomError(InputError):
    """An update would push a bit-exact ledger past the integers that float64 holds exactly."""


class SingularStateError(InputError):
    """An update would leave a state that is not positive definite, for which no head exists."""


class WireError(InputError):
    """Bytes that are not a message of this protocol, version and configuration."""


class StaleServerError(ExhumeError):
    """A server that must not be saved: its file holds what somebody else saved since this one was read or written."""

    def __init__(self, path: object) -> None:
        self.path = path
        super().__init__(
            f"'{path}' holds another server's updates, saved since this one was read or written; nothing was saved. "
            "Load it again and repeat what this server accepted in between"
        )

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.path,)


class StoreError(ExhumeError):
    """A durable store that cannot be opened, read or written; what it had acknowledged is still in it."""


class ConflictError(ExhumeError):
    """A key that its client has used before, for another message: nothing was done."""

    def __init__(self, client: str, key: str) -> None:
        self.client = client
        self.key = key
        super().__init__(f"'{shown(client)}' has used the key '{shown(key)}' before, for another message")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.client, self.key)


class RefusedError(ExhumeError):
    """The server refused an update: `reason` is the admission rule's own sentence, `rule` its name if that is known."""

    def __init__(self, reason: str, rule: str | None = None) -> None:
        self.reason = reason
        self.rule = rule
        super().__init__(f"the server refused the update: {shown(reason)}")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.reason, self.rule)


class UnsettledError(ConnectionError):
    """An answer that never came: whether the message counts is not known. `key`, if there is one, asks later.

    It is a breakdown of what was talked to, not an error of Exhume's own.
    """

    def __init__(self, reason: str, key: str | None = None) -> None:
        self.reason, self.key = reason, key
        super().__init__(reason)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.reason, self.key)


class AttackError(ExhumeError):
    """An attack could not be carried out."""


class NotIdentifiedError(AttackError):
    """A state could not be identified; `diagnostics` holds the numbers of the test that failed."""

    def __init__(self, reason: str, diagnostics: object = None) -> None:
        self.reason = reason
        self.diagnostics = diagnostics
        super().__init__(reason)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.reason, self.diagnostics)


class DataError(ExhumeError):
    """A data set, weight file or cache that is missing, damaged or not what its hash says."""


class MissingExtraError(ExhumeError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""

    def __init__(self, what: str, extra: str) -> None:
        self.what = what
        self.extra = extra
        install = f"pip install 'exhume[{extra}]', or pip install -e '.[{extra}]' in a checkout"
        super().__init__(f"{what} needs the '{extra}' extra: {install}")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.what, self.extra)


class WorkerDiedError(ExhumeError):
    """A worker process ended in the middle of its work; what others had finished is kept."""

    def __init__(self) -> None:
        super().__init__(
            "a worker process died, perhaps for want of memory; finished work is kept: run again, with fewer --jobs"
        )


class NoteWarning(UserWarning):
    """Something that was done for the user and that the user should know, such as a mapping of labels."""


class OldNameWarning(UserWarning):
    """A name that is still read and has been replaced; the message gives the new one."""


def unknown_name(field: str, got: str, known: Iterable[str]) -> InputError:
    """Build the error for a name that is not in a registry: lists the known ones, suggests the nearest."""
    names = sorted(known)
    near = difflib.get_close_matches(got, names, n=1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    return InputError(field, f"one of {', '.join(names)}", f"'{got}'{hint}")
