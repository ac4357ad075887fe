"""What a recovery is: a function from what was known before a deletion and seen after it to what was deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from exhume.attack._line import line
from exhume.attack.block import Block
from exhume.numerics import Matrix
from exhume.registry import call

__all__ = ["KINDS", "Needs", "Recovered", "Recovery"]

Needs = Literal["state", "head", "transcript"]

KINDS = ("record", "class", "client")
"""Every kind of deletion."""


@dataclass(frozen=True, repr=False)
class Recovered:
    """What a recovery makes of a deletion."""

    label: int | None
    """The class of the deleted record; None where more than one record was deleted."""
    feature: Matrix | None
    """Its feature vector; None likewise."""
    block: Block
    """The deleted gram and moment."""
    known: bool | None
    """Whether the attacker, without any hidden value, would stand by it; None for recoveries without such a check."""
    diagnostics: object
    """The method's own numbers, a small frozen dataclass."""

    @property
    def margin(self) -> float | None:
        """How clearly the label won, in the method's own measure; None where it has none."""
        margin: float | None = getattr(self.diagnostics, "margin", None)
        return margin

    def __repr__(self) -> str:
        return line(self, label=self.label, known=self.known, block=self.block)


@dataclass(frozen=True)
class Recovery:
    """One entry of the registry.

    Attributes
    ----------
    name, about
        Name and one line for people.
    recover
        ``recover(before, after, *, ...) -> Recovered`` from a `State` before. It asks by name for what it uses of what
        an attacker knows: whether the encoder's features are ``nonnegative``; its own rows, ``features`` and
        ``labels``; the number of training ``rows``; ``gamma``; how many ``records`` were deleted.
    needs
        What ``after`` is: an identified ``"state"``, one ``"head"``, or the ``"transcript"`` of a probe run.
    kinds
        The kinds of deletion that it serves: ``"record"``, ``"class"``, ``"client"``.
    """

    name: str
    about: str
    recover: Callable[..., Recovered]
    needs: Needs
    kinds: tuple[str, ...] = ("record",)

    def __call__(self, before: object, after: object, **knowledge: object) -> Recovered:
        """Recover, with those of the facts that this recovery asks for."""
        return call(self.recover, self.name, before, after, knowledge=knowledge)
