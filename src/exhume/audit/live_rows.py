"""The audit of a live service with rows like an honest client's: nothing made up but, where none are given, the rows.

A hardened service refuses sums without rows. So the audit shows rows that keep to the public bounds, reads the answers,
and plays deletions of records whose truth it knows. Everything is taken back by receipts: on a server with noise the
head does not come back when the rows do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
from scipy.stats import binomtest

from exhume.attack.coordinates import Coordinates
from exhume.attack.state import diagnose_rank
from exhume.attack.transcript import Recorder, Transcript
from exhume.audit.foretelling import Reading, read_state
from exhume.audit.levels import THRESHOLDS
from exhume.audit.records_live import LiveDeletions, LiveReader, LiveRecord
from exhume.audit.row_journal import Answered, PlannedRows, RowJournal, Sender
from exhume.audit.row_readers import RowReader, readers_of
from exhume.audit.row_supply import RowSupply
from exhume.audit.settings import Settings
from exhume.audit.signals import shielded, stopping
from exhume.audit.work import rank_curve
from exhume.errors import AttackError, ExhumeError, InputError, RefusedError
from exhume.numerics import relative
from exhume.protocol.head import Head
from exhume.protocol.target import ServiceTarget
from exhume.simulate.statistics import clopper_pearson

__all__ = ["audit_rows"]

T = TypeVar("T")

PROBE = "own-data"

MOST_REPLAYS = 3
"""Records that were read and are put back, at most."""


def audit_rows(
    target: ServiceTarget, settings: Settings, name: str = "target", owner: ServiceTarget | None = None
) -> LiveRecord:
    """Probe a live service with rows, play deletions, and take everything back, also when interrupted or failing.

    Parameters
    ----------
    target
        The service as the attacker sees it.
    settings
        Rows, number of deletions, seed, and the folder of the undo file.
    owner
        The service as a second client of the operator's sees it, who owns the deleted records. Without one the attacker
        owns them itself: heads do not depend on who sent something. Putting a record back is then not tried.

    Raises
    ------
    AttackError
        If something could not be taken back; its file is named.
    """
    if "tag" in target.asks:
        raise InputError("target", "a service that asks for no tags: the audit has no key to sign with", name)
    links: dict[str, ServiceTarget] = {"attacker": target} | ({} if owner is None else {"owner": owner})
    with stopping():
        session = _RowSession(RowJournal(links, settings.out, name), settings, name, target)
        try:
            return session.run()
        finally:
            session.bring_back()


@dataclass
class _Played:
    """One deletion: what each reader made of it."""

    right: dict[str, bool]
    errors: dict[str, float]


@dataclass
class _RowSession:
    journal: RowJournal
    settings: Settings
    name: str
    target: ServiceTarget
    actions: list[str] = field(default_factory=list)
    interrupted: bool = False
    failure: Exception | None = None
    reason: str | None = None
    responses: int = 0
    disturbed: int = 0

    def run(self) -> LiveRecord:
        """Probes of rows, one unseen message, deletions, and everything back."""
        baseline = self.target.head()
        supply = RowSupply.of(self.target, self.settings)
        sizes = f"{baseline.d} features, {baseline.c} classes, {baseline.precision}"
        self.actions += [f"read the public head: {sizes}", supply.about]
        transcript = self._guarded(partial(self._probed, baseline, supply))
        reading = None
        if transcript is not None and self.reason is None:
            reading = self._guarded(partial(self._read, transcript, supply))
        deletions = (
            None if self.reason is not None else self._guarded(partial(self._deletions, reading, transcript, supply))
        )
        self.bring_back()
        residual = relative(self.target.head().weights - baseline.weights, baseline.weights)
        self.actions.append(
            f"took every row back: the receipts say so; the head is {residual:.2g} away from the one at the start"
        )
        found = None if transcript is None or not transcript.responses else diagnose_rank(transcript.reduced())[0]
        return LiveRecord(
            target=self.name,
            dim=baseline.d,
            classes=baseline.c,
            precision=baseline.precision,
            probe=PROBE,
            dry_run_residual=None,
            messages=self.journal.messages,
            responses=self.responses,
            identified=reading is not None and reading.state is not None,
            estimator=None if reading is None else reading.estimator,
            reason=self.reason or (None if reading is None else reading.reason),
            rank=None if found is None else found.rank_X,
            live=None if found is None else found.d,
            kappa=None if found is None else found.kappa_X,
            prediction_error=None if reading is None else reading.error,
            residual=residual,
            restored=True,
            interrupted=self.interrupted,
            failed=self.failure is not None,
            actions=tuple(self.actions),
            curve=() if transcript is None or not transcript.responses else rank_curve(transcript),
            rows_made_up=supply.made_up,
            deletions=deletions,
        )

    def bring_back(self) -> None:
        """Take back whatever stands."""
        try:
            with shielded():
                self.journal.restore()
        except Exception as error:
            file = self.journal.file
            where = f"they are in '{file}': exhume audit --undo '{file}' with the same target and tokens sends it"
            raise AttackError(f"ROWS COULD NOT BE TAKEN BACK ({type(error).__name__}: {error}): {where}") from error

    def _guarded(self, step: Callable[[], T]) -> T | None:
        """Do a step; what ends it early is kept as the reason."""
        try:
            return step()
        except KeyboardInterrupt:
            self.interrupted, self.reason = True, "interrupted"
        except ExhumeError as error:
            self.reason = str(error)
        except Exception as error:
            self.failure, self.reason = error, f"{type(error).__name__}: {error}"
        self.actions.append(f"stopped: {self.reason}")
        return None

    def _probed(self, baseline: Head, supply: RowSupply) -> Transcript:
        recorder = Recorder(baseline, PROBE, Coordinates.of_rows(supply.features))
        planned = self.journal.plan("attacker", supply.batches())
        last = baseline.serial
        for one in planned:
            try:
                answer = self._answered(self.journal.add(one))
            except RefusedError as error:
                if not recorder.steps:
                    raise AttackError(f"the first message of rows was refused ({error.rule})") from error
                self.actions.append(f"a message of rows was refused ({error.rule}): probing ends with {recorder.steps}")
                break
            recorder.sent(self.journal.update(one).net)
            if answer.fresh:
                recorder.heard(answer.head)
            others = not answer.fresh or last is None or answer.serial != last + 1
            self.disturbed += others
            last = answer.serial
        for one in reversed(planned):
            if one.state == "stands":
                self._answered(self.journal.delete(one))
        found = recorder.transcript(self.target.head())
        self.actions.append(f"sent {recorder.steps} messages of rows and deleted each: {found.responses} answers")
        if self.disturbed:
            self.actions.append(f"others sent, or heads were withheld, in {self.disturbed} of these steps")
        if not found.responses:
            raise AttackError("no head followed a message of rows")
        return found

    def _read(self, transcript: Transcript, supply: RowSupply) -> Reading:
        one = self.journal.plan("attacker", [supply.unseen()])[0]
        answer = self._answered(self.journal.add(one))
        self._answered(self.journal.delete(one))
        self.actions.append("sent one unseen message to test what was read, and deleted it")
        return read_state(transcript, self.journal.update(one), answer.head)

    def _deletions(self, reading: Reading | None, transcript: Transcript | None, supply: RowSupply) -> LiveDeletions:
        state = None if reading is None else reading.state
        readers = readers_of(state, transcript, supply.features, supply.labels)
        sender: Sender = "owner" if "owner" in self.journal.links else "attacker"
        records = self.journal.plan(sender, supply.records())
        played: list[_Played] = []
        replays: list[float] = []
        for record in records:
            around = self._around(record)
            if around is not None:
                one, best = _judged(readers, record, *around)
                played.append(one)
                if best is not None and sender == "owner" and len(replays) < MOST_REPLAYS:
                    replays += self._replayed(best, *around)
        who = "the owner" if sender == "owner" else "the audit's own client"
        self.actions.append(
            f"{who} added {len(records)} records and deleted each: {len(played)} could be read undisturbed"
        )
        if replays:
            self.actions.append(f"put {len(replays)} records back that had been read, and deleted them again")
        return _counted(readers, played, len(records), replays, supply.chance, owner=sender == "owner")

    def _around(self, record: PlannedRows) -> tuple[Head, Head] | None:
        """Add a record and delete it; returns the heads before and after the deletion, if nobody sent in between."""
        pre, post = self._answered(self.journal.add(record)), self._answered(self.journal.delete(record))
        if not (pre.fresh and post.fresh and pre.serial is not None and post.serial == pre.serial + 1):
            return None
        return pre.head, post.head

    def _replayed(self, best: PlannedRows, pre: Head, post: Head) -> list[float]:
        """Put a record that was read back as the attacker's own; returns the share of the deletion that this undid."""
        one = self.journal.plan("attacker", [(best.features, best.labels)])[0]
        try:
            answer = self._answered(self.journal.add(one))
        except RefusedError:
            return [0.0]
        self._answered(self.journal.delete(one))
        moved = float(np.linalg.norm(pre.weights - post.weights))
        return [1.0 - float(np.linalg.norm(answer.head.weights - pre.weights)) / max(moved, 1e-300)]

    def _answered(self, answer: Answered) -> Answered:
        self.responses += answer.serial is not None
        return answer


def _judged(
    readers: tuple[RowReader, ...], record: PlannedRows, pre: Head, post: Head
) -> tuple[_Played, PlannedRows | None]:
    """Compare what each reader says with the truth; returns that, and a record that came out well enough, if any."""
    label, feature = int(record.labels[0]), record.features[0]
    right, errors = {}, {}
    best: PlannedRows | None = None
    for reader in readers:
        found = reader(pre, post)
        right[reader.name] = found is not None and found.label == label
        off = math.inf if found is None or found.feature is None else relative(found.feature - feature, feature)
        errors[reader.name] = off
        if best is None and found is not None and found.feature is not None and off <= THRESHOLDS.feature_error:
            best = PlannedRows("", "attacker", found.feature[None], np.array([found.label or 0]))
    return _Played(right, errors), best


def _counted(
    readers: tuple[RowReader, ...],
    played: list[_Played],
    planned: int,
    replays: list[float],
    chance: float,
    *,
    owner: bool,
) -> LiveDeletions:
    tries = len(played)
    found = []
    for reader in readers:
        hits = sum(one.right[reader.name] for one in played)
        off = [one.errors[reader.name] for one in played]
        finite = [error for error in off if math.isfinite(error)]
        found.append(
            LiveReader(
                name=reader.name,
                labels_right=hits,
                p=float(binomtest(hits, tries, chance, alternative="greater").pvalue) if tries else None,
                highest=clopper_pearson(hits, tries)[1],
                features_right=sum(error <= THRESHOLDS.feature_error for error in off),
                feature_error=float(np.median(finite)) if finite else None,
            )
        )
    return LiveDeletions(
        planned=planned,
        tries=tries,
        chance=chance,
        owner=owner,
        readers=tuple(found),
        replays=len(replays),
        replayed=float(np.median(replays)) if replays else None,
    )
