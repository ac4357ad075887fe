"""The audit of a live target: identification probes only, always taken back, with a dry run first."""

from __future__ import annotations

import numpy as np

from exhume.attack import estimate, probes
from exhume.attack.probes import Resources, moment_update
from exhume.attack.session import Attack
from exhume.attack.state import State, diagnose_rank
from exhume.attack.transcript import Transcript
from exhume.audit.records import LiveRecord
from exhume.audit.settings import Settings
from exhume.audit.undoing import UndoingTarget, shielded, undo_tolerance
from exhume.audit.work import rank_curve
from exhume.errors import AttackError, ExhumeError, InputError, NotIdentifiedError
from exhume.numerics import relative
from exhume.protocol.target import Target

__all__ = ["audit_live"]

DRY_SCALES = (1e-3, 1.0, 1e3)
"""Sizes of the dry run's update, tried in turn until the head answers."""


def audit_live(target: Target, settings: Settings, name: str = "target") -> LiveRecord:
    """Probe a live target and take everything back, also when interrupted or failing.

    Raises
    ------
    AttackError
        If a dry run shows that probes could not be undone, or the head did not come back at the end.
    """
    probe = settings.probe[0]
    able = [name for name, entry in probes.REGISTRY.items() if entry.live]
    if probe not in able:
        raise InputError("probe", f"{' or '.join(able)} for a live target", probe)
    careful = UndoingTarget(target)
    try:
        return _probe(careful, settings, probe, name)
    except AttackError:
        raise  # raised after an attempt to restore, with its outcome
    except BaseException:
        # Nothing may leave this function, a Ctrl-C at any moment included, with a probe still standing.
        with shielded():
            careful.restore()
        raise


def _probe(careful: UndoingTarget, settings: Settings, probe: str, name: str) -> LiveRecord:
    baseline = careful.baseline
    d, c = baseline.d, baseline.c
    actions = [f"read the public head: {d} features, {c} classes, {baseline.precision}"]
    dry = _dry_run(careful, actions)
    resources = Resources(
        d,
        c,
        np.empty((0, d)),
        np.empty(0, np.intp),
        np.random.default_rng(settings.seed),
        settings.scale,
        settings.responses,
    )
    attack, failure = Attack(careful), None
    transcript: Transcript | None = None
    state, reason, prediction = None, None, None
    interrupted = False
    try:
        transcript = attack.run(probes.build(probe, resources))
        actions.append(f"sent {transcript.responses} {probe} probes of scale {settings.scale:g}, then cancelled them")
        state, reason = _identified(transcript)
        if state is not None:
            prediction = _predict(careful, state, settings)
            actions.append("sent one unseen probe to test the identified state, then took it back")
    except KeyboardInterrupt:
        interrupted, reason = True, "interrupted"
        actions.append("interrupted: stopped probing")
    except ExhumeError as error:
        reason = str(error)
        actions.append(f"stopped probing: {error}")
    except Exception as error:
        failure = error
        reason = f"{type(error).__name__}: {error}"
        actions.append(f"stopped probing: {reason}")
    restored, residual = _bring_back(careful, actions, failure)
    found = None if transcript is None else diagnose_rank(transcript)[0]
    return LiveRecord(
        target=name,
        dim=d,
        classes=c,
        precision=baseline.precision,
        probe=probe,
        dry_run_residual=dry,
        messages=careful.messages,
        responses=careful.responses,
        identified=state is not None,
        reason=reason,
        rank=None if found is None else found.rank_X,
        kappa=None if found is None else found.kappa_X,
        prediction_error=prediction,
        residual=residual,
        restored=restored,
        interrupted=interrupted,
        failed=failure is not None,
        actions=tuple(actions),
        curve=() if transcript is None else rank_curve(transcript),
    )


def _dry_run(careful: UndoingTarget, actions: list[str]) -> float:
    """Send one small known update and its undo; refuse to go on unless the head moved and came back."""
    start = careful.baseline.weights
    tolerance = undo_tolerance(careful.baseline)
    update = None
    for scale in DRY_SCALES:
        moment = np.zeros_like(start)
        moment[0, 0] = scale
        update = moment_update(moment)
        try:
            moved = relative(careful.submit(update).weights - start, start)
        except Exception as error:
            with shielded():
                back = careful.restore()
            state = "the head is as it was" if back else "THE HEAD DID NOT COME BACK"
            raise AttackError(f"not started: the dry run's update failed ({error}); {state}") from error
        with shielded():
            back = careful.restore()
        residual = careful.residual
        if not back:
            raise AttackError(
                f"not started: after a one-message dry run and its undo the head is off by {residual:.3g} "
                f"(allowed {tolerance:.3g}), so probes could not be taken back"
            )
        if moved > tolerance:
            actions.append(
                f"dry run: one update of scale {scale:g} moved the head by {moved:.2g}, its undo left {residual:.2g}"
            )
            return residual
    raise AttackError("not started: the head did not answer a dry run's updates, so an undo could not be checked")


def _identified(transcript: Transcript) -> tuple[State | None, str | None]:
    try:
        return estimate.direct(transcript), None
    except NotIdentifiedError as error:
        return None, error.reason


def _predict(careful: UndoingTarget, state: State, settings: Settings) -> float:
    """Return how badly the identified state foretells the answer to a probe that it has not seen."""
    rng = np.random.default_rng([settings.seed, 4])
    moment = settings.scale * rng.standard_normal((state.d, state.c))
    answer = careful.submit(moment_update(moment)).weights - state.baseline.weights
    with shielded():
        careful.restore()
    foretold = np.linalg.solve(state.A, moment)
    return relative(foretold - answer, answer)


def _bring_back(careful: UndoingTarget, actions: list[str], failure: Exception | None) -> tuple[bool, float]:
    try:
        with shielded():
            restored = careful.restore()
    except Exception as error:
        raise AttackError(
            f"THE PROBES COULD NOT BE TAKEN BACK ({type(error).__name__}: {error}): restore the server from its store"
        ) from failure
    residual = careful.residual
    actions.append(f"checked the head at the end: relative residual {residual:.2g} against the start")
    return restored, residual
