"""The span of a growing stack of columns: rank and singular values without factoring the stack again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, svd, svdvals

from exhume.numerics import RANK_TOLERANCE, Matrix, Rows
from exhume.protocol.rules import Undo

__all__ = ["Basis", "Extension"]

_CANCELLED = 1e-2
"""Below this share of a column outside the basis, its roundoff (1e-16 over this) asks for a second pass."""


@dataclass(frozen=True)
class Extension:
    """Columns, taken apart along a basis: their new directions, and their coordinates in old and new ones."""

    directions: Matrix
    coordinates: Matrix
    weight: float

    @property
    def gain(self) -> int:
        """By how much they would raise the rank."""
        return int(self.directions.shape[1])


class Basis:
    """An orthonormal basis of the columns seen so far, with their coordinates in it (block Gram-Schmidt).

    Adding c columns to a basis of rank r costs 4 d r c operations, and as many again where cancellation asks for a
    second pass.
    """

    def __init__(self, d: int) -> None:
        self.d = d
        self._vectors: Matrix = np.empty((d, 0), order="F")
        self._blocks: list[Matrix] = []
        self._weight = 0.0
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
        beyond = np.empty((kept, columns.shape[1]))
        beyond[:, order] = triangle[:kept]
        return Extension(np.asarray(directions[:, :kept], dtype=np.float64), np.vstack([inside, beyond]), weight)

    def add(self, extension: Extension) -> None:
        """Take the columns of an extension, made since the last addition, into the stack."""
        new = self.rank + extension.gain
        if new > self._vectors.shape[1]:
            wider = np.empty((self.d, min(self.d, max(2 * new, 64))), order="F")
            wider[:, : self.rank] = self.vectors
            self._vectors = wider
        self._vectors[:, self.rank : new] = extension.directions
        self.rank = new
        self._blocks.append(extension.coordinates)
        self._weight = extension.weight

    def arrays(self, prefix: str) -> dict[str, Matrix]:
        """Return basis and stack as arrays by name."""
        return {f"{prefix}.vectors": self.vectors, f"{prefix}.coordinates": self.coordinates()}

    def mark(self) -> Undo:
        """Return what takes later additions out again."""
        rank, blocks, weight = self.rank, len(self._blocks), self._weight

        def undo() -> None:
            self.rank, self._weight = rank, weight
            del self._blocks[blocks:]

        return undo

    def singular_values(self) -> Matrix:
        """Return the stack's singular values, as many as its rank, largest first."""
        if self.rank == 0:
            return np.empty(0)
        values: Matrix = svdvals(self.coordinates(), check_finite=False)
        return values[: self.rank]

    def on(self, live: Rows) -> tuple[Matrix, float]:
        """Return the singular values of the stack's live rows, and ``1 + |K|`` where the others are K times these."""
        stack = self.coordinates()
        rows, others = self.vectors[live] @ stack, np.delete(self.vectors, live, axis=0) @ stack
        left, values, right = svd(rows, full_matrices=False, check_finite=False)
        values = np.asarray(values[: self.rank])
        if not values.size or not values[-1] > 0.0:
            return np.zeros(max(self.rank, 1)), 1.0
        K = (others @ right[: self.rank].T / values) @ left[:, : self.rank].T
        return values, 1.0 + float(np.linalg.norm(K, 2)) if K.size else 1.0

    def coordinates(self) -> Matrix:
        """Return the stack in the basis (rank x columns)."""
        whole = np.zeros((self.rank, sum(block.shape[1] for block in self._blocks)))
        at = 0
        for block in self._blocks:
            whole[: len(block), at : at + block.shape[1]] = block
            at += block.shape[1]
        return whole

    @classmethod
    def restored(cls, prefix: str, arrays: Mapping[str, Matrix]) -> Basis:
        """Return the basis that `arrays` was taken from."""
        vectors, coordinates = arrays[f"{prefix}.vectors"], arrays[f"{prefix}.coordinates"]
        made = cls(vectors.shape[0])
        made._vectors, made.rank = np.asfortranarray(vectors), vectors.shape[1]
        if coordinates.shape[1]:
            made._blocks = [coordinates]
        made._weight = float(np.vdot(coordinates, coordinates))
        return made
