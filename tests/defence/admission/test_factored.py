"""Rules judge a factored message as they judge the dense one, and do not write it out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhume import Ledger, Server, Summary, Update
from exhume.defence.accountants.identification import _made_by
from exhume.defence.admission import (
    AlgebraicOwnership,
    BoundedInfluence,
    Duplicates,
    MinimumRows,
    NormLimit,
    Ownership,
    PositiveSemidefinite,
    Replay,
    sign,
)
from exhume.defence.admission._numbers import Sketch, content, floor_of, least_rows, whitened_moment
from exhume.protocol import gram as grams
from exhume.protocol.message import itemise
from exhume.protocol.rules import Counts, Occasion
from exhume.protocol.wire import decode_update, encode_update

D, C = 24, 3


def rows(seed=0, n=3, d=D):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.integers(0, C, n)


def both(seed=0, n=3):
    """Return the summary of some rows by its factor alone, and dense."""
    made = Summary.of(*rows(seed, n), C)
    return Summary.factored(made.factor, made.moment), Summary(made.gram, made.moment)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(-12, 0))
def test_numbers_of_a_factor_are_those_of_the_gram(seed, n, exponent):
    low, dense = both(seed, n)
    assert least_rows(low) == least_rows(dense) == n
    assert floor_of(low) == pytest.approx(floor_of(dense), rel=1e-14)
    floor = 10.0**exponent * dense.trace
    one, other = whitened_moment(low, floor), whitened_moment(dense, floor)
    # The dense solve is off by d u |S| / floor of it, which is what Cholesky promises.
    allowed = (1e-12 + 100 * D * 2.0**-53 * dense.trace / floor) * np.linalg.norm(other) ** 2
    assert np.linalg.norm(one.T @ one - other.T @ other) <= allowed
    sketch = Sketch(D, C, 8, seed=1)
    np.testing.assert_allclose(sketch(low), sketch(dense), rtol=1e-10, atol=1e-10)


def test_the_digest_is_that_of_the_numbers_that_travel():
    made = Summary.of(*rows(), C)
    got = decode_update(encode_update(Update.adding(made))).add
    assert content(got) == content(made)
    assert content(made) != content(Summary(made.gram, made.moment))
    assert content(-made) != content(made)
    key = b"a key of sixteen bytes"
    signed = sign(Update.adding(made), "alice", 1, key)
    again = decode_update(encode_update(signed))
    assert sign(Update(again.add, again.delete), "alice", 1, key).tag == signed.tag


RULES = {
    "bounded-influence": lambda: BoundedInfluence(longest=10.0, client_rows=50, message_rows=20),
    "positive-semidefinite": PositiveSemidefinite,
    "minimum-rows": lambda: MinimumRows(2),
    "norm-limit": lambda: NormLimit.calibrated([both(i, n)[1] for n in (1, 2, 4, 8) for i in range(4)], slack=1.5),
    "algebraic-ownership": lambda: AlgebraicOwnership(0.5),
    "ownership": lambda: Ownership(D, C, seed=1),
    "duplicates": lambda: Duplicates(D, C, seed=1),
    "replay": lambda: Replay(D, C, seed=1),
}


def history(form):
    """Return messages, good and bad ones, with each summary in one form."""
    a, b, e = (both(seed, n)[form] for seed, n in ((1, 3), (2, 1), (3, 4)))
    beside = a.with_moment(100.0 * a.moment)
    return [
        ("alice", Update.adding(a)),
        ("bob", Update.adding(e)),
        ("alice", Update.adding(a)),
        ("bob", Update.deleting(b)),
        ("bob", Update.adding(beside)),
        ("bob", Update(a, a.with_moment(-a.moment))),
        ("alice", Update.deleting(a)),
        ("bob", Update.adding(a)),
        ("bob", Update.adding(-e)),
        ("bob", Update.deleting(e)),
    ]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("large", [False, True])
def test_rules_decide_alike_on_both_forms(name, large, monkeypatch):
    def written_out(self):
        raise AssertionError("a large factored gram was written out")

    decisions = []
    for form in (0, 1):
        server = Server(Ledger.zeros(D, C, 1.0), admission=[RULES[name]()])
        messages = history(form)
        with monkeypatch.context() as m:
            if large:
                m.setattr(grams, "KEPT", 0)
                if form == 0 and name != "algebraic-ownership":  # its standing totals are sums with both signs
                    m.setattr(grams.FactorGram, "_make", written_out)
            for client, update in messages:
                try:
                    decisions.append((form, server.submit(update, client).accepted))
                except AssertionError:
                    # -e has no positive factor: the test of its sign is the one that writes it out.
                    assert update.add.signs is not None and (update.add.signs < 0).any()
                    decisions.append((form, False))
    half = len(decisions) // 2
    assert [d for _, d in decisions[:half]] == [d for _, d in decisions[half:]]
    assert {d for _, d in decisions} == {True, False}


def test_rows_that_are_shown_are_compared_with_a_factor():
    rule = Ownership(D, C, seed=1, show_rows=True)
    true = itemise(C, add=rows())
    sent = decode_update(encode_update(true))
    assert rule.refuse(sent, "alice") is None
    other = itemise(C, add=rows(9))
    forged = type(true)(other.add, true.delete, added=true.added)
    assert "do not make the summaries" in rule.refuse(forged, "alice")


def test_the_accountant_knows_a_ledger_of_factored_updates(monkeypatch):
    monkeypatch.setattr(grams, "KEPT", 0)
    ledger = Ledger.zeros(D, C, 1.0)
    update = Update.adding(both(1)[0])
    ledger.apply(update)
    occasion = Occasion(ledger, ("a",), (update,), Counts())
    assert _made_by(ledger, occasion)
    ledger.apply(Update.adding(both(2)[0]))
    assert not _made_by(ledger, occasion)
