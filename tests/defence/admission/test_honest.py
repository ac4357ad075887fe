"""Honest clients pass every rule, whatever they add and delete of their own."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from exhume import Client, Ledger, Server, Summary, Update
from exhume.defence.admission import (
    REGISTRY,
    AlgebraicOwnership,
    Duplicates,
    MinimumRows,
    NormLimit,
    Ownership,
    PositiveSemidefinite,
    Replay,
    SignedMessages,
    Signer,
)
from exhume.defence.admission._numbers import Sketch, floor_of, least_rows, whitened_moment
from exhume.errors import InputError
from exhume.protocol import count, itemise
from tests.protocol.histories import histories


def largest(history):
    """Return, for every number of rows, the block of the longest ones."""
    order = np.argsort(-np.linalg.norm(history.features, axis=1))
    return [Summary.of(*history.batch(order[:n]), history.classes) for n in range(1, len(order) + 1)]


RULES = {
    "duplicates": lambda h: Duplicates(h.features.shape[1], h.classes, seed=1),
    "positive-semidefinite": lambda h: PositiveSemidefinite(),
    "norm-limit": lambda h: NormLimit.calibrated(largest(h), rate=0.0, slack=3.0),
    "algebraic-ownership": lambda h: AlgebraicOwnership(AlgebraicOwnership.measure(h.features)),
    "replay": lambda h: Replay(h.features.shape[1], h.classes, tolerance=1e-3, seed=1),
    "ownership": lambda h: Ownership(h.features.shape[1], h.classes, seed=1),
    "minimum_rows": lambda h: MinimumRows(1),
}


def play(history, rule, dress=None):
    """Send a history through a server with one rule; returns the reasons of refusals."""
    d = history.features.shape[1]
    server = Server(Ledger.zeros(d, history.classes, 0.1), admission=[rule])
    reasons = []
    for kind, numbers in history.steps:
        rows = history.batch(numbers)
        update = (
            dress(kind, rows)
            if dress
            else getattr(Update, "adding" if kind == "add" else "deleting")(Summary.of(*rows, history.classes))
        )
        reasons.append(server.submit(update, "alice").reason)
    return [r for r in reasons if r]


@pytest.mark.parametrize("name", sorted(set(RULES) - {"ownership"}))
@settings(max_examples=40)
@given(history=histories())
def test_honest_histories_pass(name, history):
    assume(name != "duplicates" or history.features.shape[1] > 1)  # on a line, all rows are one up to scale
    assert play(history, RULES[name](history)) == []


@settings(max_examples=40)
@given(history=histories())
def test_honest_rows_pass_the_row_ledger(history):
    rule = Ownership(history.features.shape[1], history.classes, show_rows=True, seed=1)
    assert play(history, rule, lambda kind, rows: itemise(history.classes, **{kind: rows})) == []


@settings(max_examples=40)
@given(history=histories())
def test_honest_declared_counts_pass(history):
    def dress(kind, rows):
        counts = np.bincount(rows[1], minlength=history.classes)
        summary = Summary.of(*rows, history.classes)
        if kind == "add":
            return count(Update.adding(summary), added=counts)
        return count(Update.deleting(summary), deleted=counts)

    assert play(history, AlgebraicOwnership(AlgebraicOwnership.measure(history.features)), dress) == []


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 3))
def test_honest_deletions_of_own_messages_pass_strict_ownership(seed, messages, classes):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(4, 7))  # smaller blocks have too few numbers to tell eight messages apart
    blocks = [
        Summary.of(rng.normal(size=(n, d)), rng.integers(0, classes, n), classes) for n in rng.integers(1, 6, messages)
    ]
    server = Server(Ledger.zeros(d, classes, 0.1), admission=[Ownership(d, classes, seed=seed)])
    for block in blocks:
        assert server.submit(Update.adding(block), "alice").accepted
    standing = list(range(messages))
    while standing:
        chosen = rng.permutation(standing)[: rng.integers(1, len(standing) + 1)]
        total = blocks[chosen[0]]
        for i in chosen[1:]:
            total = total + blocks[i]
        assert server.submit(Update.deleting(total), "alice").accepted
        standing = [i for i in standing if i not in chosen]
    assert not server.submit(Update.deleting(blocks[0]), "alice").accepted


@settings(max_examples=20)
@given(history=histories())
def test_a_client_object_passes_all_rules_that_ask_for_nothing(history):
    assume(history.features.shape[1] > 1)
    d = history.features.shape[1]
    rules = [RULES[name](history) for name in ("positive-semidefinite", "duplicates", "algebraic-ownership", "replay")]
    server = Server(Ledger.zeros(d, history.classes, 0.1), admission=rules)
    client = Client(server, "alice")
    for kind, numbers in history.steps:
        getattr(client, kind)(*history.batch(numbers))
    assert server.counts.refused == 0


@settings(max_examples=40)
@given(history=histories())
def test_signed_messages_pass(history):
    signer = Signer("alice", b"k" * 32)
    wrap = lambda kind, rows: signer(itemise(history.classes, **{kind: rows}))  # noqa: E731
    assert play(history, SignedMessages({"alice": b"k" * 32}), wrap) == []


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 8), st.integers(1, 4))
def test_the_rows_that_the_algebra_proves_never_exceed_the_true_ones(seed, n, d, c):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, c, n)
    summary = Summary.of(rng.normal(size=(n, d)), labels, c)
    found = (whitened_moment(summary, floor_of(summary)) ** 2).sum(axis=0)
    true = np.bincount(labels, minlength=c)
    assert (found <= true + 1e-9).all()
    if n <= d // 2:
        np.testing.assert_allclose(found, true, atol=1e-4)
    assert least_rows(summary) == min(n, d)


def test_sketches_are_linear_and_find_rows():
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(5, 7)), rng.integers(0, 3, 5)
    sketch = Sketch(7, 3, 16, 1)
    whole = sketch(Summary.of(F, y, 3))
    np.testing.assert_allclose(sketch.rows(F, y).sum(axis=0), whole, atol=1e-12)
    np.testing.assert_allclose(sketch.key(Summary.of(F, y, 3)), sketch.key(Summary.of(-3 * F, y, 3)), atol=1e-12)
    sizes = [np.linalg.norm(Sketch(7, 3, 64, s).gram(Summary.of(F, y, 3))) for s in range(50)]
    assert np.mean(np.square(sizes)) == pytest.approx(np.linalg.norm(F.T @ F) ** 2, rel=0.15)
    assert Sketch(7, 3).seed != Sketch(7, 3).seed  # a secret that is not given is drawn


def test_the_registry_builds_by_name_and_suggests():
    assert isinstance(REGISTRY.find("positive_semidefinite")(most_rows=4), PositiveSemidefinite)
    with pytest.raises(InputError, match="did you mean 'algebraic-ownership'"):
        REGISTRY.find("algebraic-ownershp")


def test_the_floor_covers_the_roundoff_of_many_rows():
    rng = np.random.default_rng(0)
    rows = np.abs(rng.normal(size=(4000, 1))) * np.ones((1, 6))  # rank one, summed from many rows
    summary = Summary.of(rows, np.zeros(4000, dtype=int), 1)
    assert np.linalg.eigvalsh(summary.gram)[0] > -floor_of(summary)
    assert PositiveSemidefinite().refuse(Update.adding(summary), "alice") is None


@pytest.mark.parametrize("d", [3, 64, 300])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_sums_of_few_rows_pass_where_a_message_may_have_no_more(d, most):
    """Eigenvalues of zero come out as far below it as the factorisation rounds, which has more terms than rows."""
    rng, rule = np.random.default_rng(d), PositiveSemidefinite(most)
    for i in range(30):
        features = np.abs(rng.normal(size=(most, d))) * 10.0 ** rng.uniform(-4, 4)
        labels = rng.integers(0, 3, most) if i % 2 else np.zeros(most, dtype=int)
        made = Summary.of(features, labels, 3, factored=False)
        assert rule.refuse(Update.adding(made), "alice") is None


def test_what_roundoff_does_not_explain_is_still_refused():
    d, rule = 64, PositiveSemidefinite(1)
    for beyond, passes in ((0.3, True), (3.0, False)):
        gram = np.diag([1.0, *np.zeros(d - 2), -beyond * (1 + d + 1) * 2.0**-53])
        assert (rule.refuse(Update.adding(Summary(gram, np.zeros((d, 2)))), "m") is None) is passes
    rows, label = np.eye(1, d), np.eye(1, 2)
    for more, passes in ((1e-12, True), (1e-6, False)):  # no one row has a moment longer than itself
        made = Summary(rows.T @ rows, (1 + more) * rows.T @ label)
        assert (rule.refuse(Update.adding(made), "m") is None) is passes
