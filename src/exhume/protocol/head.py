"""The released classifier, and the precisions in which it can be released."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol._checks import as_features

__all__ = ["Head", "round_to", "unit_roundoff"]


@dataclass(frozen=True, eq=False)
class Head:
    """The d x c classifier that a server releases: ``scores = features @ weights``, no intercept.

    Parameters
    ----------
    weights
        The (possibly rounded) values, held as read-only float64.
    precision
        The name of the number format in which they were released.
    serial
        The number of the broadcast that brought this head, where the server tells it: a client that sees the same
        serial twice knows that nothing new was released.
    """

    weights: Matrix
    precision: str = "float64"
    serial: int | None = None

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.ndim != 2:
            raise InputError("weights", "a two-dimensional array", f"shape {weights.shape}")
        if weights.flags.writeable:
            weights = weights.copy()
            weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)
        significant_bits(self.precision)

    @property
    def d(self) -> int:
        """Number of feature dimensions."""
        return int(self.weights.shape[0])

    @property
    def c(self) -> int:
        """Number of classes."""
        return int(self.weights.shape[1])

    def scores(self, features: Any) -> Matrix:
        """Return one score per row and class."""
        scores: Matrix = as_features(features, self.d) @ self.weights
        return scores

    def predict(self, features: Any) -> NDArray[np.intp]:
        """Return the class with the largest score for each row."""
        return np.asarray(self.scores(features).argmax(axis=1), dtype=np.intp)

    def accuracy(self, features: Any, labels: Any) -> float:
        """Return the share of rows whose predicted class is their label."""
        return float(np.mean(self.predict(features) == np.asarray(labels)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Head):
            return NotImplemented
        return (self.precision, self.serial) == (other.precision, other.serial) and np.array_equal(
            self.weights, other.weights, equal_nan=True
        )

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Head:
        return self  # immutable: a copy could not differ

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.weights.flags.writeable = False  # pickle gives arrays back writeable


_FORMATS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
_ALLOWED = "float64, float32, float16, bfloat16 or Nbits with N from 2 to 53 (such as 20bits)"


def significant_bits(precision: str) -> int:
    """Return the number of significant bits of a named format."""
    if precision in _FORMATS:
        return _FORMATS[precision]
    named = re.fullmatch(r"([1-9][0-9]?)bits", precision)
    if named is None or not 2 <= int(named[1]) <= 53:
        raise InputError("precision", _ALLOWED, f"'{precision}'")
    return int(named[1])


def unit_roundoff(precision: str) -> float:
    """Return the largest relative error of rounding to nearest in a named format."""
    return float(2.0 ** -significant_bits(precision))


def round_to(values: Matrix, precision: str) -> Matrix:
    """Round to nearest, ties to even, in a named format; the result is held as float64.

    ``float16`` and ``bfloat16`` have their own exponent ranges, subnormals and overflow to infinity included;
    ``Nbits`` keeps float64's.
    """
    bits = significant_bits(precision)
    if bits == 53:
        return values
    with np.errstate(over="ignore"):
        if precision in ("float32", "float16"):
            return values.astype(precision).astype(np.float64)
        mantissa, exponent = np.frexp(values)
        kept = np.full_like(exponent, bits)
        if precision == "bfloat16":  # its smallest subnormal is 2**-133: small values keep fewer bits
            kept = np.minimum(kept, exponent + 133)
        rounded = np.ldexp(np.rint(np.ldexp(mantissa, kept)), exponent - kept)
    if precision == "bfloat16":
        rounded = np.where(np.abs(rounded) > float(np.finfo(np.float32).max), np.copysign(np.inf, values), rounded)
    return np.asarray(rounded, dtype=np.float64)
