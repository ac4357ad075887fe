"""A registered function is called with whatever the attacker knows; it takes what it asks for by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import TypeVar

from exhume.errors import InputError

__all__ = ["call"]

Result = TypeVar("Result")


def call(function: Callable[..., Result], name: str, *seen: object, knowledge: Mapping[str, object]) -> Result:
    """Call ``function(*seen, ...)`` with those of the named facts that it has keywords for.

    Raises
    ------
    InputError
        If it must have one that is not among them.
    """
    keywords = {p.name: p for p in signature(function).parameters.values() if p.kind is Parameter.KEYWORD_ONLY}
    for key, parameter in keywords.items():
        if parameter.default is Parameter.empty and key not in knowledge:
            raise InputError(key, f"given, which '{name}' cannot do without", "nothing")
    return function(*seen, **{key: value for key, value in knowledge.items() if key in keywords})
