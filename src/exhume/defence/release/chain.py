"""Several release rules as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exhume.defence.memory import Memory, Saveable, nested, shown
from exhume.defence.release._base import STAGES, stage_of
from exhume.defence.release._evaluator import mask_of
from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.rules import Heads, Occasion, ReleaseRule, Undo
from exhume.protocol.summary import Summary

__all__ = ["Chain", "identity"]


class Chain(Saveable, ReleaseRule):
    """Applies rules one after another; the first that withholds the head ends it.

    The stages come in the order gate, mask, shape, noise, budget, precision, and a chain in another order is refused: a
    mask makes the head anew from masked totals, noise before a projection would be projected away, a budget must see
    what the noise costs, and rounding comes last because it is what goes over the wire. Every rule hears in the end
    whether a head went out, so a gate does not take a head that a later rule withheld for a release. Behind a mask,
    rules are shown the masked ledger only.

    Parameters
    ----------
    rules
        At least one rule; at most one mask and one noise.
    """

    name = "chain"
    about = "release rules one after another"

    def __init__(self, rules: Sequence[ReleaseRule]) -> None:
        self.rules = tuple(rules)
        if not self.rules:
            raise InputError("rules", "at least one release rule", "none")
        stages = [stage for rule in self.rules if (stage := stage_of(rule)) is not None]
        if not set(stages) <= set(STAGES) or stages != sorted(stages, key=STAGES.index):
            raise InputError("rules", f"in the order {', '.join(STAGES)}", ", ".join(stages))
        for stage in ("mask", "noise"):
            if stages.count(stage) > 1:
                raise InputError("rules", f"with at most one {stage}", f"{stages.count(stage)}")
        self._masks = tuple(mask_of(rule) for rule in self.rules)
        if "mask" in stages and mask_of(self) is None:
            raise InputError("rules", "a mask with masked, masked_totals and deletion_noise", "one without")
        sigmas = {getattr(rule, "sigma", None) for rule in self.rules if stage_of(rule) in ("noise", "budget")}
        if len(sigmas - {None}) > 1:
            raise InputError("sigma", "the same in the noise and in its budget", sorted(s for s in sigmas if s))

    @property
    def makes_heads(self) -> bool:
        """Whether the first rule does."""
        return self.rules[0].makes_heads

    def release(self, head: Head, occasion: Occasion) -> Head | None:
        """Return what is left after all rules, or None."""
        found: Head | None = head
        for i, rule in enumerate(self.rules):
            if found is None:
                return None
            found = rule.release(found, occasion)
            occasion = self._seen_after(i, occasion)
        return found

    def record(self, released: Head | None, occasion: Occasion) -> None:
        """Tell every rule what went out."""
        for i, rule in enumerate(self.rules):
            later = self._seen_after(i, occasion)
            rule.record(released, occasion)
            occasion = later

    def _seen_after(self, place: int, occasion: Occasion) -> Occasion:
        """Return what the rules after one may know: behind a mask, the masked ledger only.

        A mask makes that ledger for those who look at it; rounding does not.
        """
        mask = self._masks[place]
        blind = all(isinstance(rule, Heads) for rule in self.rules[place + 1 :])
        return occasion if mask is None or blind else mask.masked(occasion)

    def check_size(self, d: int, c: int) -> None:
        """Ask every rule whether it suits such a ledger."""
        for rule in self.rules:
            rule.check_size(d, c)

    def check_start(self, total: Summary) -> None:
        """Ask every rule whether it can begin with that."""
        for rule in self.rules:
            rule.check_start(total)

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Ask every rule what takes back its part of a step."""
        undos = [rule.checkpoint(clients) for rule in self.rules]

        def undo() -> None:
            for one in undos:
                one()

        return undo

    def settle(self) -> None:
        """Let every rule do what it left to do."""
        for rule in self.rules:
            rule.settle()

    def configuration(self) -> dict[str, Any]:
        """Return what the rules are."""
        return {"rules": [identity(rule) for rule in self.rules]}

    def remembered(self) -> Memory:
        """Return the saved states of all rules that have one."""
        for i, rule in enumerate(self.rules):
            if type(rule).record is not ReleaseRule.record and not isinstance(rule, Saveable):
                raise InputError(f"release[{i}]", "a Saveable rule, since it remembers", type(rule).__name__)
        parts = {str(i): rule.save() for i, rule in enumerate(self.rules) if isinstance(rule, Saveable)}
        return Memory(arrays={place: nested(state) for place, state in parts.items()})

    def restore(self, memory: Memory) -> None:
        """Take over the states of the rules."""
        for place, state in memory.arrays.items():
            rule = self.rules[int(place)]
            if isinstance(rule, Saveable):
                rule.load(state.tobytes())

    def __repr__(self) -> str:
        return f"Chain([{', '.join(map(repr, self.rules))}])"


def identity(rule: object) -> list[Any]:
    """Return what a saved state knows a rule by: its name and its arguments; a rule that is not saved tells its own."""
    name = getattr(rule, "name", "") or type(rule).__name__
    if isinstance(rule, Saveable):
        return [name, shown(rule.configuration())]
    told = type(rule).__repr__ is not object.__repr__  # the default has an address in it
    return [name, repr(rule)] if told else [name]
