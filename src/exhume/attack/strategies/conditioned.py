"""Identification at any precision: moment probes shaped by a guess of the state, each answer the next guess.

Rounding is relative, so what counts is the condition of the responses. The paper's ``Q = [tau I, 0]`` gives responses
``tau A^-1``, as badly conditioned as the state. Asking for ``Q = tau T`` with T near A gives responses near ``tau
I``: every entry is then read at full relative precision. The attacker's own gram is guess enough to start.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from exhume.attack.estimate.symmetric import symmetric
from exhume.attack.probes.conditioned import conditioned as conditioned_probe
from exhume.attack.session import Attack
from exhume.attack.state import State
from exhume.attack.transcript import Transcript
from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.numerics import symmetric as symmetrised

__all__ = ["conditioned"]

_NEAR_IDENTITY = 0.05


def conditioned(attack: Attack, guess: Matrix, *, rounds: int = 2, scale: float = 1e3) -> State:
    """Identify the present state by ``rounds`` conditioned probes of ceil(d/c) responses each.

    Parameters
    ----------
    attack
        The malicious client.
    guess
        A positive definite guess of A, such as `estimate.gram_guess` of the attacker's own rows.
    rounds
        How often to probe; each round starts from the last round's answer.
    scale
        Size of the responses when the guess is right. Heads near the baseline must not drown them, and the released
        format must hold them (float16 ends at 65,504).
    """
    if rounds < 1:
        raise InputError("rounds", "at least 1", rounds)
    for _ in range(rounds):
        transcript = attack.run(conditioned_probe(guess, attack.observe().c, scale=scale))
        state = symmetric(transcript, guess=guess)
        sharper = _read_zeros(transcript, guess, scale)
        if sharper is not None:
            H, A = sharper
            state = State(A, H, A @ transcript.baseline.weights, transcript.baseline, state.diagnostics)
        guess = state.A
    return state


def _read_zeros(transcript: Transcript, guess: Matrix, scale: float) -> tuple[Matrix, Matrix] | None:
    """Return H and A from responses near the identity, whose off-diagonal zeros are read at full relative precision.

    The diagonal carries the rounding error of the ones. It is put right by what symmetry demands of ``H = B T^-1``:
    ``(D_i - D_j) K_ij = (K B' - B K)_ij`` for ``K = T^-1`` and the unknown diagonal correction D, a weighted
    graph-Laplacian system; the mean of D stays undetermined and is left at zero.
    """
    d = transcript.d
    B = transcript.X[:, :d] / scale
    if np.abs(B - np.eye(d)).max() >= _NEAR_IDENTITY:
        return None
    K = symmetrised(cho_solve(cho_factor(guess), np.eye(d)))
    gap = K @ B.T - B @ K
    weight = np.outer(1 / np.diag(K), 1 / np.diag(K))
    omega = weight * K**2
    np.fill_diagonal(omega, 0.0)
    laplacian = np.diag(omega.sum(axis=1)) - omega
    side = (weight * K * gap).sum(axis=1)
    correction = np.linalg.lstsq(laplacian + np.trace(laplacian) / d**2, side - side.mean(), rcond=None)[0]
    H = symmetrised((B + np.diag(correction - correction.mean())) @ K)
    try:
        return H, symmetrised(cho_solve(cho_factor(H), np.eye(d)))
    except np.linalg.LinAlgError:
        return None
