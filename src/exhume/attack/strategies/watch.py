"""Identification on a busy server: every broadcast is watched, and other people's changes are read on the way.

The paper asks for a quiet interval. It is not needed: `estimate.stitched` fits the state and everybody's changes
together, from the attacker's own answers and the jumps of the head in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from exhume.attack._line import line
from exhume.attack.estimate.direct import direct
from exhume.attack.estimate.partial import partial
from exhume.attack.estimate.stitched import Stitched, stitched
from exhume.attack.estimate.symmetric import symmetric
from exhume.attack.events import Event, read_events
from exhume.attack.probes.base import Probe
from exhume.attack.session import Attack
from exhume.attack.state import State
from exhume.attack.watched import Watched, Watcher
from exhume.errors import AttackError, NotIdentifiedError
from exhume.numerics import RANK_TOLERANCE, Matrix
from exhume.protocol.head import Head, unit_roundoff

__all__ = ["Sighted", "listen", "read", "watch"]

_POLLS = 64  # heads of others that the attacker looks at between two of its own messages


@dataclass(frozen=True, repr=False)
class Sighted:
    """What watching a busy server gave away."""

    state: State
    """The state at the attacker's first answer, as if nobody had moved since."""
    events: tuple[Event, ...]
    """Every change of somebody else's, in order."""
    fit: Stitched
    watched: Watched

    @property
    def now(self) -> Matrix:
        """A as it is after the last change that was read."""
        return self.events[-1].after if self.events else self.state.A

    def __repr__(self) -> str:
        return line(self, state=self.state, events=len(self.events), misfit=self.fit.misfit)


def watch(
    attack: Attack,
    probe: Probe,
    *,
    nonnegative: bool = False,
    guess: Matrix | None = None,
    tolerance: float = RANK_TOLERANCE,
    rest: Callable[[], bool] | None = None,
) -> Sighted:
    """Run a probe on a busy server and read its state and everything that others changed meanwhile.

    Parameters
    ----------
    attack
        The malicious client.
    probe
        What to send. One that leaves a class direction alone in every message (`probes.label_swap`, or
        ``designed(..., spare=1)``) shows changes that come in one broadcast with its own, too.
    nonnegative
        Whether the encoder's features are known to be non-negative.
    guess
        A rough positive definite guess of A, where heads are rounded or answers are too few.
    tolerance
        Rank tolerance, as in `estimate.direct`.
    rest
        Called after the probe was taken back until it returns False: time in which the attacker only watches.

    Raises
    ------
    NotIdentifiedError
        If the answers do not determine the state and no guess was given.
    """
    return read(listen(attack, probe, rest=rest), nonnegative=nonnegative, guess=guess, tolerance=tolerance)


def listen(attack: Attack, probe: Probe, *, rest: Callable[[], bool] | None = None) -> Watched:
    """Run a probe and note every broadcast; the probe is taken back even if the run fails."""
    watcher = Watcher(attack.observe())
    sent = 0
    try:
        for step in probe.steps():
            _look(attack, watcher)
            head = attack.submit(step.update)
            sent += 1
            watcher.sent(step.update.net)
            _note(watcher, head)
    finally:
        total = watcher.total
        if not total.is_zero:
            _look(attack, watcher)
            undo = probe.cancel(total, sent)
            head = attack.submit(undo)
            watcher.sent(undo.net)
            _note(watcher, head)
    _look(attack, watcher)
    while rest is not None and rest():
        _look(attack, watcher)
    return watcher.watched()


def read(
    watched: Watched, *, nonnegative: bool = False, guess: Matrix | None = None, tolerance: float = RANK_TOLERANCE
) -> Sighted:
    """Fit state and changes to what was watched, and read every change."""
    fit = stitched(watched)
    state = _state(fit, guess, tolerance)
    return Sighted(state, read_events(watched, fit, state, nonnegative=nonnegative), fit, watched)


def _state(fit: Stitched, guess: Matrix | None, tolerance: float) -> State:
    """Take Algorithm 1 on exact heads, symmetric regression on rounded ones, a guess for what both leave open."""
    exact = unit_roundoff(fit.transcript.baseline.precision) <= unit_roundoff("float64")
    try:
        if exact:
            return direct(fit.transcript, tolerance=tolerance)
        return symmetric(fit.transcript, tolerance=tolerance, guess=guess)
    except (NotIdentifiedError, np.linalg.LinAlgError):
        if guess is None:
            raise
        return partial(fit.transcript, tolerance=tolerance, guess=guess)


def _look(attack: Attack, watcher: Watcher) -> None:
    """Note what others brought about since the last look, one broadcast after another."""
    for _ in range(_POLLS):
        if not watcher.heard(attack.observe()):
            return


def _note(watcher: Watcher, head: Head) -> None:
    if not watcher.heard(head):
        raise AttackError("the server withheld its head after a probe: the response stack cannot be built")
