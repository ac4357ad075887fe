"""The span of a growing stack of columns: rank and extreme singular values without factoring the stack again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, svd, svdvals
from scipy.linalg.blas import dtrmv, dtrsv
from scipy.linalg.lapack import dtpqrt

from exhume.numerics import LANCZOS_FROM, RANK_TOLERANCE, Matrix, Rows, extremes
from exhume.protocol.rules import Undo

__all__ = ["Basis", "Extension"]

_CANCELLED = 1e-2
"""Below this share of a column outside the basis, its roundoff (1e-16 over this) asks for a second pass."""


@dataclass(frozen=True)
class Extension:
    """Columns, taken apart along a basis: their new directions, and their coordinates in old and new ones.

    The columns stand in the order of pivots: the first, as many as there are new directions, make an upper triangle
    in these.
    """

    directions: Matrix
    coordinates: Matrix
    weight: float

    @property
    def gain(self) -> int:
        """By how much they would raise the rank."""
        return int(self.directions.shape[1])


class Basis:
    """An orthonormal basis of the columns seen so far (block Gram-Schmidt), with a triangle of their coordinates in it.

    The triangle U is square with ``U U' = C C'`` for the coordinates C of all columns, so it has their singular values
    and the same pseudo-inverses up to a rotation of the columns. Adding c columns to a basis of rank r costs 4 d r c
    operations, as many again where cancellation asks for a second pass, and 2 r^2 for each column that brings no new
    direction.
    """

    def __init__(self, d: int) -> None:
        self.d = d
        self._vectors: Matrix = np.empty((d, 0), order="F")
        self._square: Matrix = np.empty((0, 0), order="F")
        self._weight = 0.0
        self._ends: tuple[float, float] | None = None
        self.rank = 0

    @property
    def vectors(self) -> Matrix:
        """The basis (d x rank)."""
        return self._vectors[:, : self.rank]

    def split(self, columns: Matrix) -> tuple[Matrix, Matrix]:
        """Return the coordinates of columns in the basis, and what lies outside it."""
        basis = self.vectors
        inside = basis.T @ columns
        outside = columns - basis @ inside
        before, after = np.linalg.norm(columns, axis=0), np.linalg.norm(outside, axis=0)
        if self.rank and (after < _CANCELLED * before).any():
            again = basis.T @ outside
            inside, outside = inside + again, outside - basis @ again
        return inside, outside

    def extension(self, columns: Matrix) -> Extension:
        """Return what adding columns would do."""
        inside, outside = self.split(columns)
        directions, triangle, order = qr(outside, mode="economic", pivoting=True, check_finite=False)
        weight = self._weight + float(np.vdot(columns, columns))
        room = min(self.d - self.rank, len(triangle))
        kept = int(np.count_nonzero(np.abs(np.diag(triangle))[:room] > RANK_TOLERANCE * np.sqrt(weight)))
        coordinates = np.vstack([inside[:, order], triangle[:kept]])
        return Extension(np.asarray(directions[:, :kept], dtype=np.float64), coordinates, weight)

    def add(self, extension: Extension) -> None:
        """Take the columns of an extension, made since the last addition, into the stack."""
        old, new = self.rank, self.rank + extension.gain
        if new > self._vectors.shape[1]:
            self._widen(min(self.d, max(2 * new, 64)))
        self._vectors[:, old:new] = extension.directions
        # The pivots, first among the columns, make the triangle larger; the others are rotated into it.
        self._square[:new, old:new] = extension.coordinates[:, : extension.gain]
        self.rank, self._weight, self._ends = new, extension.weight, None
        spare = extension.coordinates[:, extension.gain :]
        if new and spare.any():
            # In a new place: whoever marked the old triangle may want it back.
            self._square = _rotated(self.triangle, spare, len(self._square))

    def _widen(self, width: int) -> None:
        vectors, square = np.empty((self.d, width), order="F"), np.zeros((width, width), order="F")
        vectors[:, : self.rank], square[: self.rank, : self.rank] = self.vectors, self.triangle
        self._vectors, self._square = vectors, square

    @property
    def triangle(self) -> Matrix:
        """The upper triangle U (rank x rank)."""
        return self._square[: self.rank, : self.rank]

    def arrays(self, prefix: str) -> dict[str, Matrix]:
        """Return basis and stack as arrays by name."""
        return {f"{prefix}.vectors": self.vectors, f"{prefix}.coordinates": np.triu(self.triangle)}

    def mark(self) -> Undo:
        """Return what takes later additions out again."""
        kept = {name: getattr(self, name) for name in ("rank", "_vectors", "_square", "_weight", "_ends")}
        return lambda: self.__dict__.update(kept)

    def singular_values(self) -> Matrix:
        """Return the stack's singular values, as many as its rank, largest first."""
        return np.asarray(svdvals(np.triu(self.triangle), check_finite=False)) if self.rank else np.empty(0)

    def extremes(self) -> tuple[float, float]:
        """Return the largest and smallest of the stack's singular values; (0, 0) if it has none.

        They are found by iterations with the triangle, each as cheap as reading it, and kept until the next addition.
        """
        if self._ends is None:
            self._ends = self._find_ends()
        return self._ends

    def _find_ends(self) -> tuple[float, float]:
        U = np.asfortranarray(self.triangle)
        try:
            if self.rank < LANCZOS_FROM:
                raise np.linalg.LinAlgError("too small to iterate")
            top, low = extremes(
                lambda x: dtrmv(U, dtrmv(U, x, trans=1)), lambda x: dtrsv(U, dtrsv(U, x), trans=1), self.rank
            )
            return float(np.sqrt(top)), float(np.sqrt(low))
        except np.linalg.LinAlgError:
            values = self.singular_values()
            return (float(values[0]), float(values[-1])) if len(values) else (0.0, 0.0)

    def on(self, live: Rows) -> tuple[Matrix, float]:
        """Return the singular values of the stack's live rows, and ``1 + |K|`` where the others are K times these."""
        stack = np.triu(self.triangle)
        rows, others = self.vectors[live] @ stack, np.delete(self.vectors, live, axis=0) @ stack
        left, values, right = svd(rows, full_matrices=False, check_finite=False)
        values = np.asarray(values[: self.rank])
        if not values.size or not values[-1] > 0.0:
            return np.zeros(max(self.rank, 1)), 1.0
        K = (others @ right[: self.rank].T / values) @ left[:, : self.rank].T
        return values, 1.0 + float(np.linalg.norm(K, 2)) if K.size else 1.0

    @classmethod
    def restored(cls, prefix: str, arrays: Mapping[str, Matrix]) -> Basis:
        """Return the basis that `arrays` was taken from; an earlier version saved the coordinates of every column."""
        vectors, coordinates = arrays[f"{prefix}.vectors"], arrays[f"{prefix}.coordinates"]
        made = cls(vectors.shape[0])
        rank = vectors.shape[1]
        made._vectors, made.rank = np.asfortranarray(vectors), rank
        upper = coordinates.shape == (rank, rank) and not np.tril(coordinates, -1).any()
        empty = np.zeros((rank, rank))
        made._square = np.asfortranarray(coordinates) if upper else _rotated(empty, coordinates, rank)
        made._weight = float(np.vdot(coordinates, coordinates))
        return made


def _rotated(triangle: Matrix, columns: Matrix, width: int) -> Matrix:
    """Return the upper triangle V with ``V V' = U U' + C C'``, within a square of a width, by orthogonal rotations.

    Both are turned round, rows and columns, so that LAPACK's update of a QR factorisation by more rows serves.
    """
    size = len(triangle)
    turned = np.asfortranarray(np.triu(triangle)[::-1, ::-1].T)
    more = np.asfortranarray(columns[::-1].T)
    block = min(32, size)
    factor, _, _, info = dtpqrt(0, block, turned, more, overwrite_a=1, overwrite_b=1)
    if info != 0:  # pragma: no cover - dtpqrt only reports illegal arguments
        raise np.linalg.LinAlgError(f"dtpqrt: info = {info}")
    made = np.zeros((width, width), order="F")
    made[:size, :size] = np.triu(factor).T[::-1, ::-1]
    return made
