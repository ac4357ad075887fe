"""The audit of a live target: identification probes only, always taken back, with a dry run first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from exhume.attack import probes
from exhume.attack.probes import Probe, Resources
from exhume.attack.session import Attack
from exhume.attack.state import diagnose_rank
from exhume.attack.transcript import Transcript
from exhume.audit.dry_run import DryRun, dry_run, dry_run_rows
from exhume.audit.foretelling import Reading, read_state, unseen
from exhume.audit.live_deletion import Owner, play_deletion
from exhume.audit.outstanding import Outstanding
from exhume.audit.records_live import LiveDeletion, LiveRecord
from exhume.audit.settings import Settings, check_live_probes
from exhume.audit.signals import shielded, stopping
from exhume.audit.undoing import UndoingTarget
from exhume.audit.work import rank_curve
from exhume.data.own import read_own
from exhume.errors import AttackError, ExhumeError, InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.head import Head
from exhume.protocol.target import Target

__all__ = ["audit_live", "undo"]


def audit_live(target: Target, settings: Settings, name: str = "target", owner: Owner | None = None) -> LiveRecord:
    """Probe a live target and take everything back, also when interrupted or failing.

    With an ``owner`` a whole deletion is played: it adds a test record of the operator's, and deletes it later.

    What cannot be taken back, for the target is gone, is put into a file in ``settings.out``.

    Raises
    ------
    AttackError
        If a dry run shows that probes could not be undone, or the probes could not be taken back at the end.
    """
    check_live_probes(settings)
    with stopping():
        if owner is None:
            return _audited(target, settings, name, None, None)
        start = target.head()
        try:
            owner.add()
            return _audited(target, settings, name, owner, start)
        finally:
            with shielded():
                owner.delete()


def _audited(target: Target, settings: Settings, name: str, owner: Owner | None, start: Head | None) -> LiveRecord:
    careful = UndoingTarget(target, folder=settings.out, name=name)
    try:
        return _Session(careful, settings, name, target, owner, start).run()
    except AttackError:
        raise  # raised after an attempt to restore, with its outcome
    except BaseException as error:
        # Nothing may leave this function, a signal at any moment included, with a probe still standing.
        _bring_back(careful, error)
        raise


def undo(target: Target, left: Outstanding, folder: Path) -> tuple[bool, UndoingTarget]:
    """Send what an earlier audit could not take back; returns whether the head came back, and the target."""
    head = target.head()
    if (head.d, head.c) != (left.baseline.d, left.baseline.c):
        allowed = f"of a server with d = {left.baseline.d}, c = {left.baseline.c}"
        raise InputError("target", allowed, f"d = {head.d}, c = {head.c}")
    careful = UndoingTarget.resumed(target, left, folder)
    with stopping(), shielded():
        return careful.restore(), careful


@dataclass
class _Session:
    """One live audit on its way."""

    careful: UndoingTarget
    settings: Settings
    name: str
    target: Target
    owner: Owner | None = None
    start: Head | None = None
    actions: list[str] = field(default_factory=list)

    def run(self) -> LiveRecord:
        """Dry run, probes, one unseen probe, and everything back."""
        baseline = self.careful.baseline
        own = self._own(baseline)
        sizes = f"{baseline.d} features, {baseline.c} classes, {baseline.precision}"
        self.actions.append(f"read the public head: {sizes}")
        build = self._builder(baseline, own)
        dry = self._dry_run(build)
        scale = self.settings.scale if dry.scale is None else dry.scale
        probe = build(scale)
        transcript, reading, reason, failure, interrupted = self._probe(probe, scale, own)
        try:
            restored, residual = _bring_back(self.careful, failure)
        except KeyboardInterrupt:  # a signal that was held back until now
            restored, residual, interrupted = self.careful.restored, self.careful.residual, True
            reason = reason or "interrupted"
        self.actions.append(f"checked the head at the end: relative residual {residual:.2g} against the start")
        if self.careful.repeated:
            self.actions.append(f"took back {self.careful.repeated} messages that had been applied more than once")
            reason = "messages were applied more than once: submit() must apply at most once"
            failure = failure or AttackError(reason)
        deletion = self._delete(reading) if restored and not interrupted and failure is None else None
        found = None if transcript is None else diagnose_rank(transcript.reduced())[0]
        return LiveRecord(
            target=self.name,
            dim=baseline.d,
            classes=baseline.c,
            precision=baseline.precision,
            probe=probe.name,
            scale=dry.scale,
            dry_run_residual=dry.residual,
            noise=dry.noise,
            messages=self.careful.messages,
            responses=self.careful.responses,
            identified=reading is not None and reading.state is not None,
            estimator=None if reading is None else reading.estimator,
            reason=reason or (None if reading is None else reading.reason),
            rank=None if found is None else found.rank_X,
            live=None if found is None else found.d,
            faint=transcript is not None and found is not None and _faint(transcript, found.sigma_min_X, dry.noise),
            kappa=None if found is None else found.kappa_X,
            prediction_error=None if reading is None else reading.error,
            residual=residual,
            restored=restored,
            interrupted=interrupted,
            failed=failure is not None,
            actions=tuple(self.actions),
            curve=() if transcript is None else rank_curve(transcript),
            deletion=deletion,
        )

    def _delete(self, reading: Reading | None) -> LiveDeletion | None:
        """Play a whole deletion, where somebody owns a record and the state was read."""
        if self.owner is None or self.start is None or reading is None or reading.state is None:
            return None
        return play_deletion(self.target, self.owner, reading.state, self.start, self.actions)

    def _own(self, baseline: Head) -> tuple[Matrix, Rows]:
        """Return the operator's own rows; none where no file is named."""
        if self.settings.features is None:
            return np.empty((0, baseline.d)), np.empty(0, np.intp)
        features, labels, _, _ = read_own(self.settings.features, self.settings.labels)
        if features.shape[1] != baseline.d:
            raise InputError("features", f"rows of {baseline.d} features, as the target's head", features.shape[1])
        if labels.max() >= baseline.c:
            raise InputError("labels", f"below {baseline.c}, the target's classes", int(labels.max()))
        keep = slice(0 if self.owner is None else 1, None)  # the first row is the owner's
        return features[keep], labels[keep]

    def _builder(self, baseline: Head, own: tuple[Matrix, Rows]) -> Callable[[float], Probe]:
        name = self.settings.probe[0]
        able = [n for n, entry in probes.REGISTRY.items() if entry.live or len(own[0])]
        if name not in able:
            raise InputError("probe", f"{' or '.join(able)} for a live target without --features", name)

        def build(scale: float) -> Probe:
            rng = np.random.default_rng(self.settings.seed)
            return probes.build(name, Resources(baseline.d, baseline.c, *own, rng, scale, self.settings.responses))

        return build

    def _dry_run(self, build: Callable[[float], Probe]) -> DryRun:
        if probes.REGISTRY[self.settings.probe[0]].live:
            return dry_run(self.careful, build, self.settings.scale, self.actions)
        steps = [step.update for step in build(1.0).steps()]
        largest = max(steps, key=lambda update: update.magnitude)
        smallest = min(steps, key=lambda update: update.magnitude)
        return dry_run_rows(self.careful, [smallest, largest], self.actions)

    def _probe(
        self, probe: Probe, scale: float, own: tuple[Matrix, Rows]
    ) -> tuple[Transcript | None, Reading | None, str | None, Exception | None, bool]:
        """Probe, identify, and test what was read; returns what came of it and why it ended early, if it did."""
        transcript: Transcript | None = None
        reading: Reading | None = None
        try:
            transcript = Attack(self.careful).run(probe)
            size = f" of scale {scale:g}" if probes.REGISTRY[probe.name].live else " of own rows"
            self.actions.append(f"sent {transcript.responses} {probe.name} probes{size}, then cancelled them")
            update = unseen(transcript, scale, own, np.random.default_rng([self.settings.seed, 4]))
            answer = self.careful.submit(update)
            with shielded():
                self.careful.restore()
            self.actions.append("sent one unseen probe to test what was read, then took it back")
            reading = read_state(transcript, update, answer)
        except KeyboardInterrupt:
            self.actions.append("interrupted: stopped probing")
            return transcript, reading, "interrupted", None, True
        except ExhumeError as error:
            self.actions.append(f"stopped probing: {error}")
            return transcript, reading, str(error), None, False
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self.actions.append(f"stopped probing: {reason}")
            return transcript, reading, reason, error, False
        return transcript, reading, None, None, False


def _faint(transcript: Transcript, weakest: float, noise: float) -> bool:
    """Whether the weakest direction of the answers is within the server's own arithmetic."""
    run = transcript.reduced()
    heads = np.tile(run.baseline.weights, run.responses) + run.X
    return bool(weakest <= noise * float(np.linalg.norm(heads)) / np.sqrt(max(run.responses, 1)))


def _bring_back(careful: UndoingTarget, failure: BaseException | None) -> tuple[bool, float]:
    try:
        with shielded():
            restored, residual = careful.restore(), careful.residual
    except Exception as error:
        where = "restore the server from its store"
        if careful.file is not None:
            where = (
                f"what is still to be taken back is in '{careful.file}': exhume audit --undo '{careful.file}' sends it"
            )
        raise AttackError(f"THE PROBES COULD NOT BE TAKEN BACK ({type(error).__name__}: {error}): {where}") from failure
    return restored, residual
