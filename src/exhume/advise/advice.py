"""From the cells of a matrix to one line per defence, and from the operator's needs to one defence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from exhume.advise.records import CellResult, HonestRecord, ScoreRecord
from exhume.errors import InputError
from exhume.simulate import attackers
from exhume.simulate.statistics import clopper_pearson

__all__ = ["ABOVE", "POWER", "Advised", "Needs", "aim_of", "deletions_for", "detectable", "recommend", "summarise"]

MARGIN = 0.05
"""The goal: no attack recovers labels better than chance plus this."""

ABOVE = 0.1
"""By default so many deletions are played against the hardened server that chance plus this is found out."""

POWER = 0.8
"""With this probability a rate that counts as detectable is found out."""

LEVEL = 0.05
"""The goal is refuted, or a leak found, where what was seen is less likely than this."""


@dataclass(frozen=True)
class Needs:
    """What the operator can afford."""

    max_accuracy_loss: float = 0.2
    """In points."""
    max_staleness: float = 0.0
    """Mean number of accepted changes that the public head may not show yet."""
    serve_all: bool = True
    """Whether every honest message must be served."""

    def __post_init__(self) -> None:
        if not self.max_accuracy_loss >= 0:
            raise InputError("max_accuracy_loss", "at least 0", self.max_accuracy_loss)
        if not self.max_staleness >= 0:
            raise InputError("max_staleness", "at least 0", self.max_staleness)


@dataclass(frozen=True)
class Advised:
    """One defence: what the best attack gets, and what it costs."""

    defence: str
    label_rate: float
    """Highest share of labels that any attack recovered, of all deletions (failures count)."""
    label_upper: float
    """Upper end of its 95% interval (Clopper-Pearson, for the worst attack alone)."""
    worst: str
    """The attack that did."""
    p_value: float
    """How likely so many right labels are at chance plus five points, times the number of attacks (at most 1)."""
    feature_error: float
    """Lowest median relative error of the recovered feature, over attacks."""
    replay_rate: float
    """Highest share of deletions that an attack recovered and put back."""
    told_replay_rate: float
    """The same for an attacker who was told the block."""
    known_rate: float
    """Highest share of labels that an attacker who knows the feature read."""
    known_worst: str
    """The attack that did."""
    p_chance: float
    """How likely so many right labels are at chance, times the number of attacks (at most 1)."""
    detectable: float
    """The least true rate of labels that would have been told from chance with a probability of `POWER`."""
    refutable: float
    """The least true rate of labels that would have refuted the goal with a probability of `POWER`."""
    damage: float
    """Points of accuracy that attacks on the head or the service took, at the most."""
    honest_refused: int
    """Honest messages that were refused after such an attack, at the most."""
    accuracy_lost: float
    staleness: float
    head_error: float
    refused: int
    sent: int
    deletions_served: int
    deletions_asked: int
    errors: int
    """Cells of this defence that failed to run."""

    @property
    def exact(self) -> bool:
        """Whether released heads are those of a server that never saw the deleted rows, to float64 roundoff."""
        return self.head_error < 1e-9

    def fits(self, needs: Needs) -> bool:
        """Whether the operator can afford it."""
        served = self.refused == 0 and self.deletions_served == self.deletions_asked
        return (
            self.accuracy_lost <= needs.max_accuracy_loss
            and self.staleness <= needs.max_staleness
            and (served or not needs.serve_all)
            and self.errors == 0
        )

    def refutes(self) -> bool:
        """Whether the run refutes the goal: labels at most five points above chance, and no replay.

        The best of many attacks lies above chance by luck alone, so the test allows for their number.
        """
        return self.p_value < LEVEL or self.replay_rate > 0

    def leaks(self) -> bool:
        """Whether the run tells some attack's labels from guessing, or a block was put back."""
        return self.p_chance < LEVEL or self.replay_rate > 0

    def reads_labels(self) -> str:
        """Say whether an attack without the feature reads labels; where none was seen to, what could have been missed.

        "Beyond the goal" is more than five points above chance, or a block that was put back.
        """
        if math.isnan(self.label_rate):
            return "not tried"
        if self.refutes():
            return "yes, beyond the goal"
        if self.leaks():
            return "yes; beyond the goal: not seen"
        missed = "anything" if math.isnan(self.detectable) else f"up to {self.detectable:.0%}"
        return f"not seen (could have missed {missed})"

    @property
    def leak(self) -> float:
        """The share of labels to reckon with: what was read where that is no luck, else what could be hidden by it."""
        if self.leaks():
            return self.label_rate
        return 1.0 if math.isnan(self.detectable) else self.detectable


def summarise(cells: Sequence[CellResult], chance: float) -> list[Advised]:
    """Return one line per defence, in the order of the cells."""
    names = dict.fromkeys(cell.defence for cell in cells)
    found = (_advised(name, [cell for cell in cells if cell.defence == name], chance) for name in names)
    return [row for row in found if row is not None]


def _advised(name: str, cells: list[CellResult], chance: float) -> Advised | None:
    honest: HonestRecord | None = next((cell.honest for cell in cells if cell.honest is not None), None)
    scored = [(cell, cell.score, aim_of(cell.attack)) for cell in cells if cell.score is not None]
    if honest is None or not scored:
        return None
    readers = [(cell, score) for cell, score, aim in scored if aim == "read"]
    worst, top = max(readers, key=lambda pair: pair[1].label_rate, default=(None, None))
    errors = [float(np.median(known)) for _, s in readers if (known := [e for e in s.feature_errors if e is not None])]
    told = [score.replay_rate for _, score, aim in scored if aim == "replay"]
    burnt = [score for _, score, aim in scored if aim == "burn"]
    damage = [points for score in burnt for points in score.damage]
    told_feature = [(s.label_rate, cell.attack) for cell, s, aim in scored if aim == "label"]
    known_rate, known_worst = max(told_feature, default=(math.nan, "-"))
    trials = [score.trials for _, score in readers]
    return Advised(
        defence=name,
        label_rate=top.label_rate if top is not None else math.nan,
        label_upper=clopper_pearson(top.labels, top.trials)[1] if top is not None else math.nan,
        worst="-" if worst is None else worst.attack + (" (busy)" if worst.busy else ""),
        p_value=min([1.0, *(len(readers) * _excess(s, chance + MARGIN) for _, s in readers)]),
        feature_error=min(errors, default=math.nan),
        replay_rate=max((s.replay_rate for _, s in readers), default=0.0),
        told_replay_rate=max(told, default=math.nan),
        known_rate=known_rate,
        known_worst=known_worst,
        p_chance=min([1.0, *(len(readers) * _excess(s, chance) for _, s in readers)]),
        detectable=detectable(min(trials), len(readers), chance) if trials else math.nan,
        refutable=detectable(min(trials), len(readers), chance + MARGIN) if trials else math.nan,
        damage=max(damage, default=math.nan),
        honest_refused=max((score.honest_refused for score in burnt), default=0),
        accuracy_lost=honest.accuracy_lost,
        staleness=honest.staleness,
        head_error=honest.head_error,
        refused=honest.refused,
        sent=honest.sent,
        deletions_served=honest.deletions_served,
        deletions_asked=honest.deletions_asked,
        errors=sum(cell.error is not None for cell in cells),
    )


def detectable(trials: int, attacks: int, share: float) -> float:
    """Return the least true rate at which so many trials refute ``share`` with a probability of `POWER`.

    One attack of several is as good as its own trials: the level is divided among them (Bonferroni).
    """
    fewest = int(binom.isf(LEVEL / max(attacks, 1), trials, min(share, 1.0))) + 1
    if fewest > trials or binom.sf(fewest - 1, trials, 1.0) < POWER:
        return math.nan
    return float(brentq(lambda rate: binom.sf(fewest - 1, trials, rate) - POWER, share, 1.0))


def deletions_for(attacks: int, chance: float) -> int:
    """Return how many deletions it takes to tell a rate of chance plus `ABOVE` from chance.

    Power is not monotone in the number of trials (counts are whole); it is the least from which on all suffice nearby.
    """
    rate = min(chance + ABOVE, 1.0)
    run = 0
    for trials in range(10, 100_000, 10):
        found = detectable(trials, attacks, chance)
        run = run + 1 if found <= rate else 0
        if run == 3:
            return trials - 20
    raise InputError("attacks", "few enough to tell apart", attacks)


def aim_of(attack: str) -> str:
    """Return what an attack wants; of one that is not known here, to read."""
    known = attackers.REGISTRY.get(attack)
    return "read" if known is None else known.aim


def _excess(score: ScoreRecord, share: float) -> float:
    """Return the chance of at least as many right labels if each is right with a probability of ``share``."""
    return float(binom.sf(score.labels - 1, score.trials, min(share, 1.0)))


def recommend(rows: Sequence[Advised], needs: Needs) -> Advised | None:
    """Return the affordable defence that leaks least, then damages least, then costs least.

    Defences whose labels are not told from chance leak alike as far as a run can tell: among them luck shall not
    decide, and one that was tried less often ranks behind one that was tried more often (`Advised.leak`).
    """
    able = [row for row in rows if row.fits(needs)]
    if not able:
        return None

    def order(row: Advised) -> tuple[float, ...]:
        error = 0.0 if math.isnan(row.feature_error) else -min(row.feature_error, 1.0)
        damage = 0.0 if math.isnan(row.damage) else max(row.damage, 0.0)
        told = 0.0 if math.isnan(row.told_replay_rate) else row.told_replay_rate
        lost = round(max(row.accuracy_lost, 0.0), 1)
        return (row.replay_rate, row.leak, told, round(damage, 1), lost, row.staleness, row.label_rate, error)

    return min(able, key=order)
