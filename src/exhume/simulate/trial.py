"""One attack on one deletion, on any server: the state before is identified once, then each deletion is a trial.

The attacker's part sees only heads and its own messages; this module plays the evaluator, who knows the hidden ledger,
has the owners delete through the server, and scores what came out. Every refusal and every withheld head is an outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from exhume.attack import estimate, recover
from exhume.attack.block import Block
from exhume.attack.probes.base import Probe
from exhume.attack.recover import Recovered
from exhume.attack.session import Attack, Cost
from exhume.attack.state import Diagnostics, State, alike
from exhume.attack.theory.bounds import DeletionRun, amplification_bound
from exhume.attack.transcript import Transcript
from exhume.errors import NotIdentifiedError, RefusedError, SingularStateError
from exhume.numerics import RANK_TOLERANCE, Matrix, Rows, relative
from exhume.protocol.head import Head
from exhume.protocol.message import itemise
from exhume.protocol.summary import Summary, Update
from exhume.simulate.federation import Asked, Federation
from exhume.simulate.listening import ProbeOutcome, lay_ballast, listen, refusal_of
from exhume.simulate.scoring import Replayed, Residuals, Scored, as_known, score, state_error

__all__ = ["Campaign", "Trial"]


@dataclass
class Trial:
    """One deletion under attack."""

    rows: int
    """How many records were deleted."""
    label: int | None
    """The true label of a single deleted record."""
    asked: Asked
    federation: Federation
    """As the deletion, and then the attacker's probes, left it."""
    head: Matrix
    """The exact head after the deletion."""
    public: Matrix | None
    """The head that went out after the deletion, if one did."""
    identified: bool
    """Whether both states passed the estimator's tests (the state before alone, where no second one was sought)."""
    reason: str | None
    state_error_pre: float | None
    state_error_post: float | None = None
    amplification: float | None = None
    """The bound ``B_S`` on the differenced gram's relative error."""
    post: Diagnostics | None = None
    residuals: Residuals | None = None
    outcome: ProbeOutcome | None = None
    """Of the probe sequence after the deletion, if there was one."""
    cost: Cost = field(default_factory=Cost)
    """Of the most expensive recovery."""
    recoveries: list[Scored] = field(default_factory=list)
    replays: list[Replayed] = field(default_factory=list)
    blocks: dict[str, Block] = field(default_factory=dict)
    gone: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """Which records were deleted."""

    def recovery(self, method: str) -> Scored | None:
        """Return what one recovery found, if it ran."""
        return next((r for r in self.recoveries if r.method == method), None)

    def replay(self, method: str) -> Replayed | None:
        """Return what the replay of one recovery's block did, if it ran."""
        return next((r for r in self.replays if r.method == method), None)


class Campaign:
    """One probe against one federation, its state identified once if it can be: a factory of trials.

    Parameters
    ----------
    federation
        The server with everybody's rows in it; the campaign takes it over.
    probe
        What the attacker sends.
    estimator
        What makes a state of a probe's answers, by name.
    tolerance
        Rank tolerance of the identification.
    project
        Whether trials also score the projection to positive semidefinite (two eigendecompositions each).
    """

    def __init__(
        self,
        federation: Federation,
        probe: Probe,
        *,
        estimator: str = "direct",
        tolerance: float = RANK_TOLERANCE,
        project: bool = True,
    ) -> None:
        self.federation, self.probe, self.scenario = federation, probe, federation.scenario
        self._estimator = estimate.REGISTRY.find(estimator)
        self._tolerance, self._project = tolerance, project
        self.attack = Attack(federation.target())
        self.refused_ballast = lay_ballast(self.attack, probe)
        ledger = federation.server.ledger
        self._start, self.A, self.W = ledger.summary, federation.A, ledger.head()
        """The hidden totals, the state and the exact head that trials are measured against, with the probe's ballast
        where it has one."""
        exact = federation.exact
        self.outcome = listen(self.attack, probe, show_rows=federation.known.show_rows)
        self.residuals = Residuals.between(self._start, self.W, federation.server.ledger)
        found, self.diagnostics, self.reason = self._identified(self.outcome)
        self.state_error = state_error(found, self.A)
        """Relative error of the estimator's state."""
        # With dead coordinates the symmetric estimate is the sharper one for exact heads too.
        whole = found is None or found.live is None
        sharper = found if exact and whole else self._sharper(self.outcome.transcript)
        self.state_error_sharper = state_error(sharper, self.A)
        standing = self.outcome.standing
        self.before, self.sharper = _moved(found, standing), _moved(sharper, standing)
        if standing is not None:
            self.A, self.W = federation.A, federation.server.ledger.head()

    @property
    def transcript(self) -> Transcript:
        """What was heard before any deletion."""
        if self.outcome.transcript is None:
            raise NotIdentifiedError(self.outcome.broken or "no head to start from")
        return self.outcome.transcript

    def _identified(self, outcome: ProbeOutcome) -> tuple[State | None, Diagnostics | None, str | None]:
        if outcome.transcript is None or not outcome.responses:
            return None, None, outcome.why()
        try:
            state = self._estimator(outcome.transcript, tolerance=self._tolerance, guess=self._guess)
        except NotIdentifiedError as error:
            found = error.diagnostics if isinstance(error.diagnostics, Diagnostics) else None
            return None, found, outcome.why(error.reason)
        except np.linalg.LinAlgError as error:
            return None, None, outcome.why(f"unstable: {error}")
        return state, state.diagnostics, outcome.why(self.refused_ballast)

    @cached_property
    def _guess(self) -> Matrix:
        """The attacker's guess of the state without any answer: the gram of its own rows."""
        return estimate.gram_guess(self.scenario.own[0])

    def _sharper(self, transcript: Transcript | None) -> State | None:
        """Return the noise-aware estimate that recoveries from single heads start from, unless heads are exact."""
        if transcript is None or not transcript.responses:
            return None
        try:
            return estimate.symmetric(transcript, tolerance=self._tolerance, guess=self._guess)
        except (NotIdentifiedError, np.linalg.LinAlgError):
            return None

    def trial(self, rows: Rows, methods: Sequence[str] = ("difference", "rank-one"), kind: str | None = None) -> Trial:
        """Let the owners delete some rows, attack, score. Each trial starts from the same state."""
        wanted = [recover.REGISTRY.find(method) for method in methods]
        kind = kind or ("record" if len(rows) == 1 else "class")
        federation = self.federation.fork()
        asked = federation.delete(rows)
        public = federation.head() if asked.released else None
        label = int(self.scenario.labels[rows[0]]) if len(rows) == 1 else None
        known = self.before is not None
        trial = Trial(
            len(rows),
            label,
            asked,
            federation,
            federation.server.ledger.head(),
            None if public is None else public.weights,
            known,
            None if known else self.reason,
            self.state_error,
            gone=rows,
        )
        if asked.refused is not None:
            trial.identified, trial.reason = False, f"deletion refused: {asked.refused}"
            return trial
        deleted = self.scenario.summary(rows)
        # Recoveries from one head first: those that probe again change the federation.
        for entry in sorted((e for e in wanted if kind in e.kinds), key=lambda e: e.needs != "head"):
            step = self._from_head if entry.needs == "head" else self._from_probe
            step(trial, entry, deleted)
        order = [entry.name for entry in wanted]
        trial.recoveries.sort(key=lambda r: order.index(r.method))
        trial.replays.sort(key=lambda r: order.index(r.method))
        return trial

    def _from_head(self, trial: Trial, entry: recover.Recovery, deleted: Summary) -> None:
        if self.sharper is None:
            return
        if trial.public is None:
            trial.reason = _joined(trial.reason, "withheld: no head went out after the deletion")
            return
        attack = self.attack.facing(trial.federation.target())
        found = entry(self.sharper, attack.observe(), **self._knowledge(trial))
        self._keep(trial, entry, found, deleted, attack, trial.federation)

    def _from_probe(self, trial: Trial, entry: recover.Recovery, deleted: Summary) -> None:
        before = self.before if entry.needs == "state" else self.sharper
        if before is None:
            return
        federation = trial.federation
        attack = self.attack.facing(federation.target())
        start, head = federation.server.ledger.summary, federation.server.ledger.head()
        trial.outcome = outcome = listen(attack, self.probe, show_rows=federation.known.show_rows)
        trial.residuals = Residuals.between(start, head, federation.server.ledger)
        after: State | Transcript | None = outcome.transcript
        if entry.needs == "state":
            after, trial.post, reason = self._identified(outcome)
            if after is not None:
                self._judge_states(trial, before, after, deleted)
            else:
                trial.identified, trial.reason = False, reason
        if after is not None:
            found = entry(before, after, **self._knowledge(trial))
            self._keep(trial, entry, found, deleted, attack, federation, outcome.standing)

    def _knowledge(self, trial: Trial) -> dict[str, object]:
        """Return what the attacker knows besides heads: its own rows, public sizes, how much was deleted."""
        return self._known | {"records": trial.rows}

    @cached_property
    def _known(self) -> dict[str, object]:
        own, labels = self.scenario.own  # a copy of many rows: made once for all trials
        rows = sum(map(len, self.scenario.parts))
        return {"nonnegative": self.scenario.nonnegative, "features": own, "labels": labels, "rows": rows}

    def _judge_states(self, trial: Trial, before: State, after: State, deleted: Summary) -> None:
        before, after = alike(before, after)
        truth = self.A - deleted.gram
        trial.state_error_post = state_error(after, truth)
        A = as_known(self.A, after)
        run = DeletionRun(A, as_known(truth, after), self.W, trial.head, before, after)
        trial.amplification = amplification_bound(run).right

    def _keep(
        self,
        trial: Trial,
        entry: recover.Recovery,
        found: Recovered,
        deleted: Summary,
        attack: Attack,
        federation: Federation,
        standing: Summary | None = None,
    ) -> None:
        scored = score(entry.name, found, deleted, trial.label)
        own_gram = entry.needs == "state"
        if own_gram and self._project:
            scored = replace(scored, min_eigenvalue=found.block.min_eigenvalue)
        if 1 < trial.rows < self.scenario.d:
            scored = replace(scored, membership=self._membership(found.block, trial.gone))
        trial.recoveries.append(scored)
        trial.blocks[entry.name] = found.block
        replayed = self._replayed(entry.name, found.block, deleted, trial.label, attack, federation, standing)
        if not own_gram:
            # A record's own gram is positive semidefinite: raw and projected are the same.
            replayed = replace(replayed, head_error_psd=replayed.head_error, relerr_gram_psd=scored.relerr_gram)
        elif self._project:
            replayed = self._projected(replayed, found.block, deleted, federation, standing)
        trial.replays.append(replayed)
        trial.cost = max(trial.cost, replayed.cost or attack.cost, key=lambda cost: cost.messages)

    def _membership(self, block: Block, gone: Rows) -> float | None:
        """Return how well a block tells its own records from others of their classes that stayed."""
        s = self.scenario
        others = np.setdiff1d(s.others, gone)
        others = others[np.isin(s.labels[others], s.labels[gone])]
        if not len(others):
            return None
        found = recover.membership(block, s.features[np.concatenate([gone, others])])
        return recover.ranking(found.outside[: len(gone)], found.outside[len(gone) :])

    def _replayed(
        self,
        method: str,
        block: Block,
        deleted: Summary,
        label: int | None,
        attack: Attack,
        federation: Federation,
        standing: Summary | None,
    ) -> Replayed:
        """Replay a block through a copy of the server, raw; where rules refuse that, projected.

        What the attacker has left ``standing`` since the deletion is taken out before the outcome is measured.
        """
        refused: str | None = None
        for form in self._forms(block, label):
            spare = federation.fork()
            twin = attack.facing(spare.target())
            try:
                twin.submit(form())
            except (RefusedError, SingularStateError) as error:
                rule, refused = refusal_of(error)
                if federation.known.bare:
                    return Replayed(method, float("inf"), None, refused=f"{rule}: {refused}", cost=attack.cost)
                continue
            ledger = spare.server.ledger
            if standing is not None:
                ledger.apply(Update.deleting(standing))
            head, end = ledger.head(), ledger.summary
            return Replayed(
                method,
                relative(head - self.W, self.W),
                None,
                ledger_error_gram=relative(end.gram - self._start.gram, self._start.gram),
                ledger_error_moment=relative(end.moment - self._start.moment, self._start.moment),
                head=head,
                cost=twin.cost,
            )
        return Replayed(method, None, None, refused=refused, cost=attack.cost)

    def _forms(self, block: Block, label: int | None) -> list[Callable[[], Update]]:
        known = self.federation.known
        if known.show_rows and label is not None:
            return [lambda: _as_row(block, self.scenario.classes)]
        raw = [lambda: Update.adding(block.summary)]
        return raw if known.bare else [*raw, lambda: Update.adding(block.projected().summary)]

    def _projected(
        self, replayed: Replayed, block: Block, deleted: Summary, federation: Federation, standing: Summary | None
    ) -> Replayed:
        """Measure the projected block on a copy of the ledger alone: what a validating server could take."""
        projected = block.projected()
        spare = federation.server.ledger.copy()
        spare.apply(Update.adding(projected.summary))
        if standing is not None:
            spare.apply(Update.deleting(standing))
        return replace(
            replayed,
            head_error_psd=relative(spare.head() - self.W, self.W),
            relerr_gram_psd=relative(projected.gram - deleted.gram, deleted.gram),
            ledger_error_gram_psd=relative(spare.summary.gram - self._start.gram, self._start.gram),
        )


def _moved(state: State | None, standing: Summary | None) -> State | None:
    """Return a state with what the attacker has left standing in it, which it knows."""
    if state is None or standing is None:
        return state
    A, G = state.A + standing.gram, state.G + standing.moment
    try:
        H = cho_solve(cho_factor(A), np.eye(len(A)))
    except np.linalg.LinAlgError:
        return None
    return replace(state, A=A, H=H, G=G, baseline=Head(H @ G, state.baseline.precision))


def _as_row(block: Block, classes: int) -> Update:
    sample = block.as_sample()
    return itemise(classes, add=(sample.feature[None, :], [sample.label]))


def _joined(*parts: str | None) -> str | None:
    return "; ".join(part for part in parts if part) or None
