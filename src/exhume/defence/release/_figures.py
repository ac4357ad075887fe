"""How large the draws of a continual release are, and the mu of a record, or of any record in a block, that follows.

**Of sums** nobody knows the records. Yet every record f in a block of gram P has ``f f' <= P``, so that its whitened
length and what the head predicts for it are bounded by the block alone:

    |B^-1 f|^2 <= h = largest eigenvalue of B^-1 P B^-T,    |W' f|^2 <= p = largest eigenvalue of W' P W,

and with a label that is one of the classes the moment of the record is at most ``sqrt(h) (1 + sqrt(p))`` in size. That
holds for sums of honest rows, whatever their number; it is loose where that is large.

The eigenvalue h is found by Lanczos' method from a random start that the sender does not know: after k steps it is
below the true one by more than a share e with a probability of at most ``1.648 sqrt(d) exp(-sqrt(e) (2 k - 1))``
(Kuczynski and Wozniakowski 1992, theorem 4.2). The share is chosen so that this is `MISSED`, and made up for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh, eigvalsh_tridiagonal
from scipy.linalg.blas import dsymv

from exhume.defence.release._epoch import EpochMeasure, NoisedEvent
from exhume.defence.release._factorisation import Factorisation
from exhume.numerics import Matrix

__all__ = ["LANCZOS", "MISSED", "Figures", "Sums", "largest_record", "missed", "record_sizes"]

LANCZOS = 40
"""Steps: always as many, so that the work tells nothing. The bound is 10% above the eigenvalue at d = 512."""

MISSED = 1e-9
"""Probability that the bound of a block is below the true eigenvalue."""


@dataclass(frozen=True)
class Figures:
    """What noise a record is behind, and what it may weigh at most.

    Parameters
    ----------
    sigma, spread, cap, outlier, longest
        As of `ContinualNoise`.
    first
        The factorisation of the first epoch.
    """

    sigma: float
    spread: float
    first: Factorisation
    cap: float | None = None
    outlier: float | None = None
    longest: float | None = None

    def noise(self, d: int, present: Factorisation) -> tuple[float, float]:
        """Return the noise that one draw of an epoch has: s of the head, tau of the gram.

        A longer epoch is more sensitive; its draws are larger by as much, so that a record's mu is always the same.
        """
        growth, more = self.first.largest, present.sensitivity / self.first.sensitivity
        # A symmetric d x d matrix of off-diagonal variance tau^2 has its spectrum within 2 tau sqrt(d).
        return more * self.sigma / growth, more * self.spread / (2.0 * math.sqrt(d)) / growth

    def mu(self, d: int, gram: Matrix | float, moment: Matrix | float) -> Matrix:
        """Return the mu of what has a gram and a moment of some sizes, in any epoch."""
        s, tau = self.noise(d, self.first)
        return np.asarray(self.first.sensitivity * np.sqrt(gram**2 / (2.0 * tau**2) + moment**2 / s**2))

    def limit(self, measure: EpochMeasure) -> float:
        """Return the largest mu that a record may have: the cap, or less where an average record has far less."""
        cap, leverage = math.inf if self.cap is None else self.cap, len(measure.head) / max(measure.rows, 1.0)
        if self.outlier is None:
            return cap
        # What an average record adds: a leverage of d / rows, and a label that the head knows nothing of.
        return min(cap, self.outlier * float(self.mu(len(measure.head), leverage, math.sqrt(leverage))))

    def of_sums(self, measure: EpochMeasure, sums: Sums) -> float:
        """Return a mu that no record in sums is above, whatever is shown of them.

        Where they are cut, more than the record's share of it changes with a record: what is shown of the others does,
        too. A record r that joins others of size M changes the sum by ``share r`` and by the change of the share, at
        most ``max(share, 1 - share)``, times M, which is at most the block and a record. Nothing of that is added where
        the others alone would not be cut either.
        """
        limit = self.limit_of_sums(measure, sums.trace, sums.leverage, sums.mu)
        share = min(1.0, limit / max(sums.mu, 1e-300))
        # The others have one record less, and their bound is overstated at most as much as this one could be.
        fewer = sums.trace if self.longest is None else max(sums.trace - self.longest**2, 0.0)
        more = 1.0 / (1.0 - missed(len(measure.head)))
        limit = self.limit_of_sums(measure, fewer, sums.leverage * more, sums.mu * more)
        if sums.few:  # the other one may be known alone
            limit = min(limit, self.limit(measure))
        if sums.mu * more <= limit:
            return sums.mu
        return share * sums.mu + max(share, 1.0 - share) * (sums.block + sums.mu)

    def limit_of_sums(self, measure: EpochMeasure, trace: float, leverage: float, mu: float) -> float:
        """Return the largest mu that a block of sums may have by what bounds all records in it.

        That lies above an average record's, and above the cap, wherever many come at once. So it is compared with that
        of average records of one class, as many as have this trace at the most that a record may have; and so is the
        leverage alone, which such a bound could hide. Without ``longest`` the cap holds.

        Parameters
        ----------
        measure
            What an average record is taken from.
        trace
            That of the block's gram.
        leverage, mu
            Those that no record in the block is above.
        """
        if self.outlier is None or self.longest is None:
            return math.inf if self.cap is None else self.cap
        (d, c), count = measure.head.shape, trace / self.longest**2
        # In proportion to the trace below that of one record: a client has a public share of it, however it is split.
        usual: float = (min(count, 1.0) * d + c * count) / max(measure.rows, 1.0)
        # The head predicts about 1 for each: labels are one-hot.
        together = float(self.mu(d, usual, math.sqrt(usual) * (1.0 + math.sqrt(1.0 + count))))
        return self.outlier * min(together, mu * usual / max(leverage, 1e-300))


@dataclass(frozen=True)
class Sums:
    """What is known of the records in a block of sums."""

    trace: float
    """That of the block's gram."""
    leverage: float
    """What no record's is above."""
    mu: float
    """What that of no record is above, uncut."""
    block: float
    """That of all of it together, uncut."""
    few: bool
    """Whether there may be no more than two."""


def record_sizes(white: Matrix, sides: Matrix) -> tuple[Matrix, Matrix]:
    """Return the sizes of the gram ``w w'`` and the moment ``w r'`` of each record: ``|w|^2`` and ``|w| |r|``."""
    leverage = (white**2).sum(axis=0)
    return leverage, np.sqrt(leverage) * np.linalg.norm(sides, axis=1)


def largest_record(event: NoisedEvent, measure: EpochMeasure, start: Matrix) -> tuple[float, float]:
    """Return what the sizes of the gram and of the moment of any record in a block are at most.

    Parameters
    ----------
    event
        The block in the measure's coordinates.
    measure
        Those.
    start
        Normals that the block's sender does not know.
    """
    seen = np.tril(measure.factor).T @ measure.head
    if event.rows is not None:
        leverage = float(eigvalsh(event.rows.T @ event.rows)[-1])
        scores = event.rows.T @ seen
        predicted = float(eigvalsh(scores.T @ scores)[-1])
    elif event.dense is not None:
        leverage = _largest_eigenvalue(event.dense, start)
        predicted = float(eigvalsh(seen.T @ event.dense @ seen)[-1])
    else:
        return 0.0, 0.0
    leverage, predicted = max(leverage, 0.0), max(predicted, 0.0)
    return leverage, math.sqrt(leverage) * (1.0 + math.sqrt(predicted))


def missed(d: int) -> float:
    """Return the share of the largest eigenvalue that Lanczos' method is below with a probability of `MISSED`."""
    if d <= LANCZOS:
        return 0.0
    return math.pow(math.log(1.648 * math.sqrt(d) / MISSED) / (2 * LANCZOS - 1), 2)


def _largest_eigenvalue(gram: Matrix, start: Matrix) -> float:
    """Return a number that the largest eigenvalue of a positive semidefinite matrix is not above, but for `MISSED`."""
    d, size = len(gram), float(np.trace(gram))
    if d <= LANCZOS:
        return float(eigvalsh(gram)[-1])
    if not size > 0.0:
        return 0.0
    gram = np.asfortranarray(gram / size)  # squares of tiny numbers are nothing
    diagonal, beside = np.zeros(LANCZOS), np.zeros(LANCZOS)
    v, before = start / np.linalg.norm(start), np.zeros(d)
    for i in range(LANCZOS):
        w = dsymv(1.0, gram, v) - beside[i - 1] * before
        diagonal[i] = v @ w
        w -= diagonal[i] * v
        beside[i] = np.linalg.norm(w)
        before, v = v, w / max(float(beside[i]), 1e-300)
    return size * float(eigvalsh_tridiagonal(diagonal, beside[:-1])[-1]) / (1.0 - missed(d))
