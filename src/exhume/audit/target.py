"""An operator's live target, loaded by name and kept from ending or misleading the audit."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

from exhume.errors import ExhumeError, InputError
from exhume.protocol.head import Head
from exhume.protocol.summary import Update
from exhume.protocol.target import SettlingTarget, Target

__all__ = ["GuardedSettlingTarget", "GuardedTarget", "TargetError", "guarded", "load_target"]


class TargetError(RuntimeError):
    """A target that did what no target may: it ended the program, or answered with something that is no head.

    It counts as a breakdown of the target, so it is not one of Exhume's own errors.
    """


class GuardedTarget:
    """A target whose answers are heads; what else it does is a `TargetError`, also an exit of its own."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def head(self) -> Head:
        """Return the head that the server last released."""
        return _answered("head()", self._target.head)

    def submit(self, update: Update) -> Head:
        """Submit an update and return the head that answers it."""
        return _answered("submit()", lambda: self._target.submit(update))


class GuardedSettlingTarget(GuardedTarget):
    """A guarded target that can also be asked again under a key."""

    def __init__(self, target: Target, settling: SettlingTarget) -> None:
        super().__init__(target)
        self._settling = settling

    def again(self, update: Update, key: str) -> Head:
        """Send an update under a key that may have arrived before."""
        return _answered("again()", lambda: self._settling.again(update, key))

    def applied(self, key: str) -> bool:
        """Say whether what was sent under a key counts."""
        return self._settling.applied(key)


def guarded(target: Target) -> GuardedTarget:
    """Return a target whose answers are heads."""
    return GuardedSettlingTarget(target, target) if isinstance(target, SettlingTarget) else GuardedTarget(target)


def _answered(what: str, call: Callable[[], object]) -> Head:
    try:
        head = call()
    except SystemExit as error:
        raise TargetError(f"the target's {what} tried to end the program (exit code {error.code})") from error
    if not isinstance(head, Head):
        raise TargetError(f"the target's {what} must return an exhume.Head; got {type(head).__name__}")
    return head


def load_target(spec: str) -> Target:
    """Call the user's ``package.module:function`` and return its `Target`; the working folder is on the path."""
    module_name, _, function_name = spec.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), function_name)):
        raise InputError("target", "package.module:function", f"'{spec}'")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        make = getattr(importlib.import_module(module_name), function_name)
    except AttributeError:
        raise InputError("target", f"a function of {module_name}", f"'{function_name}'") from None
    except (Exception, SystemExit) as error:
        allowed = "a module that can be imported from here"
        raise InputError("target", allowed, f"'{spec}' ({_said(error)})") from error
    if not callable(make):
        raise InputError("target", "a function that returns a target", f"'{spec}', of type {type(make).__name__}")
    try:
        target = make()
    except ExhumeError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            "target", "a function that returns a target", f"'{spec}', which raised {_said(error)}"
        ) from error
    if not isinstance(target, Target):
        raise InputError("target", "a function that returns an object with head() and submit()", repr(target))
    safe = guarded(target)
    try:
        safe.head()
    except ExhumeError:
        raise
    except Exception as error:
        raise InputError("target", "able to give its head", f"'{spec}', whose head() raised {_said(error)}") from error
    return safe


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
