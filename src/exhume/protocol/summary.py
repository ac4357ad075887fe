"""What clients send: summaries of batches, and the updates made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol._checks import (
    as_features,
    as_labels,
    as_matrix,
    check_finite,
    check_symmetric,
)

__all__ = ["Summary", "Update"]


def _frozen(array: Matrix) -> Matrix:
    """Return ``array`` itself if nobody can write to it, else a read-only copy."""
    if not array.flags.writeable and (array.base is None or not _writeable_base(array)):
        return array
    array = array.copy()
    array.flags.writeable = False
    return array


def _writeable_base(array: Matrix) -> bool:
    base = array.base
    return isinstance(base, np.ndarray) and base.flags.writeable


def _seal(array: Matrix) -> Matrix:
    """Make an array that we just computed read-only, in place."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Summary:
    """The gram ``S = F'F`` (d x d) and moment ``G = F'Y`` (d x c) of one batch of feature rows. Immutable.

    Parameters
    ----------
    gram, moment
        Finite float64 matrices; the gram symmetric up to roundoff. They are copied unless already read-only.
    """

    gram: Matrix
    moment: Matrix
    _weights: tuple[float, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        gram = as_matrix(self.gram, "gram")
        d = gram.shape[0]
        if d == 0 or gram.shape[1] != d:
            raise InputError("gram", "a square matrix of at least 1 x 1", f"shape {gram.shape}")
        moment = as_matrix(self.moment, "moment", (d, None))
        if moment.shape[1] == 0:
            raise InputError("moment", "a matrix of at least one class column", f"shape {moment.shape}")
        self._weigh(gram, moment)
        if self._weights[0] > 0.0:
            check_symmetric(gram, "gram")
        object.__setattr__(self, "gram", _frozen(gram))
        object.__setattr__(self, "moment", _frozen(moment))

    def _weigh(self, gram: Matrix, moment: Matrix) -> None:
        """Check that all entries are finite and keep the sums of magnitudes, which tell whether a matrix is zero."""
        object.__setattr__(self, "_weights", (check_finite(gram, "gram"), check_finite(moment, "moment")))

    @classmethod
    def of(cls, features: Any, labels: Any, classes: int) -> Summary:
        """Summarise a batch: ``F'F`` and ``F'Y`` with one-hot ``Y``. Order of rows does not matter."""
        if classes < 1:
            raise InputError("classes", "at least 1", classes)
        rows = as_features(features)
        index = as_labels(labels, rows.shape[0], classes)
        onehot = np.zeros((rows.shape[0], classes))
        onehot[np.arange(rows.shape[0]), index] = 1.0
        return cls._trusted(rows.T @ rows, rows.T @ onehot)

    @classmethod
    @lru_cache(maxsize=8)
    def zeros(cls, d: int, c: int) -> Summary:
        """Return the summary of no rows at all (the same object for the same size: it is immutable)."""
        if d < 1:
            raise InputError("d", "at least 1", d)
        if c < 1:
            raise InputError("c", "at least 1", c)
        return cls._trusted(np.zeros((d, d)), np.zeros((d, c)))

    @classmethod
    def _trusted(cls, gram: Matrix, moment: Matrix) -> Summary:
        """Wrap matrices that we computed ourselves from checked ones; only an overflow can be wrong with them."""
        made = object.__new__(cls)
        made._weigh(gram, moment)
        object.__setattr__(made, "gram", _seal(gram))
        object.__setattr__(made, "moment", _seal(moment))
        return made

    @classmethod
    def kept(cls, gram: Matrix, moment: Matrix) -> Summary:
        """Wrap totals that an honest party computed and saved. They are as symmetric as they were.

        Each message is symmetric up to its own roundoff; after a large addition and its deletion what is left of that
        can be large beside the rest, and a party must still be able to read its own totals.
        """
        square = as_matrix(gram, "gram", (moment.shape[0], moment.shape[0]))
        return cls._trusted(square.copy(), as_matrix(moment, "moment").copy())

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return int(self.moment.shape[0])

    @property
    def c(self) -> int:
        """Number of classes."""
        return int(self.moment.shape[1])

    @property
    def magnitudes(self) -> tuple[float, float]:
        """The sums of magnitudes in gram and moment: no less than their Frobenius norms, and zero only if all are."""
        return self._weights

    @property
    def gram_is_zero(self) -> bool:
        """Whether the gram is zero everywhere."""
        return self._weights[0] == 0.0

    @property
    def is_zero(self) -> bool:
        """Whether both matrices are zero everywhere."""
        return sum(self._weights) == 0.0

    def _matched(self, other: Summary) -> Summary:
        if (other.d, other.c) != (self.d, self.c):
            raise InputError("summary", f"of d = {self.d}, c = {self.c}", f"d = {other.d}, c = {other.c}")
        return other

    def __add__(self, other: Summary) -> Summary:
        self._matched(other)
        if other.gram_is_zero:
            return self.with_moment(self.moment + other.moment)
        return self._trusted(self.gram + other.gram, self.moment + other.moment)

    def __sub__(self, other: Summary) -> Summary:
        self._matched(other)
        if other.gram_is_zero:
            return self.with_moment(self.moment - other.moment)
        if self.gram is other.gram:  # both halves of a moment-only pair share their gram
            return self.zeros(self.d, self.c).with_moment(self.moment - other.moment)
        return self._trusted(self.gram - other.gram, self.moment - other.moment)

    def with_moment(self, moment: Matrix) -> Summary:
        """Return a summary with the same gram, shared, and another moment."""
        made = object.__new__(type(self))
        checked = as_matrix(moment, "moment", (self.d, self.c))
        object.__setattr__(made, "_weights", (self._weights[0], check_finite(checked, "moment")))
        object.__setattr__(made, "gram", self.gram)
        object.__setattr__(made, "moment", _frozen(checked))
        return made

    def __neg__(self) -> Summary:
        return self._trusted(-self.gram, -self.moment)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Summary):
            return NotImplemented
        return np.array_equal(self.gram, other.gram) and np.array_equal(self.moment, other.moment)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Summary:
        return self  # immutable: a copy could not differ

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for matrix in (self.gram, self.moment):  # pickle gives arrays back writeable
            _seal(matrix)

    def __repr__(self) -> str:
        sizes = f"|S|={np.linalg.norm(self.gram):.6g}, |G|={np.linalg.norm(self.moment):.6g}"
        return f"Summary(d={self.d}, c={self.c}, {sizes})"


@dataclass(frozen=True, eq=False)
class Update:
    """What one client sends: a summary to add and a summary to delete.

    Parameters
    ----------
    add, delete
        Summaries of the same d and c; use `Update.adding` and `Update.deleting` for one-sided updates.
    pairs
        How many constituent add/delete pairs the client summed into this one message (Lemma 1 sends one per column);
        the server counts them.
    """

    add: Summary
    delete: Summary
    pairs: int = field(default=1)

    def __post_init__(self) -> None:
        if (self.add.d, self.add.c) != (self.delete.d, self.delete.c):
            raise InputError(
                "delete",
                f"of the same size as add (d = {self.add.d}, c = {self.add.c})",
                f"d = {self.delete.d}, c = {self.delete.c}",
            )
        if self.pairs < 1:
            raise InputError("pairs", "at least 1", self.pairs)

    @classmethod
    def adding(cls, summary: Summary) -> Update:
        """Only add."""
        return cls(summary, Summary.zeros(summary.d, summary.c))

    @classmethod
    def deleting(cls, summary: Summary) -> Update:
        """Only delete."""
        return cls(Summary.zeros(summary.d, summary.c), summary)

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return self.add.d

    @property
    def c(self) -> int:
        """Number of classes."""
        return self.add.c

    @cached_property
    def net(self) -> Summary:
        """What the ledger changes by: add minus delete."""
        if self.delete.is_zero:
            return self.add
        return self.add - self.delete

    @cached_property
    def magnitude(self) -> float:
        """Frobenius norm of all four submitted matrices together, the paper's size of a message."""
        parts = (self.add.gram, self.add.moment, self.delete.gram, self.delete.moment)
        return float(np.sqrt(sum(float(np.vdot(p, p)) for p in parts)))

    def undo(self) -> Update:
        """Return the update that takes this one back: what was added is deleted and the other way round."""
        return Update(self.delete, self.add, self.pairs)

    def __add__(self, other: Update) -> Update:
        return Update(self.add + other.add, self.delete + other.delete, self.pairs + other.pairs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Update):
            return NotImplemented
        return (self.add, self.delete, self.pairs) == (other.add, other.delete, other.pairs)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Update:
        return self  # immutable: a copy could not differ
