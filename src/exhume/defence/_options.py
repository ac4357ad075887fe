"""Options of a rule from a file, checked against the rule's own signature; and the way back to TOML."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from pydantic import ConfigDict, ValidationError, create_model

from exhume.errors import InputError, unknown_name

__all__ = ["checked", "first_error", "to_toml"]


def checked(
    where: str, make: Callable[..., Any], options: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Any]:
    """Return options that a rule's constructor takes, with the right types; ``known`` fills what it asks for besides.

    Anything else is an `InputError` that names the place, the option and the nearest name there is.
    """
    parameters = inspect.signature(make).parameters
    for name in options:
        if name not in parameters:
            raise unknown_name(f"option of {where}", name, parameters)
    given = {name: value for name, value in known.items() if name in parameters} | dict(options)
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in given:
            raise InputError(f"{where}.{name}", "given", "nothing")
    hints = get_type_hints(make.__init__ if inspect.isclass(make) else make)
    fields: dict[str, Any] = {name: (hints.get(name, Any), ...) for name in given}
    model = create_model("Options", __config__=ConfigDict(arbitrary_types_allowed=True, extra="forbid"), **fields)
    try:
        made = model(**given)
    except ValidationError as error:
        raise first_error(where, error) from None
    return {name: getattr(made, name) for name in given}


def first_error(where: str, error: ValidationError) -> InputError:
    """Return pydantic's first complaint as one of ours."""
    first = error.errors()[0]
    place = ".".join([where, *(str(part) for part in first["loc"])]).lstrip(".")
    allowed = re.sub(r"^(Input|Value error,) ?(should|must)? ?(be )?", "", str(first["msg"]))
    return InputError(place or "configuration", allowed, first["input"])


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
