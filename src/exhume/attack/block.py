"""A recovered deletion: gram and moment, and what they say of one sample."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from exhume.attack._line import line
from exhume.numerics import Matrix, symmetric
from exhume.protocol.summary import Summary

__all__ = ["Block", "Sample"]


@dataclass(frozen=True, repr=False)
class Sample:
    """One recovered record: its class and its feature vector."""

    label: int
    feature: Matrix
    margin: float
    """How clearly the label won: largest column norm minus the second, over the largest (Proposition 3)."""

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter((self.label, self.feature))

    def __repr__(self) -> str:
        return line(self, label=self.label, feature=self.feature, margin=self.margin)


@dataclass(frozen=True, repr=False)
class Block:
    """A recovered deleted summary: ``S_del`` (d x d) and ``G_del`` (d x c)."""

    gram: Matrix
    moment: Matrix

    @property
    def summary(self) -> Summary:
        """The block as a client would submit it."""
        return Summary(symmetric(self.gram), np.ascontiguousarray(self.moment))

    @property
    def record(self) -> Matrix | None:
        """The feature of the one record whose block this is by construction; None where it is not known to be one."""
        return None

    @property
    def min_eigenvalue(self) -> float:
        """The smallest eigenvalue of the gram, which a validating server looks at."""
        return float(eigh(self.gram, eigvals_only=True, subset_by_index=[0, 0])[0])

    def as_sample(self) -> Sample:
        """Read the block as one deleted record by the maximum-column rule (Proposition 3)."""
        norms = np.linalg.norm(self.moment, axis=0)
        label = int(norms.argmax())
        others = np.delete(norms, label)
        second = float(others.max()) if others.size else 0.0
        top = float(norms[label])
        return Sample(label, self.moment[:, label].copy(), (top - second) / top if top > 0 else 0.0)

    def projected(self) -> Block:
        """Return the block with the gram's negative eigenvalues set to zero; the moment is unchanged."""
        values, vectors = eigh(self.gram)
        kept = values > 0
        return Block((vectors[:, kept] * values[kept]) @ vectors[:, kept].T, self.moment)

    @classmethod
    def of_sample(cls, label: int, feature: Matrix, classes: int) -> Block:
        """Return the block of one record: ``f f'``, written out when somebody asks for it, and ``f e_k'``."""
        moment = np.zeros((len(feature), classes))
        moment[:, label] = feature
        return _RecordBlock(label, feature, moment)

    def __repr__(self) -> str:
        d, c = self.moment.shape
        return line(self, d=d, c=c, gram=float(np.linalg.norm(self.gram)), moment=float(np.linalg.norm(self.moment)))


class _RecordBlock(Block):
    """The block of one record, known by its feature."""

    def __init__(self, label: int, feature: Matrix, moment: Matrix) -> None:
        self.__dict__.update(_label=label, _feature=feature, moment=moment)

    @property
    def record(self) -> Matrix:
        """The feature."""
        feature: Matrix = self.__dict__["_feature"]
        return feature

    @cached_property
    def gram(self) -> Matrix:
        return np.outer(self.record, self.record)

    @property
    def summary(self) -> Summary:
        """The record as a client would submit it."""
        return Summary.of(self.record[None, :], np.array([self.__dict__["_label"]]), self.moment.shape[1])

    def __repr__(self) -> str:
        d, c = self.moment.shape
        size = float(np.linalg.norm(self.record))
        return line(self, d=d, c=c, gram=size**2, moment=size)
