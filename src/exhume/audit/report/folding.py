"""Findings that are equal, folded into one row: a reader sees three lines, not sixteen that say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from exhume.audit.levels import LEVELS
from exhume.audit.plan import BARE
from exhume.audit.records import Finding, Spread
from exhume.audit.records_defence import Effect
from exhume.audit.verdict import quantity

__all__ = ["Folded", "FoldedEffects", "fold", "fold_effects", "ranged"]


@dataclass(frozen=True)
class Folded:
    """Findings with the same deletion, level and counts; their errors and costs as ranges."""

    findings: tuple[Finding, ...]

    @property
    def one(self) -> Finding:
        """What they have in common."""
        return self.findings[0]

    @property
    def order(self) -> int:
        """The place of the level, for sorting."""
        return LEVELS.index(self.one.severity)

    @property
    def probes(self) -> str:
        """The probes among them."""
        return _names(f.probe for f in self.findings)

    @property
    def servers(self) -> str:
        """The servers among them."""
        return _names(server_name(f) for f in self.findings)

    @property
    def recoveries(self) -> str:
        """The recoveries among them."""
        return _names(f.recovery for f in self.findings)

    @property
    def sums(self) -> str:
        """The larger of the errors of gram and moment."""
        errors = [[_median(f.relerr_gram), _median(f.relerr_moment)] for f in self.findings]
        return ranged([max(known) for pair in errors if (known := [e for e in pair if e is not None])])

    @property
    def features(self) -> str:
        """The errors of the feature vector."""
        return ranged([_median(f.relerr_feature) for f in self.findings])

    @property
    def undone(self) -> str:
        """How much of the deletion the replay took back."""
        return ranged([f.replay_undone for f in self.findings], lambda value: f"{value:.0%}")

    @property
    def heads(self) -> str:
        """What the client needs at first."""
        return ranged([f.responses_first for f in self.findings], str)

    @property
    def more(self) -> str:
        """What each further deletion takes."""
        return ranged([f.responses_next for f in self.findings], str)


def server_name(finding: Finding) -> str:
    """Return how tables call the server: the paper's by the format of its heads, another by its name."""
    return finding.precision if finding.server == BARE else finding.server


def fold(findings: Sequence[Finding]) -> list[Folded]:
    """Gather equal findings, the worst first within each kind of deletion."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for f in findings:
        key = (f.kind, f.server == BARE, f.severity, f.identified, f.trials, f.labels_correct)
        groups.setdefault(key, []).append(f)
    return [Folded(tuple(group)) for group in groups.values()]


@dataclass(frozen=True)
class FoldedEffects:
    """Effects with the same deletion, levels and counts, which differ in their attack and its errors."""

    effects: tuple[Effect, ...]
    estimated: bool
    """Whether the attacks gave an estimate behind the settings."""

    @property
    def one(self) -> Effect:
        """What they have in common."""
        return self.effects[0]

    @property
    def attacks(self) -> str:
        """Probe and recovery of each."""
        return "; ".join(f"{e.probe}, {e.recovery}" for e in self.effects)

    def errors(self, name: str) -> str:
        """Return an error without and with the settings, each as a range."""
        sides = ([getattr(e, f"{name}_{side}") for e in self.effects] for side in ("without", "with"))
        return " \u2192 ".join(ranged(values) for values in sides)

    @property
    def undone(self) -> str:
        """Return how much of the deletion the replay took back, without and with."""
        sides = ([getattr(e, f"undone_{side}") for e in self.effects] for side in ("without", "with"))
        return " \u2192 ".join(ranged(values, lambda value: f"{value:.0%}") for values in sides)


def fold_effects(effects: Sequence[Effect], findings: Sequence[Finding]) -> list[FoldedEffects]:
    """Gather equal effects; whether there was an estimate behind the settings, the findings know."""
    estimated = {(f.kind, f.probe, f.recovery): f.identified > 0 for f in findings if f.server != BARE}
    groups: dict[tuple[object, ...], list[Effect]] = {}
    for e in effects:
        counts = (e.labels_without, e.labels_with, e.replays_refused, e.deletions_refused, e.trials)
        known = estimated.get((e.kind, e.probe, e.recovery), False)
        groups.setdefault((known, e.kind, e.level_without, e.level_with, *counts), []).append(e)
    return [FoldedEffects(tuple(group), bool(key[0])) for key, group in groups.items()]


def ranged(values: Iterable[float | None], write: Callable[..., str] = quantity) -> str:
    """Write the least and the greatest of some numbers; one where they read the same, a dash for none."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return "-"
    low, high = write(known[0]), write(known[-1])
    return low if low == high else f"{low} to {high}"


def _median(spread: Spread | None) -> float | None:
    return None if spread is None else spread.median


def _names(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
