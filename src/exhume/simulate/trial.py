"""One attack on one deletion: the state before is identified once per cell, then each deletion is a trial of its own.

The attacker's part sees only heads and its own messages; this module plays the evaluator, who knows the hidden ledger,
applies the honest deletion through the server, and scores what came out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from exhume.attack._linalg import relative
from exhume.attack.block import Block
from exhume.attack.bounds import DeletionRun, amplification_bound
from exhume.attack.identify import Diagnostics, State, identify
from exhume.attack.probes.base import Probe
from exhume.attack.recover import difference, rank_one
from exhume.attack.session import Attack, Cost
from exhume.attack.symmetric import identify_symmetric
from exhume.attack.transcript import Transcript
from exhume.errors import AttackError, InputError, NotIdentifiedError, RefusedError, SingularStateError
from exhume.numerics import Matrix, Rows
from exhume.protocol.ledger import Ledger
from exhume.protocol.rules import Heads
from exhume.protocol.server import Server
from exhume.protocol.summary import Summary, Update
from exhume.simulate.scenario import Scenario

__all__ = ["Cell", "Recovery", "Replay", "Residuals", "Trial", "scored_as", "sharpened"]


@dataclass(frozen=True)
class Recovery:
    """What one estimator made of one deletion, scored against the truth."""

    method: str
    relerr_gram: float
    relerr_moment: float
    label: int | None
    """The label that the attacker read off; None where more than one record was deleted."""
    label_correct: bool | None
    relerr_feature: float | None
    known: bool | None
    """Whether the attacker's own check stands by it; None for estimators without one."""
    margin: float | None
    min_eigenvalue: float | None = None


@dataclass(frozen=True)
class Replay:
    """What re-inserting the recovered block did."""

    method: str
    head_error: float
    """Relative distance of the unrounded head from the one before the deletion, raw block; infinite if the ledger
    refused it."""
    head_error_psd: float | None
    """The same with the block's gram projected to positive semidefinite; None if the projected replay failed."""
    relerr_gram_psd: float | None
    ledger_error_gram: float | None = None
    """How far the replayed ledger's gram is from the one before the deletion, relative to the whole ledger."""
    ledger_error_moment: float | None = None
    ledger_error_gram_psd: float | None = None


@dataclass(frozen=True)
class Residuals:
    """What the cancellation left behind, relative: gram, moment and head (hidden values, for the evaluator)."""

    e_S: float
    e_G: float
    e_W: float

    @classmethod
    def between(cls, before: Ledger, after: Ledger) -> Residuals:
        """Compare two ledgers."""
        a, b = before.summary, after.summary
        head = before.head()
        return cls(
            relative(b.gram - a.gram, a.gram),
            relative(b.moment - a.moment, a.moment),
            relative(after.head() - head, head),
        )


@dataclass(frozen=True)
class Trial:
    """One deletion under attack."""

    rows: int
    """How many records were deleted."""
    label: int | None
    """The true label of a single deleted record."""
    identified: bool
    """Whether both states passed Algorithm 1's tests (the state before alone, where no second one was sought)."""
    reason: str | None
    recoveries: tuple[Recovery, ...]
    replays: tuple[Replay, ...]
    state_error_pre: float | None
    state_error_post: float | None
    amplification: float | None
    """The bound ``B_S`` on the differenced gram's relative error."""
    post: Diagnostics | None
    residuals: Residuals | None
    cost: Cost
    blocks: tuple[tuple[str, Block], ...] = ()
    """The recovered blocks by method, where they were asked for."""

    def recovery(self, method: str) -> Recovery | None:
        """Return what one estimator found, if it ran."""
        return next((r for r in self.recoveries if r.method == method), None)


class Cell:
    """One scenario, probe and head precision, its state identified once: a factory of trials.

    Parameters
    ----------
    scenario, probe, heads
        Who is there, what the attacker sends, in what precision heads are released.
    tolerance
        Rank tolerance of the identification.
    nonnegative
        Whether the encoder is known to give non-negative features.
    project
        Whether trials also score the projection to positive semidefinite (two eigendecompositions each).
    """

    def __init__(
        self,
        scenario: Scenario,
        probe: Probe,
        heads: str,
        *,
        tolerance: float = 1e-10,
        nonnegative: bool = False,
        project: bool = True,
    ) -> None:
        self.scenario, self.probe, self.heads = scenario, probe, heads
        self._tolerance, self._nonnegative, self._project = tolerance, nonnegative, project
        self.server = scenario.server(heads)
        start = self.server.ledger.copy()
        self._start = start.summary
        self.A = self._start.gram + scenario.gamma * np.eye(scenario.d)
        self.W = start.head()
        self.attack = Attack(self.server.as_target("attacker"))
        self.transcript: Transcript = self.attack.run(probe)
        self.residuals = Residuals.between(start, self.server.ledger)
        self.before, self.reason = self._identified(self.transcript)
        self.diagnostics = self.before.diagnostics if self.before is not None else self._failed
        self.sharper = self._sharper()

    def _identified(self, transcript: Transcript) -> tuple[State | None, str | None]:
        try:
            return identify(transcript, tolerance=self._tolerance), None
        except NotIdentifiedError as error:
            self._failed = error.diagnostics if isinstance(error.diagnostics, Diagnostics) else None
            return None, error.reason

    def _sharper(self) -> State | None:
        """Return the estimate that the rank-one recovery starts from: noise-aware where heads are rounded."""
        if self.heads == "float64":
            return self.before
        return sharpened(self.transcript, self.scenario.own[0], self._tolerance)

    @property
    def state_error(self) -> float | None:
        """Relative error of the paper's estimate of the state before."""
        return None if self.before is None else relative(self.before.A - self.A, self.A)

    @property
    def state_error_sharper(self) -> float | None:
        """Relative error of the noise-aware estimate of the state before."""
        return None if self.sharper is None else relative(self.sharper.A - self.A, self.A)

    def trial(
        self, rows: Rows, methods: tuple[str, ...] = ("difference", "rank_one"), *, keep_blocks: bool = False
    ) -> Trial:
        """Delete some rows through the server, attack, score. Each trial starts from the same state."""
        unknown = set(methods) - {"difference", "rank_one"}
        if unknown:
            raise InputError("methods", "difference, rank_one", ", ".join(sorted(unknown)))
        deleted = self.scenario.summary(rows)
        server = Server(self.server.ledger.copy(), release=Heads(self.heads))
        server.submit(Update.deleting(deleted), "honest")
        attack = self.attack.elsewhere(server.as_target("attacker"))
        label = int(self.scenario.labels[rows[0]]) if len(rows) == 1 else None
        trial = Trial(
            len(rows),
            label,
            self.before is not None,
            self.reason,
            (),
            (),
            self.state_error,
            None,
            None,
            None,
            None,
            attack.cost,
        )
        if "rank_one" in methods and self.sharper is not None and label is not None:
            scored, block = self._rank_one(attack, deleted, label)
            trial = replace(trial, recoveries=(scored,), blocks=(("rank_one", block),))
        if "difference" in methods:
            trial = self._difference(trial, server, attack, deleted)
        return replace(trial, cost=attack.cost, blocks=trial.blocks if keep_blocks else ())

    def _rank_one(self, attack: Attack, deleted: Summary, label: int) -> tuple[Recovery, Block]:
        assert self.sharper is not None
        found = rank_one(self.sharper, attack.observe(), nonnegative=self._nonnegative)
        block = found.block(self.scenario.classes)
        scored = scored_as("rank_one", block, deleted, label)
        return replace(scored, known=found.known, margin=found.margin), block

    def _difference(self, trial: Trial, server: Server, attack: Attack, deleted: Summary) -> Trial:
        if self.before is None:
            return trial
        start = server.ledger.copy()
        try:
            transcript = attack.run(self.probe)
        except (AttackError, RefusedError) as error:
            return replace(trial, identified=False, reason=str(error))
        after, reason = self._identified(transcript)
        residuals = Residuals.between(start, server.ledger)
        if after is None:
            return replace(trial, identified=False, reason=reason, post=self._failed, residuals=residuals)
        block = difference(self.before, after)
        A_post = self.A - deleted.gram
        run = DeletionRun(self.A, A_post, self.W, start.head(), self.before, after)
        scored = scored_as("difference", block, deleted, trial.label)
        if self._project:
            scored = replace(scored, min_eigenvalue=block.min_eigenvalue)
        return replace(
            trial,
            recoveries=(scored, *trial.recoveries),
            replays=(self._replay("difference", server, attack, block, deleted),),
            state_error_post=relative(after.A - A_post, A_post),
            amplification=amplification_bound(run).right,
            post=after.diagnostics,
            residuals=residuals,
            blocks=(("difference", block), *trial.blocks),
        )

    def _replay(self, method: str, server: Server, attack: Attack, block: Block, deleted: Summary) -> Replay:
        """Replay the block, raw and projected, each from the actual post-cancellation state."""
        spare = server.ledger.copy() if self._project else None
        start = self._start
        try:
            attack.replay(block)
            end = server.ledger.summary
            replayed = Replay(
                method,
                relative(server.ledger.head() - self.W, self.W),
                None,
                None,
                ledger_error_gram=relative(end.gram - start.gram, start.gram),
                ledger_error_moment=relative(end.moment - start.moment, start.moment),
            )
        except (RefusedError, SingularStateError):  # a raw block may leave no head: it could not be replayed
            replayed = Replay(method, float("inf"), None, None)
        if spare is None:
            return replayed
        projected = block.projected()
        spare.apply(Update.adding(projected.summary))
        return replace(
            replayed,
            head_error_psd=relative(spare.head() - self.W, self.W),
            relerr_gram_psd=relative(projected.gram - deleted.gram, deleted.gram),
            ledger_error_gram_psd=relative(spare.summary.gram - start.gram, start.gram),
        )


def sharpened(transcript: Transcript, own: Matrix, tolerance: float) -> State | None:
    """Return the noise-aware estimate of a state, with the attacker's own rows as a rough guess; None if it fails."""
    metric = own.T @ own
    metric.flat[:: len(metric) + 1] += 1e-3 * np.trace(metric) / len(metric)
    try:
        return identify_symmetric(transcript, tolerance=tolerance, metric=metric)
    except (NotIdentifiedError, np.linalg.LinAlgError):
        return None


def scored_as(method: str, block: Block, deleted: Summary, label: int | None) -> Recovery:
    """Score a recovered block against what was deleted."""
    sample = block.as_sample()
    feature_error = None
    if label is not None:
        feature: Matrix = deleted.moment[:, label]
        feature_error = relative(sample.feature - feature, feature)
    return Recovery(
        method=method,
        relerr_gram=relative(block.gram - deleted.gram, deleted.gram),
        relerr_moment=relative(block.moment - deleted.moment, deleted.moment),
        label=None if label is None else sample.label,
        label_correct=None if label is None else sample.label == label,
        relerr_feature=feature_error,
        known=None,
        margin=None if label is None else sample.margin,
    )
