"""What an audit of many features will need of memory and time, said before it starts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs
from threadpoolctl import threadpool_limits

from exhume.attack import recover
from exhume.attack.estimate.base import READ_OFF_FROM
from exhume.attack.probes import ballast_of
from exhume.audit.plan import Plan
from exhume.capacity import SQUARES
from exhume.simulate.lean import LEAN_FROM, LEAN_SQUARES

__all__ = ["SAID_FROM", "Forecast", "forecast", "said"]

SAID_FROM = 2048
"""From so many features on the forecast is said."""

OVERHEAD = 3e8
"""Bytes of the program itself."""

_TIMED = 1024
"""The size at which this machine's rate of a factorisation is measured."""

_ANSWERED = 4096
"""The size at which an answer is timed: no cache holds the matrix."""


@dataclass(frozen=True)
class Forecast:
    """How much memory and time an audit will take, roughly."""

    memory: float
    """Bytes, of all processes together."""
    seconds: float
    left_out: str | None
    """What a lean audit leaves out; None for others."""

    def __str__(self) -> str:
        took = f"{self.seconds:.0f} s" if self.seconds < 90 else f"{self.seconds / 60:,.0f} min"
        said = f"This will need about {self.memory / 1e9:.1f} GB of memory and {took}."
        return said if self.left_out is None else f"{said} From {LEAN_FROM:,} features on {self.left_out}."


@dataclass(frozen=True)
class _Rates:
    """What one core does: operations a second in a factorisation, and seconds of one head's solve, an entry of A."""

    factor: float
    answer: float

    @classmethod
    def measured(cls, classes: int) -> _Rates:
        a = np.asfortranarray(np.eye(_TIMED) * 2.0)
        large, moment = np.zeros((_ANSWERED, _ANSWERED), order="F"), np.ones((_ANSWERED, classes), order="F")
        large[:] = 1e-4  # pages that nobody has written to take no memory, and no time
        large.flat[:: _ANSWERED + 1] = 2.0
        with threadpool_limits(1):  # where other programs run, several threads wait for each other
            factor = _least(lambda: dpotrf(a, lower=1, clean=0))
            answer = _least(lambda: dpotrs(large, moment, lower=1))
        return cls(_TIMED**3 / 3 / factor, answer / _ANSWERED**2)


def _least(call: Callable[[], object], turns: int = 5) -> float:
    taken = []
    for _ in range(turns):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return max(min(taken), 1e-9)


def forecast(plan: Plan) -> Forecast:
    """Estimate what a plan will take: operations of each step over the rates of this machine, measured now.

    Memory is that of the matrices that are held at once; time counts the sum of all rows, factorisations, answers and
    estimates, and neither figures nor other programs.
    """
    d, c, settings = plan.scenario.d, plan.scenario.classes, plan.settings
    rates, jobs = _Rates.measured(c), 1 if plan.lean else settings.jobs or os.cpu_count() or 1
    answer = d * d * rates.answer
    update = d**3 / 3 / rates.factor
    seconds = sum(map(len, plan.scenario.parts)) * d * d / rates.factor + len(plan.facings) * update
    again = sum(recover.REGISTRY[name].needs != "head" for name in settings.recovery)
    for name in settings.probe:
        probe = plan.probe(name)
        moves = getattr(probe, "batches", None) is not None
        run = probe.responses * (answer + (update if moves else 0.0))
        read = name in ("designed", "ballast") and d >= READ_OFF_FROM
        whole = run + (3.0 if read else 30.0) * d**3 / rates.factor + (0.0 if ballast_of(probe) is None else update)
        # Four changes of one record, whose heads follow from the kept factor and are tested, or eight factorisations.
        trial = again * whole + (16.0 * answer if plan.lean else 8.0 * update)
        seconds += len(plan.facings) * (whole + len(plan.deletions()) * trial)
    squares = LEAN_SQUARES if plan.lean else 2 * SQUARES
    memory = jobs * (8.0 * squares * d * d + OVERHEAD + plan.scenario.features.nbytes)
    return Forecast(memory, seconds / jobs, plan.left_out)


def said(plan: Plan) -> str | None:
    """Return the forecast in words for an audit of many features; None for others."""
    return None if plan.scenario.d < SAID_FROM else f"{plan.scenario.d:,} features. {forecast(plan)}"
