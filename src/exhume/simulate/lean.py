"""A campaign against a server of so many features that one copy of it is all that memory has room for.

The attack is that of `Campaign` with recoveries from single heads, on the one server itself: each trial takes back
what it did, so that the next starts from the same state but for roundoff. What needs a second copy of the totals is
left out: the residuals of the cancellation, the error of the replayed ledger, projected blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from exhume.attack import estimate, recover
from exhume.attack.coordinates import Coordinates
from exhume.attack.probes.ballast import BallastProbe
from exhume.attack.probes.base import Probe
from exhume.attack.recover import Recovered
from exhume.attack.session import Attack
from exhume.attack.state import Diagnostics, State
from exhume.errors import NotIdentifiedError, RefusedError, SingularStateError
from exhume.numerics import RANK_TOLERANCE, Rows, relative
from exhume.protocol.summary import Summary, Update
from exhume.simulate.federation import Federation
from exhume.simulate.listening import lay_ballast, listen, refusal_of
from exhume.simulate.scoring import Replayed, score
from exhume.simulate.trial import Campaign, Trial

__all__ = ["LEAN_FROM", "LEAN_SQUARES", "LeanCampaign"]

LEAN_FROM = 4096
"""From so many features on an audit is lean where its recoveries allow it."""

LEAN_SQUARES = 7
"""Matrices of d x d numbers that a lean campaign holds: everybody's gram, the server's with the ballast in it, its
factor and the place of the next one; A, H and the factor of A, or while these are made H, its factor and the stack of
answers."""

_BAND = 512


class LeanCampaign(Campaign):
    """One probe against one bare federation of many features; trials run on the federation itself.

    Parameters are those of `Campaign`.
    """

    def __init__(
        self, federation: Federation, probe: Probe, *, estimator: str = "direct", tolerance: float = RANK_TOLERANCE
    ) -> None:
        self.federation, self.probe, self.scenario = federation, probe, federation.scenario
        self.attack = Attack(federation.target())
        self.refused_ballast = lay_ballast(self.attack, probe)
        self.W = federation.server.ledger.head()
        self.outcome = outcome = listen(self.attack, probe)
        self.before, self.diagnostics, self.reason = None, None, outcome.why(self.refused_ballast)
        if outcome.transcript is not None and outcome.responses:
            self._estimate(estimate.REGISTRY.find(estimator), outcome.transcript.coordinates, tolerance)
        self.sharper = self.before
        weight = probe.weight if isinstance(probe, BallastProbe) and self.refused_ballast is None else 0.0
        self.state_error = None if self.before is None else _state_error(self.before, federation, weight)

    def _estimate(self, estimator: estimate.Estimator, at: Coordinates | None, tolerance: float) -> None:
        """Identify the state, without the run as it was heard: there is room for the stacks once."""
        outcome = self.outcome
        assert outcome.transcript is not None
        run, nothing = outcome.transcript.reduced(), np.empty((self.scenario.d, 0))
        self.outcome = outcome = replace(outcome, transcript=replace(outcome.transcript, X=nothing, Z=nothing))
        try:
            found = estimator(run, tolerance=tolerance)
            self.before = found if at is None else estimate.restored(found, at)
            self.diagnostics = found.diagnostics
        except NotIdentifiedError as error:
            seen = error.diagnostics
            self.diagnostics = seen if isinstance(seen, Diagnostics) else None
            self.reason = outcome.why(error.reason)

    def trial(self, rows: Rows, methods: Sequence[str] = ("rank-one",), kind: str | None = None) -> Trial:
        """Let the owners delete some rows, attack, score, and put everything back."""
        kind = kind or ("record" if len(rows) == 1 else "class")
        wanted = [recover.REGISTRY.find(method) for method in methods]
        deleted = self.scenario.summary(rows)
        asked = self.federation.delete(rows)
        public = self.federation.head() if asked.released else None
        known = self.before is not None
        label = int(self.scenario.labels[rows[0]]) if len(rows) == 1 else None
        trial = Trial(
            len(rows),
            label,
            asked,
            self.federation,
            self.federation.server.ledger.head(),
            None if public is None else public.weights,
            known,
            None if known else self.reason,
            self.state_error,
            gone=rows,
        )
        if asked.refused is not None:
            trial.identified, trial.reason = False, f"deletion refused: {asked.refused}"
            return trial
        for entry in wanted:
            if self.before is None or public is None or kind not in entry.kinds:
                continue
            if entry.needs != "head":
                trial.reason = f"{entry.name} needs a second identification: left out from {LEAN_FROM} features on"
                continue
            attack = self.attack.facing(self.federation.target())
            found = entry(self.before, attack.observe(), **self._knowledge(trial))
            self._score_and_replay(trial, entry.name, found, deleted, attack)
        self.federation.restore(rows)
        return trial

    def _score_and_replay(self, trial: Trial, name: str, found: Recovered, deleted: Summary, attack: Attack) -> None:
        scored = score(name, found, deleted, trial.label)
        trial.recoveries.append(scored)
        trial.blocks[name] = found.block
        update = Update.adding(found.block.summary)
        try:
            attack.submit(update)
        except (RefusedError, SingularStateError) as error:
            rule, why = refusal_of(error)
            trial.replays.append(Replayed(name, float("inf"), None, refused=f"{rule}: {why}", cost=attack.cost))
            return
        head, cost = self.federation.server.ledger.head(), attack.cost
        off = relative(head - self.W, self.W)
        attack.submit(update.undo())
        trial.replays.append(Replayed(name, off, off, relerr_gram_psd=scored.relerr_gram, head=head, cost=cost))
        trial.cost = max(trial.cost, cost, key=lambda one: one.messages)


def _state_error(state: State, federation: Federation, ballast: float) -> float:
    """Return the relative error of an identified A, band by band; on the live coordinates where these are not all."""
    gram, ridge = federation.scenario.total.gram, federation.scenario.gamma + ballast
    off = size = 0.0
    for i in range(0, len(gram), _BAND):
        band = gram[i : i + _BAND].copy()
        band[np.arange(len(band)), np.arange(i, i + len(band))] += ridge
        off += float(np.linalg.norm(state.A[i : i + _BAND] - band)) ** 2
        size += float(np.linalg.norm(band)) ** 2
    return float(np.sqrt(off / size))
