"""Several release rules as one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from exhume.defence._state import pack, unpack
from exhume.defence.release._base import STAGES, Rule, stage_of
from exhume.defence.release.deletion_mask import DeletionMask
from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Occasion, ReleaseRule, Undo

__all__ = ["Chain"]


class Chain(ReleaseRule):
    """Applies rules one after another; the first that withholds the head ends it.

    The stages come in the order gate, mask, shape, noise, budget, precision, and a chain in another order is refused: a
    mask makes the head anew from masked totals, noise before a projection would be projected away, a budget must see
    what the noise costs, and rounding comes last because it is what goes over the wire. Every rule hears in the end
    whether a head went out, so a gate does not take a head that a later rule withheld for a release.

    Parameters
    ----------
    rules
        At least one rule; at most one mask and one noise.
    """

    name = "chain"

    def __init__(self, rules: Sequence[ReleaseRule]) -> None:
        self.rules = tuple(rules)
        if not self.rules:
            raise InputError("rules", "at least one release rule", "none")
        stages = [stage for rule in self.rules if (stage := stage_of(rule)) is not None]
        if stages != sorted(stages, key=STAGES.index):
            raise InputError("rules", f"in the order {', '.join(STAGES)}", ", ".join(stages))
        for stage in ("mask", "noise"):
            if stages.count(stage) > 1:
                raise InputError("rules", f"with at most one {stage}", f"{stages.count(stage)}")
        sigmas = {getattr(rule, "sigma", None) for rule in self.rules if stage_of(rule) in ("noise", "budget")}
        if len(sigmas - {None}) > 1:
            raise InputError("sigma", "the same in the noise and in its budget", sorted(s for s in sigmas if s))

    def release(self, head: Head, occasion: Occasion) -> Head | None:
        """Return what is left after all rules, or None."""
        found: Head | None = head
        for rule in self.rules:
            if found is None:
                return None
            found = rule.release(found, occasion)
            occasion = _seen_after(rule, occasion)
        return found

    def record(self, released: Head | None, occasion: Occasion) -> None:
        """Tell every rule what went out."""
        for rule in self.rules:
            later = _seen_after(rule, occasion)
            rule.record(released, occasion)
            occasion = later

    def check(self, ledger: Ledger) -> None:
        """Ask every rule whether it can serve such a ledger."""
        for rule in self.rules:
            rule.check(ledger)

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Ask every rule what takes back its part of a step."""
        undos = [rule.checkpoint(clients) for rule in self.rules]

        def undo() -> None:
            for one in undos:
                one()

        return undo

    def save(self) -> bytes:
        """Write the states of all rules that have one."""
        states = {str(i): rule.save() for i, rule in enumerate(self.rules) if isinstance(rule, Rule)}
        arrays: dict[str, Any] = {key: np.frombuffer(state, dtype=np.uint8) for key, state in states.items()}
        return pack(self.name, self._configuration(), {}, arrays)

    def load(self, data: bytes) -> None:
        """Take over the saved states; those of another chain are refused by name."""
        saved = unpack(data, self.name, self._configuration())
        for key, state in saved.arrays.items():
            rule = self.rules[int(key)]
            if isinstance(rule, Rule):
                rule.load(state.tobytes())

    def _configuration(self) -> dict[str, Any]:
        return {"rules": json.loads(json.dumps([repr(rule) for rule in self.rules]))}

    def __repr__(self) -> str:
        return f"Chain([{', '.join(map(repr, self.rules))}])"


def _seen_after(rule: ReleaseRule, occasion: Occasion) -> Occasion:
    """Return what the rules after this one may know: behind a mask, the masked ledger only."""
    return rule.masked(occasion) if isinstance(rule, DeletionMask) else occasion
