"""What clients send: summaries of batches, and the updates made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from exhume.errors import InputError
from exhume.numerics import Matrix, mirrored
from exhume.protocol._checks import as_count, as_features, as_labels, as_matrix, check_finite, check_symmetric
from exhume.protocol.gram import DenseGram, FactorGram, Gram, RowsGram, combined, negated, no_gram, sealed

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


class Summary:
    """The gram ``S = F'F`` (d x d) and moment ``G = F'Y`` (d x c) of one batch of feature rows. Immutable.

    The gram is dense, or, for fewer rows than columns, known by a factor: ``S = R'R`` with R of at most d rows.

    Parameters
    ----------
    gram, moment
        Finite float64 matrices; the gram symmetric up to roundoff. They are copied unless already read-only.
    """

    _gram: Gram
    _moment: Matrix
    _weight: float

    def __init__(self, gram: Matrix, moment: Matrix) -> None:
        square = as_matrix(gram, "gram")
        d = square.shape[0]
        if d == 0 or square.shape[1] != d:
            raise InputError("gram", "a square matrix of at least 1 x 1", f"shape {square.shape}")
        sides = _as_moment(moment, d)
        held = DenseGram(_frozen(square))
        weight = check_finite(sides, "moment")
        if not held.is_zero:
            check_symmetric(square, "gram")
        self._fill(held, _frozen(sides), weight)

    def _fill(self, gram: Gram, moment: Matrix, weight: float) -> None:
        self.__dict__.update(_gram=gram, _moment=moment, _weight=weight)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a summary is immutable: {name} cannot be set")

    @classmethod
    def of(cls, features: Any, labels: Any, classes: int, *, factored: bool | None = None) -> Summary:
        """Summarise a batch: ``F'F`` and ``F'Y`` with one-hot ``Y``. Order of rows does not matter.

        Fewer rows than columns are sent as their triangular factor, whichever rotation of them came; more, or with
        ``factored=False``, as the dense gram. In this process the gram is that of the rows either way.
        """
        if classes < 1:
            raise InputError("classes", "at least 1", classes)
        rows = as_features(features)
        index = as_labels(labels, rows.shape[0], classes)
        onehot = np.zeros((rows.shape[0], classes))
        onehot[np.arange(rows.shape[0]), index] = 1.0
        few = rows.shape[0] < rows.shape[1] if factored is None else factored
        if few and rows.shape[0] > rows.shape[1]:
            raise InputError("features", f"at most d = {rows.shape[1]} rows of a factored summary", len(rows))
        held = RowsGram(_frozen(rows)) if few else DenseGram(sealed(rows.T @ rows))
        return cls._made(held, sealed(rows.T @ onehot))

    @classmethod
    def of_blocks(cls, blocks: Iterable[tuple[Any, Any]], classes: int) -> Summary:
        """Summarise many rows that come as blocks of features and labels: one d x d matrix, and one block at a time.

        The sum is that of `of` up to roundoff: products are added block by block, and half of them are computed.
        """
        if classes < 1:
            raise InputError("classes", "at least 1", classes)
        gram = moment = np.empty((0, 0))
        for features, labels in blocks:
            rows = np.ascontiguousarray(as_features(features, len(gram) or None))
            index = as_labels(labels, len(rows), classes)
            if not len(gram):
                gram, moment = np.zeros((rows.shape[1],) * 2, order="F"), np.zeros((rows.shape[1], classes))
            gram = np.asarray(dsyrk(1.0, rows.T, beta=1.0, c=gram, lower=1, overwrite_c=1))
            for k in np.unique(index):
                moment[:, k] += rows[index == k].sum(axis=0)
        if not len(gram):
            raise InputError("blocks", "at least one block of rows", "none")
        return cls._made(DenseGram(sealed(mirrored(gram.T))), sealed(moment))

    @classmethod
    def factored(cls, factor: Any, moment: Any, signs: Any = None) -> Summary:
        """Return the summary with the gram ``R' diag(signs) R``, which is not written out.

        Parameters
        ----------
        factor
            R: at most d finite rows of d columns, float64.
        moment
            The moment (d x c).
        signs
            1 or -1 for each row of R; all 1 where not given, and then the gram is positive semidefinite.
        """
        rows = as_matrix(factor, "factor")
        count, d = rows.shape
        if d == 0 or count > d:
            raise InputError("factor", "a matrix of at least 1 column and at most as many rows", f"shape {rows.shape}")
        check_finite(rows, "factor")
        try:
            turns = np.ones(count) if signs is None else np.array(signs, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("signs", f"1 or -1 for each of {count} rows", repr(signs)[:80]) from None
        if turns.shape != (count,) or not (np.abs(turns) == 1.0).all():
            raise InputError("signs", f"1 or -1 for each of {count} rows", f"{np.shape(turns)} {turns.tolist()[:8]}")
        return cls._made(FactorGram(_frozen(rows), sealed(turns)), _frozen(_as_moment(moment, d)))

    @classmethod
    @lru_cache(maxsize=8)
    def zeros(cls, d: int, c: int) -> Summary:
        """Return the summary of no rows at all (the same object for the same size: it is immutable)."""
        if d < 1:
            raise InputError("d", "at least 1", d)
        if c < 1:
            raise InputError("c", "at least 1", c)
        return cls._made(no_gram(d), sealed(np.zeros((d, c))))

    @classmethod
    def _trusted(cls, gram: Matrix, moment: Matrix) -> Summary:
        """Wrap matrices that we computed ourselves from checked ones; only an overflow can be wrong with them."""
        return cls._made(DenseGram(sealed(gram)), sealed(moment))

    @classmethod
    def _made(cls, gram: Gram, moment: Matrix) -> Summary:
        made = object.__new__(cls)
        made._fill(gram, moment, check_finite(moment, "moment"))
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
    def gram(self) -> Matrix:
        """The gram, written out; above d = 1024 that of a factor is made anew each time, since nobody may keep it."""
        return self._gram.dense

    @property
    def moment(self) -> Matrix:
        """The moment."""
        return self._moment

    @property
    def factor(self) -> Matrix | None:
        """Rows R with ``S = R' diag(signs) R``; None where only the dense gram is known."""
        found = self._gram.factor
        return None if found is None else found[0]

    @property
    def signs(self) -> Matrix | None:
        """1 or -1 for each row of the factor; None where only the dense gram is known."""
        found = self._gram.factor
        return None if found is None else found[1]

    @property
    def is_factored(self) -> bool:
        """Whether a factor is known."""
        return not isinstance(self._gram, DenseGram)

    @property
    def is_square(self) -> bool:
        """Whether the gram is ``R'R`` with a known R, hence positive semidefinite without a test."""
        return self._gram.is_square

    @property
    def rank(self) -> int:
        """The most that the rank of the gram can be: the rows of its factor, or d."""
        return self._gram.rank

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return int(self._moment.shape[0])

    @property
    def c(self) -> int:
        """Number of classes."""
        return int(self._moment.shape[1])

    @property
    def magnitudes(self) -> tuple[float, float]:
        """One number each of gram and moment: no less than their Frobenius norms, and zero only if all entries are."""
        return self._gram.weight, self._weight

    @property
    def trace(self) -> float:
        """The trace of the gram."""
        return self._gram.trace

    @property
    def gram_norm(self) -> float:
        """The Frobenius norm of the gram: of a large factored one from ``R R'``."""
        return float(np.sqrt(self._gram.square()))

    def diagonal(self) -> Matrix:
        """Return the diagonal of the gram."""
        return self._gram.diagonal()

    def times(self, right: Matrix) -> Matrix:
        """Return ``S right``, from the factor where the gram is not written out."""
        return self._gram.times(right)

    def band(self, which: slice) -> Matrix:
        """Return some rows of the gram, of a large factored one without the others."""
        return self._gram.band(which)

    @property
    def gram_is_zero(self) -> bool:
        """Whether the gram is zero everywhere."""
        return self._gram.is_zero

    @property
    def is_zero(self) -> bool:
        """Whether both matrices are zero everywhere."""
        return self._weight == 0.0 and self._gram.is_zero

    def shares_gram(self, other: Summary) -> bool:
        """Say whether two summaries have one gram between them, as the halves of a moment-only pair do."""
        return self._gram is other._gram

    def sent(self) -> Summary:
        """Return the summary as it comes out of the wire: of few rows, the factor is all that is known of the gram."""
        found = self._gram.factor
        return self if found is None else self._made(FactorGram(*found), self._moment)

    def _matched(self, other: Summary) -> Summary:
        if (other.d, other.c) != (self.d, self.c):
            raise InputError("summary", f"of d = {self.d}, c = {self.c}", f"d = {other.d}, c = {other.c}")
        return other

    def __add__(self, other: Summary) -> Summary:
        self._matched(other)
        return self._made(combined(self._gram, other._gram, 1.0), sealed(self._moment + other._moment))

    def __sub__(self, other: Summary) -> Summary:
        self._matched(other)
        return self._made(combined(self._gram, other._gram, -1.0), sealed(self._moment - other._moment))

    def with_moment(self, moment: Matrix) -> Summary:
        """Return a summary with the same gram, shared, and another moment."""
        return self._made(self._gram, _frozen(as_matrix(moment, "moment", (self.d, self.c))))

    def __neg__(self) -> Summary:
        return self._made(negated(self._gram), sealed(-self._moment))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Summary):
            return NotImplemented
        return np.array_equal(self._moment, other._moment) and self._gram.same(other._gram)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Summary:
        return self  # immutable: a copy could not differ

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        sealed(self._moment)  # pickle gives arrays back writeable

    def __repr__(self) -> str:
        sizes = f"|S|={self.gram_norm:.6g}, |G|={np.linalg.norm(self.moment):.6g}"
        return f"Summary(d={self.d}, c={self.c}, {sizes})"


def _as_moment(value: Any, d: int) -> Matrix:
    moment = as_matrix(value, "moment", (d, None))
    if moment.shape[1] == 0:
        raise InputError("moment", "a matrix of at least one class column", f"shape {moment.shape}")
    return moment


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
        object.__setattr__(self, "pairs", as_count(self.pairs, "pairs"))

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
        sides = (self.add, self.delete)
        return float(
            np.sqrt(sum(part for s in sides for part in (s._gram.square(), float(np.vdot(s.moment, s.moment)))))
        )

    def sent(self) -> Update:
        """Return the update as it comes out of the wire, to the last bit of what the receiver can know."""
        return replace(self, add=self.add.sent(), delete=self.delete.sent())

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
