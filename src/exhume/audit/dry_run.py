"""The dry run of a live audit: does one message come back, how exact is this server, how large may probes be.

It goes up from a small update. Each one is taken back before the next, and the next is only as much larger as what the
last undo left allows: an undo leaves at most quadratically more (made-up rows are squared in the gram). So the head is
never off by more than the undo tolerance, whatever number format the server keeps its sums in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from exhume.attack.probes import MomentProbe, Probe, moment_update
from exhume.audit.signals import shielded
from exhume.audit.undoing import MOST_HARM, UndoingTarget, undo_tolerance
from exhume.errors import AttackError, RefusedError
from exhume.numerics import Matrix, relative
from exhume.protocol.summary import Update

__all__ = ["DryRun", "dry_run", "dry_run_rows"]

SMALLEST = 1e-3
"""The first update's scale, unless the probes are smaller still."""

STEEPEST = 100.0
"""The most by which one update is larger than the one before. What float32 sums did not feel at all is then, squared,
still below what they hold."""

FLATTEST = 1.5
"""Where the next update could only be so little larger, the climb ends."""


class _TooLargeError(Exception):
    """The server refused an update, which is therefore not in its ledger."""


@dataclass(frozen=True)
class DryRun:
    """What a dry run showed."""

    scale: float | None
    """The largest harmless scale, at most the one asked for; None for probes of own rows, which have none."""
    residual: float
    """What the last undo left of the head, relative."""
    noise: float
    """The server's own arithmetic: by how much answers to u and 2u are not proportional, relative to the head."""


def dry_run(careful: UndoingTarget, build: Callable[[float], Probe], scale: float, actions: list[str]) -> DryRun:
    """Find the largest harmless scale of made-up probes, up to the one asked for; refuse to go on if there is none.

    Parameters
    ----------
    careful
        The live target; it gets its undo tolerance.
    build
        From a scale to the probe.
    scale
        The scale asked for.
    actions
        What was done, in words; gets a line.
    """
    pattern = _pattern(build(1.0))
    chosen, noise, residual = _calibrated(careful, pattern, scale)
    careful.tolerance = undo_tolerance(careful.baseline, noise)
    while chosen < scale and (growth := _growth(careful, residual)) >= FLATTEST:
        size = min(chosen * growth, scale)
        try:
            _, residual = _there_and_back(careful, size * pattern)
        except _TooLargeError:
            break
        if residual > careful.tolerance:
            raise AttackError(_no_way_back(careful, residual))
        chosen = size
    actions.append(
        f"dry run: updates up to scale {chosen:g} and their undo left the head off by {residual:.2g} "
        f"(allowed {careful.tolerance:.2g}); the server's own arithmetic is exact to {noise:.2g}"
    )
    if chosen < scale:
        actions.append(f"probes stay at scale {chosen:g}: larger ones are refused, or could not surely be undone")
    return DryRun(chosen, residual, noise)


def _calibrated(careful: UndoingTarget, pattern: Matrix, scale: float) -> tuple[float, float, float]:
    """Find an update that the head shows clearly; returns its scale, the server's own arithmetic, and what was left."""
    size, base = min(SMALLEST, scale), careful.tolerance
    while True:
        try:
            moved, residual = _there_and_back(careful, size * pattern)
        except _TooLargeError as error:
            raise AttackError(f"not started: the dry run's update was refused ({error}); {_state(careful)}") from error
        unclear = residual <= 10 * base and moved <= 10 * max(residual, base)
        if residual > max(base, MOST_HARM if unclear else min(MOST_HARM, 0.1 * moved)):
            raise AttackError(_no_way_back(careful, residual))
        if not unclear:
            defect = _linearity(careful, size * pattern)
            left = careful.residual  # sums that round lose a little at every undo, however small
            return size, max(defect, residual, left), left
        if size >= scale:
            raise AttackError(
                "not started: the head did not answer a dry run's updates, so an undo could not be checked"
            )
        size = min(size * 10, scale)


def _growth(careful: UndoingTarget, residual: float) -> float:
    """Return by how much the next update may be larger: what its undo leaves stays below half of what is allowed."""
    return min(float(np.sqrt(0.5 * careful.tolerance / max(residual, 1e-300))), STEEPEST)


def dry_run_rows(careful: UndoingTarget, updates: Sequence[Update], actions: list[str]) -> DryRun:
    """Try messages of own rows and their undo: additions and deletions like those of every client."""
    careful.tolerance = max(MOST_HARM, undo_tolerance(careful.baseline))
    residuals, answered = [], False
    for update in updates:
        try:
            moved, residual = _there_and_back(careful, update)
        except _TooLargeError as error:
            raise AttackError(f"not started: the dry run's update was refused ({error}); {_state(careful)}") from error
        if residual > careful.tolerance:
            raise AttackError(_no_way_back(careful, residual))
        answered |= moved > 10 * residual
        residuals.append(residual)
    if not answered:
        raise AttackError("not started: the head did not answer a dry run's updates, so an undo could not be checked")
    actions.append(
        f"dry run: {len(updates)} messages of own rows and their undo left the head off by {max(residuals):.2g} "
        f"(allowed {careful.tolerance:.2g})"
    )
    return DryRun(None, max(residuals), max(residuals))


def _pattern(probe: Probe) -> Matrix:
    """Return a moment that moves every coordinate by as much as all steps of a made-up probe together."""
    assert isinstance(probe, MomentProbe)
    steps = [step.update.net.moment for step in probe.steps()]
    return np.asarray(np.sqrt(np.sum(np.square(steps), axis=0)))


def _there_and_back(careful: UndoingTarget, change: Matrix | Update) -> tuple[float, float]:
    """Send an update and take it back; returns by how much it moved the head, and what its undo left."""
    update = change if isinstance(change, Update) else moment_update(change)
    moved = _answers(careful, [update])[0]
    return relative(moved, careful.baseline.weights), careful.residual


def _answers(careful: UndoingTarget, updates: Sequence[Update]) -> list[Matrix]:
    """Send some updates and take them back; returns by how much each changed the head."""
    heads = [careful.head().weights]
    try:
        heads += [careful.submit(update).weights for update in updates]
    except RefusedError as error:
        with shielded():
            careful.restore()
        raise _TooLargeError(error.reason) from error
    except Exception as error:
        raise AttackError(f"not started: the dry run's update failed ({error}); {_brought_back(careful)}") from error
    with shielded():
        careful.restore()
    if careful.repeated:
        raise AttackError(_repeats(careful))
    return [after - before for before, after in pairwise(heads)]


def _linearity(careful: UndoingTarget, moment: Matrix) -> float:
    """Return by how much answers to u and 2u are not proportional, relative to the head: the server's own arithmetic.

    A ridge head is linear in the moment. Where the second answer is far from the first, a message was applied more than
    once.
    """
    start = careful.head().weights
    one, other = _answers(careful, [moment_update(moment)] * 2)
    ratio = float(np.vdot(one, other) / max(float(np.vdot(one, one)), 1e-300))
    if abs(ratio - 1.0) > 0.4:
        raise AttackError(_repeats(careful))
    largest = max(float(np.linalg.norm(w)) for w in (start, start + one + other))
    return float(np.linalg.norm(other - one)) / max(largest, 1e-300)


def _no_way_back(careful: UndoingTarget, residual: float) -> str:
    return (
        f"not started: after a one-message dry run and its undo the head is off by {residual:.3g} "
        f"(allowed {careful.tolerance:.3g}), so probes could not be taken back{_where(careful)}"
    )


def _repeats(careful: UndoingTarget) -> str:
    return (
        "not started: a message was applied more than once, or not as one: an adapter that sends again what was not "
        f"answered, or a server whose head is not that of its sums. submit() must apply at most once; {_state(careful)}"
    )


def _state(careful: UndoingTarget) -> str:
    return "the head is as it was" if careful.restored else f"THE HEAD DID NOT COME BACK{_where(careful)}"


def _brought_back(careful: UndoingTarget) -> str:
    try:
        with shielded():
            careful.restore()
    except Exception as error:
        return f"THE HEAD DID NOT COME BACK ({error}){_where(careful)}"
    return _state(careful)


def _where(careful: UndoingTarget) -> str:
    """Say where the sum still to be taken back lies, if it had to be put down."""
    if careful.file is None:
        return ""
    return f"; what is still to be taken back is in '{careful.file}': exhume audit --undo '{careful.file}' sends it"
