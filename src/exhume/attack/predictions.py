"""A prediction service: questions go in; scores, the best k of them or labels come out; the head itself does not.

Many operators return predictions, not heads. A feature vector that the attacker chooses is a question, and the answer
says something of the head: d questions read it whole from scores, about ``d c / k`` from the best k scores, and about
``d (c - 1)`` boundaries from labels alone, each found by bisection between two questions with different labels. On a
boundary ``(w_a - w_b)' x = 0``. Labels never show a shift common to all classes, nor the head's scale;
`estimate.scaled` identifies a state all the same, up to one number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import svd

from exhume.errors import AttackError, InputError
from exhume.numerics import Matrix, Rows
from exhume.protocol.head import Head
from exhume.protocol.summary import Update
from exhume.protocol.target import Target

__all__ = ["ANSWERS", "Answer", "PredictionService", "PredictionTarget", "read_head"]

Answer = Literal["scores", "top-k", "labels"]
ANSWERS: tuple[Answer, ...] = ("scores", "top-k", "labels")

_SPARE = 1.1  # so many times the equations that are needed: random ones are rarely all independent
_APART = 100.0  # so many times the accuracy of boundaries a second direction must miss them, or both may be the head
_ROUNDS = 60  # batches of questions before a class that never shows is given up


@dataclass
class PredictionService:
    """Somebody's public head behind questions; it counts them."""

    target: Target
    answers: Answer = "scores"
    k: int = 3
    """How many classes a top-k service names."""
    asked: int = 0

    def __post_init__(self) -> None:
        if self.answers not in ANSWERS:
            raise InputError("answers", ", ".join(ANSWERS), f"'{self.answers}'")

    def ask(self, questions: Matrix) -> tuple[Rows, Matrix]:
        """Return classes (n x k), best first, and their scores; of a service of labels the scores are empty."""
        self.asked += len(questions)
        found = self.target.head().scores(questions)
        shown = {"scores": found.shape[1], "top-k": self.k, "labels": 1}[self.answers]
        classes = np.argsort(-found, axis=1, kind="stable")[:, :shown]
        kept = found if self.answers != "labels" else found[:, :0]
        return classes, np.take_along_axis(kept, classes[:, : kept.shape[1]], axis=1)


class PredictionTarget:
    """A `Target` whose heads are read off a prediction service, question by question.

    Parameters
    ----------
    service
        What answers questions.
    target
        Where updates go; its heads are not looked at.
    d, c
        The public sizes.
    rng
        Draws the questions.
    digits
        Bisection steps a boundary, where only labels come out.
    """

    def __init__(
        self,
        service: PredictionService,
        target: Target,
        d: int,
        c: int,
        *,
        rng: np.random.Generator,
        digits: int = 50,
    ) -> None:
        self._service, self._target, self._digits = service, target, digits
        self._d, self._c, self._rng = d, c, rng

    def head(self) -> Head:
        """Read the present head; from labels up to a common shift and a scale."""
        return Head(read_head(self._service, self._d, self._c, rng=self._rng, digits=self._digits))

    def submit(self, update: Update) -> Head:
        """Submit an update and read the head that is public afterwards."""
        self._target.submit(update)
        return self.head()

    def __repr__(self) -> str:
        return f"PredictionTarget('{self._service.answers}', d={self._d}, c={self._c})"


def read_head(service: PredictionService, d: int, c: int, *, rng: np.random.Generator, digits: int = 50) -> Matrix:
    """Return the head behind a service: whole from scores and top-k; from labels centred over classes, of norm 1."""
    if service.answers == "scores":
        classes, values = service.ask(np.eye(d))
        W = np.empty((d, c))
        np.put_along_axis(W, classes, values, axis=1)
        return W
    return _from_best(service, d, c, rng) if service.answers == "top-k" else _from_labels(service, d, c, rng, digits)


def _from_best(service: PredictionService, d: int, c: int, rng: np.random.Generator) -> Matrix:
    """Solve for each class from the questions that showed it; ask on until every class was shown d times."""
    questions, classes, values = np.empty((0, d)), np.empty((0, service.k), dtype=np.intp), np.empty((0, service.k))
    for _ in range(_ROUNDS):
        new = rng.standard_normal((d, d))
        shown, scores = service.ask(new)
        questions, classes = np.vstack([questions, new]), np.vstack([classes, shown])
        values = np.vstack([values, scores])
        if np.bincount(classes.ravel(), minlength=c).min() >= _SPARE * d:
            break
    else:
        raise AttackError(f"a class was never among the best {service.k} often enough in {len(questions)} questions")
    W = np.empty((d, c))
    for k in range(c):
        row, column = np.nonzero(classes == k)
        W[:, k] = np.linalg.lstsq(questions[row], values[row, column], rcond=None)[0]
    return W


def _from_labels(service: PredictionService, d: int, c: int, rng: np.random.Generator, digits: int) -> Matrix:
    """Solve ``(w_a - w_b)' x = 0`` over points on boundaries for the head's one direction that satisfies them all.

    A class that seldom comes out has few boundaries: questions go on until one direction alone is left.
    """
    wanted = int(np.ceil(_SPARE * d * (c - 1)))
    table = np.empty((0, (c - 1) * d))
    accuracy = max(2.0**-digits, float(np.finfo(np.float64).eps))
    for _ in range(_ROUNDS):
        point, a, b = _boundaries(service, wanted, d, rng, digits)
        rows = np.zeros((len(point), c, d))
        index = np.arange(len(point))
        rows[index, a], rows[index, b] = point, -point
        # Differences to the last class are the unknowns: a shift common to all is never seen.
        table = np.vstack([table, rows[:, : c - 1].reshape(len(point), -1)])
        if len(table) < table.shape[1]:
            continue
        _, values, right = svd(table, full_matrices=False, check_finite=False)
        if values[-2] > _APART * accuracy * values[0]:
            break
    else:
        raise AttackError(f"{len(table)} boundaries leave more than one head: a class hardly ever comes out")
    W = np.zeros((d, c))
    W[:, : c - 1] = right[-1].reshape(c - 1, d).T
    W -= W.mean(axis=1, keepdims=True)
    # Of the two signs the one that gives the labels that come out.
    questions = rng.standard_normal((50, d))
    truth = service.ask(questions)[0][:, 0]
    agree = np.mean((questions @ W).argmax(axis=1) == truth)
    other = np.mean((questions @ -W).argmax(axis=1) == truth)
    return W if agree >= other else -W


def _boundaries(
    service: PredictionService, count: int, d: int, rng: np.random.Generator, digits: int
) -> tuple[Matrix, Rows, Rows]:
    """Return points on boundaries, up to so many, and the two classes that meet at each."""
    ends = rng.standard_normal((2, 2 * count, d))
    labels = [service.ask(end)[0][:, 0] for end in ends]
    crossing = np.flatnonzero(labels[0] != labels[1])[:count]
    low, high = ends[0][crossing], ends[1][crossing]
    a, b = labels[0][crossing], labels[1][crossing]
    for _ in range(digits):
        middle = 0.5 * (low + high)
        seen = service.ask(middle)[0][:, 0]
        left = seen == a
        low = np.where(left[:, None], middle, low)
        high = np.where(left[:, None], high, middle)
        b = np.where(left, b, seen)  # a third class in between: the boundary is with that one
    return 0.5 * (low + high), a, b
