"""The paper's bounds and identities on a run: both sides, from hidden values that only an evaluator has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import svdvals

from exhume.attack._line import line
from exhume.attack.block import Block
from exhume.attack.state import State
from exhume.attack.transcript import Transcript
from exhume.numerics import Matrix, relative

__all__ = [
    "DeletionRun",
    "ProbeRun",
    "Sides",
    "additions_bound",
    "additions_identity",
    "amplification_bound",
    "direct_A_bound",
    "direct_A_identity",
    "direct_H_bound",
    "direct_H_identity",
    "feature_bound",
    "moment_identity",
    "replay_bound",
    "replay_identity",
    "sample_margin",
]


@dataclass(frozen=True)
class Sides:
    """The two sides of a bound (left <= right), or, of an identity, the relative gap against its roundoff scale."""

    left: float
    right: float
    slack: float = 0.0
    """Roundoff of the estimate itself, which the bound, a statement on exact solves, does not count."""

    @property
    def holds(self) -> bool:
        """Whether left <= right, up to the roundoff of the solve."""
        return self.left <= self.right + self.slack

    @property
    def ratio(self) -> float:
        """How tight the bound is: left over right."""
        return self.left / self.right if self.right > 0 else float("inf") if self.left > 0 else 1.0


@dataclass(frozen=True, repr=False)
class ProbeRun:
    """One identification with the values that were hidden from it."""

    A: Matrix
    """The true regularised gram."""
    baseline: Matrix
    """The unrounded baseline head."""
    heads: Sequence[Matrix]
    """The unrounded probe responses."""
    grams: Sequence[Matrix] | None
    """The total grams ``P_j`` present at each response; None for moment-only probes."""
    transcript: Transcript
    raw_A: Matrix
    """The estimate ``Z X^+`` before symmetrisation."""
    raw_H: Matrix

    @property
    def E(self) -> Matrix:
        """Error of the observed response stack: probe and shared baseline errors together."""
        true = np.hstack([head - self.baseline for head in self.heads])
        return self.transcript.X - true

    @property
    def B(self) -> Matrix:
        """The rounding blocks ``-(A + P_j) N_j + A N_0`` of genuine additions."""
        c = self.transcript.c
        N0 = self.transcript.baseline.weights - self.baseline
        blocks = []
        for j, block in enumerate(np.hsplit(self.E, self.E.shape[1] // c)):
            P = 0.0 if self.grams is None else self.grams[j]
            blocks.append(-(self.A + P) @ (block + N0) + self.A @ N0)
        return np.hstack(blocks)

    def __repr__(self) -> str:
        return line(self, transcript=self.transcript)


def _roundoff(estimate: Matrix, values: Matrix) -> float:
    """Return the error of a backward-stable least-squares solve: d eps times condition times size of the answer."""
    return float(len(estimate) * np.finfo(np.float64).eps * values[0] / values[-1] * np.linalg.norm(estimate))


def direct_A_identity(run: ProbeRun) -> tuple[Matrix, Matrix]:
    """Return ``A^ - A`` and ``-A E R~^+`` (Proposition 1)."""
    return run.raw_A - run.A, -run.A @ run.E @ np.linalg.pinv(run.transcript.X)


def direct_A_bound(run: ProbeRun) -> Sides:
    """Return ``|A^ - A|_F`` and ``|A|_2 |E|_F / sigma_min(R~)`` (Proposition 1)."""
    values = svdvals(run.transcript.X)
    right = np.linalg.norm(run.A, 2) * np.linalg.norm(run.E) / values[-1]
    return Sides(float(np.linalg.norm(run.raw_A - run.A)), float(right), _roundoff(run.A, values))


def direct_H_identity(run: ProbeRun) -> tuple[Matrix, Matrix]:
    """Return ``H^ - H`` and ``E Q^+`` (Proposition 1)."""
    return run.raw_H - np.linalg.inv(run.A), run.E @ np.linalg.pinv(run.transcript.Z)


def direct_H_bound(run: ProbeRun) -> Sides:
    """Return ``|H^ - H|_F`` and ``|E|_F / sigma_min(Q)`` (Proposition 1)."""
    values, H = svdvals(run.transcript.Z), np.asarray(np.linalg.inv(run.A))
    right = np.linalg.norm(run.E) / values[-1]
    # The reference H is itself an inverse of A, computed to eps times the condition of A.
    slack = _roundoff(H, values) + _roundoff(H, np.asarray(np.linalg.eigvalsh(run.A)[::-1]))
    return Sides(float(np.linalg.norm(run.raw_H - H)), float(right), slack)


def additions_identity(run: ProbeRun) -> tuple[Matrix, Matrix]:
    """Return ``A^ - A`` and ``B X~^+`` (response rounding of genuine additions)."""
    return run.raw_A - run.A, run.B @ np.linalg.pinv(run.transcript.X)


def additions_bound(run: ProbeRun) -> Sides:
    """Return ``|A^ - A|_F`` and ``|B|_F / sigma_min(X~)`` (response rounding of genuine additions)."""
    values = svdvals(run.transcript.X)
    right = np.linalg.norm(run.B) / values[-1]
    return Sides(float(np.linalg.norm(run.raw_A - run.A)), float(right), _roundoff(run.A, values))


@dataclass(frozen=True, repr=False)
class DeletionRun:
    """Two identifications around one deletion with the values that were hidden from them."""

    A_pre: Matrix
    A_post: Matrix
    W_pre: Matrix
    """The unrounded head before the deletion."""
    W_post: Matrix
    before: State
    after: State

    @property
    def E_pre(self) -> Matrix:
        """Error of the identified state before the deletion."""
        return self.before.A - self.A_pre

    @property
    def E_post(self) -> Matrix:
        """Error of the identified state after the deletion."""
        return self.after.A - self.A_post

    def __repr__(self) -> str:
        return line(self, d=self.before.d, c=self.before.c, gram=float(np.linalg.norm(self.A_pre - self.A_post)))


def amplification_bound(run: DeletionRun) -> Sides:
    """Return ``RelErr(S_del)`` and ``B_S = (|E_pre| + |E_post|) / |S_del|``, the amplification by differencing."""
    deleted, before, after = run.A_pre - run.A_post, run.E_pre, run.E_post
    size = float(np.linalg.norm(deleted))
    right = (float(np.linalg.norm(before)) + float(np.linalg.norm(after))) / size
    return Sides(relative(before - after, deleted), right)


def moment_identity(run: DeletionRun) -> tuple[Matrix, Matrix]:
    """Return both sides of the deleted-moment error identity, baseline errors included."""
    N_pre, N_post = run.before.baseline.weights - run.W_pre, run.after.baseline.weights - run.W_post
    left = (run.before.G - run.after.G) - (run.A_pre @ run.W_pre - run.A_post @ run.W_post)
    right = run.E_pre @ run.W_pre - run.E_post @ run.W_post + run.before.A @ N_pre - run.after.A @ N_post
    return left, right


def _replay_terms(run: DeletionRun) -> tuple[Matrix, Matrix]:
    """Return the replayed state's ``A`` and the numerator of the replay error."""
    N_pre, N_post = run.before.baseline.weights - run.W_pre, run.after.baseline.weights - run.W_post
    numerator = run.E_post @ (run.W_pre - run.W_post) + run.before.A @ N_pre - run.after.A @ N_post
    return run.A_pre + run.E_pre - run.E_post, numerator


def replay_identity(run: DeletionRun, replayed: Matrix) -> tuple[Matrix, Matrix]:
    """Return ``W_replay - W_pre`` and ``(A_pre + E_pre - E_post)^-1`` times the numerator, from the unrounded head."""
    state, numerator = _replay_terms(run)
    return replayed - run.W_pre, np.asarray(np.linalg.solve(state, numerator))


def replay_bound(run: DeletionRun, replayed: Matrix) -> Sides:
    """Return ``|W_replay - W_pre|_F`` and its bound, baseline errors included."""
    state, _ = _replay_terms(run)
    N_pre, N_post = run.before.baseline.weights - run.W_pre, run.after.baseline.weights - run.W_post
    size = np.linalg.norm(run.E_post, 2) * np.linalg.norm(run.W_pre - run.W_post)
    size += np.linalg.norm(run.before.A @ N_pre - run.after.A @ N_post)
    right = size / np.abs(np.linalg.eigvalsh(0.5 * (state + state.T))).min()
    return Sides(float(np.linalg.norm(replayed - run.W_pre)), float(right))


def sample_margin(block: Block, feature: Matrix, label: int) -> Sides:
    """Return ``|E_k| + max |E_l|`` and ``|f|``: the label is safe where the left is smaller (Proposition 3)."""
    error = block.moment.copy()
    error[:, label] -= feature
    norms = np.linalg.norm(error, axis=0)
    others = np.delete(norms, label)
    left = float(norms[label]) + (float(others.max()) if others.size else 0.0)
    return Sides(left, float(np.linalg.norm(feature)))


def feature_bound(block: Block, feature: Matrix, label: int) -> Sides:
    """Return the relative feature error and ``RelErr(G_del)``, which bounds it where the label is right."""
    truth = np.zeros_like(block.moment)
    truth[:, label] = feature
    return Sides(relative(block.moment[:, label] - feature, feature), relative(block.moment - truth, truth))
