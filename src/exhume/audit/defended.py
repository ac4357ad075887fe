"""Attacks on a server with settings of its own: every message goes through its rules, every refusal is an outcome.

The counterpart of `exhume.simulate.trial`, which plays the paper's server. The same probes and estimators are used;
they know nothing of the settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from exhume.attack._linalg import RANK_TOLERANCE, relative
from exhume.attack.block import Block
from exhume.attack.identify import Diagnostics, State, identify
from exhume.attack.probes.base import Probe
from exhume.attack.recover import difference, rank_one
from exhume.attack.session import Attack, Cost
from exhume.audit.configured import CONFIGURED
from exhume.audit.federation import Asked, Federation
from exhume.audit.listening import Heard, listen
from exhume.defence.admission import itemise
from exhume.errors import NotIdentifiedError, RefusedError, SingularStateError
from exhume.numerics import Matrix, Rows
from exhume.protocol.head import Head
from exhume.protocol.summary import Summary, Update
from exhume.simulate.trial import Recovery, scored_as, sharpened

__all__ = ["DefendedCell", "DefendedTrial", "Found"]


@dataclass(frozen=True)
class Found:
    """One recovered block, and what its replay through the server did."""

    scored: Recovery
    block: Block
    replayed: Matrix | None
    """The exact head after the replay; None where the server refused it."""
    refused: str | None
    """Why it refused the replay, raw and projected."""
    cost: Cost
    """What the attacker had spent by then."""


@dataclass
class DefendedTrial:
    """One deletion under attack."""

    asked: Asked
    federation: Federation
    """As the attacker left it."""
    head: Matrix
    """The exact head after the deletion."""
    public: Matrix | None
    """The head that went out after the deletion, if one did."""
    identified: bool
    reason: str | None
    heard: Heard | None = None
    post: Diagnostics | None = None
    state_error_post: float | None = None
    found: list[Found] = field(default_factory=list)


class DefendedCell:
    """One probe against a configured server, its state identified once if it can be: a factory of trials.

    Parameters
    ----------
    federation
        The server with everybody's rows in it; the cell takes it over.
    probe
        What the attacker sends.
    nonnegative
        Whether the encoder is known to give non-negative features.
    """

    heads = CONFIGURED

    def __init__(
        self, federation: Federation, probe: Probe, *, tolerance: float = RANK_TOLERANCE, nonnegative: bool = False
    ) -> None:
        self.federation, self.probe = federation, probe
        self.scenario = federation.scenario
        self._tolerance, self._nonnegative = tolerance, nonnegative
        start = self._state()
        self.attack = Attack(federation.target())
        public = federation.head()
        self._exact = public is not None and np.array_equal(public.weights, federation.server.ledger.head())
        self.heard = listen(self.attack, probe, shown=federation.shows_rows)
        found, self.diagnostics, self.reason = self._identified(self.heard)
        self.state_error = None if found is None else relative(found.A - start, start)
        """Relative error of the paper's estimate of the state."""
        self.before = _moved(found, self.heard.standing)
        self.sharper = self.before if self._exact else _moved(self._sharper(), self.heard.standing)
        self.A = self._state()
        """The hidden state before the deletion."""
        self.W = federation.server.ledger.head()
        """The exact head before the deletion."""

    def _state(self) -> Matrix:
        return self.federation.server.ledger.summary.gram + self.scenario.gamma * np.eye(self.scenario.d)

    def _identified(self, heard: Heard) -> tuple[State | None, Diagnostics | None, str | None]:
        if heard.transcript is None or not heard.responses:
            return None, None, heard.why()
        try:
            state = identify(heard.transcript, tolerance=self._tolerance)
        except NotIdentifiedError as error:
            found = error.diagnostics if isinstance(error.diagnostics, Diagnostics) else None
            return None, found, heard.why(error.reason)
        except np.linalg.LinAlgError as error:
            return None, None, heard.why(f"unstable: {error}")
        return state, state.diagnostics, heard.why()

    def _sharper(self) -> State | None:
        """Return the noise-aware estimate, which the rank-one recovery starts from unless the heads are exact."""
        if self.heard.transcript is None or not self.heard.responses:
            return None
        return sharpened(self.heard.transcript, self.scenario.own[0], self._tolerance)

    def trial(self, rows: Rows, methods: tuple[str, ...]) -> DefendedTrial:
        """Let the owners delete some rows, attack, score. Each trial starts from the same state."""
        federation = self.federation.fork()
        asked = federation.delete(rows)
        ledger = federation.server.ledger
        public = federation.head() if asked.released else None
        weights = None if public is None else public.weights
        known = self.before is not None
        trial = DefendedTrial(asked, federation, ledger.head(), weights, known, None if known else self.reason)
        if asked.refused is not None:
            trial.identified, trial.reason = False, f"deletion refused: {asked.refused}"
            return trial
        deleted = self.scenario.summary(rows)
        label = int(self.scenario.labels[rows[0]]) if len(rows) == 1 else None
        if "rank_one" in methods and label is not None:
            self._rank_one(trial, deleted, label)
        if "difference" in methods:
            self._difference(trial, deleted, label)
        return trial

    def _rank_one(self, trial: DefendedTrial, deleted: Summary, label: int) -> None:
        if self.sharper is None:
            return
        if trial.public is None:
            trial.reason = _joined(trial.reason, "withheld: no head went out after the deletion")
            return
        attack = self.attack.elsewhere(trial.federation.target())
        found = rank_one(self.sharper, attack.observe(), nonnegative=self._nonnegative)
        block = found.block(self.scenario.classes)
        scored = replace(scored_as("rank_one", block, deleted, label), known=found.known, margin=found.margin)
        trial.found.append(self._replayed(scored, block, attack, trial.federation, label))

    def _difference(self, trial: DefendedTrial, deleted: Summary, label: int | None) -> None:
        if self.before is None:
            return
        attack = self.attack.elsewhere(trial.federation.target())
        trial.heard = heard = listen(attack, self.probe, shown=self.federation.shows_rows)
        after, trial.post, reason = self._identified(heard)
        if after is None:
            trial.identified, trial.reason = False, reason
            return
        truth = self.A - deleted.gram
        trial.state_error_post = relative(after.A - truth, truth)
        block = difference(self.before, after)
        scored = replace(scored_as("difference", block, deleted, label), min_eigenvalue=block.min_eigenvalue)
        trial.found.insert(0, self._replayed(scored, block, attack, trial.federation, label, heard.standing))

    def _replayed(
        self,
        scored: Recovery,
        block: Block,
        attack: Attack,
        federation: Federation,
        label: int | None,
        standing: Summary | None = None,
    ) -> Found:
        """Replay a block through a copy of the server: as it came out, else projected. A refused replay is none.

        What the attacker has left ``standing`` since the deletion is taken out before the outcome is measured.
        """
        forms: list[Callable[[], Update]] = [
            lambda: Update.adding(block.summary),
            lambda: Update.adding(block.projected().summary),
        ]
        if federation.shows_rows and label is not None:
            forms = [lambda: _as_row(block, self.scenario.classes)]
        refused = None
        for form in forms:
            spare = federation.fork()
            twin = attack.elsewhere(spare.target())
            try:
                twin.submit(form())
            except (RefusedError, SingularStateError) as error:
                refused = error.reason if isinstance(error, RefusedError) else f"ledger: {error}"
                continue
            ledger = spare.server.ledger
            if standing is not None:
                ledger.apply(Update.deleting(standing))
            return Found(scored, block, ledger.head(), None, twin.cost)
        return Found(scored, block, None, refused, attack.cost)


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
