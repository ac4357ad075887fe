"""Options from files: checked against a constructor's own signature, wrong ones named, secrets kept out of words."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from pydantic import ConfigDict, ValidationError, create_model

from exhume.errors import InputError, unknown_name
from exhume.registry import spelt

__all__ = ["HIDDEN", "checked", "first_error", "is_secret", "to_toml"]

HIDDEN = "something else (not shown)"
"""What an error says in place of a secret."""

_SECRETS = frozenset({"key", "keys", "seed", "secret", "secrets", "token", "password"})

_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def is_secret(name: str) -> bool:
    """Say whether an option is a secret: its name ends in a word for one, as ``key`` or ``noise_seed``."""
    return spelt(name).rsplit("-", 1)[-1] in _SECRETS


def checked(
    where: str,
    make: Callable[..., Any],
    options: Mapping[str, Any],
    known: Mapping[str, Any],
    *,
    without: Callable[[str], bool] = lambda _: False,
) -> dict[str, Any]:
    """Return options that a constructor takes, with the right types.

    Anything else is an `InputError` that names the place, the option and the nearest name there is.

    Parameters
    ----------
    where
        What an error calls the place.
    make
        The constructor: its signature says what options there are, and of which types.
    options
        What the file says.
    known
        What is filled in where the constructor asks for it.
    without
        Which of the options that have no default may be missing all the same.
    """
    parameters = {name: p for name, p in inspect.signature(make).parameters.items() if p.kind not in _VARIADIC}
    for name in options:
        if name not in parameters:
            raise unknown_name(f"option of {where}", name, parameters)
    given = {name: value for name, value in known.items() if name in parameters} | dict(options)
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in given and not without(name):
            raise InputError(f"{where}.{name}", "given", "nothing")
    fields: dict[str, Any] = {name: (_hints(make).get(name, Any), ...) for name in given}
    model = create_model("Options", __config__=ConfigDict(arbitrary_types_allowed=True, extra="forbid"), **fields)
    try:
        made = model(**given)
    except ValidationError as error:
        raise first_error(error, where) from None
    return {name: getattr(made, name) for name in given}


def _hints(make: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(make.__init__ if inspect.isclass(make) else make)
    except NameError:  # another package's, with types that it imports for checkers only
        return {}


def first_error(
    error: ValidationError, where: str = "", *, hides: Callable[[str], bool] | None = is_secret
) -> InputError:
    """Return pydantic's first complaint as one of ours.

    Parameters
    ----------
    error
        What pydantic found.
    where
        The place that its own places are in.
    hides
        Which names have values that no message may show; None shows all. Where something is hidden, tables and lists
        are not shown either: a secret may be in them.
    """
    first = error.errors()[0]
    places = [str(part) for part in first["loc"]]
    allowed = re.sub(r"^(Input|Value error,) ?(should|must)? ?(be )?", "", str(first["msg"]))
    got = first["input"]
    if first["type"] == "missing":
        allowed, got = "given", "nothing"
    elif hides is not None and any(map(hides, places)):
        got = HIDDEN
    elif hides is not None and isinstance(got, (Mapping, list, tuple)):
        got = "a table" if isinstance(got, Mapping) else "a list"
    return InputError(".".join([where, *places]).lstrip(".") or "configuration", allowed, got)


def to_toml(value: Any) -> str:
    """Write a plain value as TOML has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{to_toml(str(k))} = {to_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(to_toml(v) for v in value) + "]"
    raise InputError("configuration", "made of text, numbers, truth values, lists and tables", type(value).__name__)
