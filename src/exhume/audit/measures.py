"""What records measure of a state or a transcript: accuracy, the blind guess, the growth of the rank."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from exhume.attack._linalg import relative
from exhume.attack.identify import Diagnostics, diagnose_rank
from exhume.attack.probes.base import Probe
from exhume.attack.transcript import Transcript
from exhume.audit.detect import judge_messages
from exhume.audit.plan import Plan
from exhume.audit.records import RankPoint
from exhume.numerics import Matrix
from exhume.protocol.head import Head
from exhume.simulate.trial import Recovery

__all__ = ["accuracy", "cell_fields", "guess_error", "rank_curve", "recovery_fields"]

CURVE_POINTS = 32


def rank_curve(transcript: Transcript) -> tuple[RankPoint, ...]:
    """Return rank and relative smallest singular value of the response stack after more and more responses."""
    m, bound = transcript.responses, math.ceil(transcript.d / transcript.c)
    wanted = {int(j) for j in np.linspace(1, m, min(m, CURVE_POINTS)).round()}
    wanted |= {j for j in (bound - 1, bound, bound + 1) if 1 <= j <= m}
    points = []
    for j in sorted(wanted):
        found = diagnose_rank(transcript.first(j))[0]
        share = found.sigma_min_X / found.sigma_max_X if j >= bound and found.sigma_max_X > 0 else None
        points.append(RankPoint(responses=j, rank=found.rank_X, sigma_min=share))
    return tuple(points)


def cell_fields(plan: Plan, probe: Probe, found: Diagnostics | None) -> dict[str, Any]:
    """Return what every cell's record has: how well the stack was conditioned, and how its messages look one by one."""
    seen = judge_messages(plan.scenario, probe, np.random.default_rng([plan.settings.seed, 3]))
    return {
        "probe": probe.name,
        "rank": None if found is None else found.rank_X,
        "kappa": None if found is None else found.kappa_X,
        "cancellation_residual": None if found is None else found.r_W,
        "messages": seen.messages,
        "flagged": seen.flagged,
        "magnitude_ratio": seen.ratio,
        "false_positives": seen.false_positives,
    }


def recovery_fields(scored: Recovery) -> dict[str, Any]:
    """Return what every recovery's record has of its score."""
    names = ("relerr_gram", "relerr_moment", "relerr_feature", "label", "label_correct", "known", "min_eigenvalue")
    return {"recovery": scored.method, **{name: getattr(scored, name) for name in names}}


def accuracy(plan: Plan, weights: Matrix) -> float | None:
    """Return the test accuracy of some weights; None where there are no test rows."""
    found = plan.features
    return Head(weights).accuracy(found.test_features, found.test_labels) if len(found.test_labels) else None


def guess_error(plan: Plan, feature: Matrix, label: int) -> float:
    """Return how close the attacker gets without attacking, were it told the label: its own mean of that class."""
    own, labels = plan.scenario.own
    mine = own[labels == label]
    guess = (mine if len(mine) else own).mean(axis=0)
    return relative(guess - feature, feature)
