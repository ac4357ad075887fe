"""Every rule of agreement at its threshold: a value just inside agrees, one just outside does not."""

from __future__ import annotations

import math

import pytest

from exhume.errors import DataError
from exhume.paper.agreement import KINDS, Pair, Tally, gap, kind_of, tallies
from exhume.paper.values import Below, Count, Mean, Most, Number, Range, Value, Words

INF = float("inf")

CASES: list[tuple[str, Value, Value, bool]] = [
    ("count", Count(14, 50), Count(14, 50), True),
    ("count", Count(14, 50), Count(15, 50), False),
    ("count", Count(1000, 1000), Count(20, 20), True),
    ("count", Count(49, 500), Count(5, 50), False),
    ("whole", Number(512), Range(512, 512), True),
    ("whole", Range(468, 512), Range(468, 512), True),
    ("whole", Range(468, 512), Range(468, 511), False),
    ("whole", Number(213), Number(212), False),
    ("percentage", Number(85.94), Number(86.94), True),
    ("percentage", Number(85.94), Number(86.95), False),
    ("percentage", Number(8.94), Number(7.94), True),
    ("percentage", Number(8.94), Number(7.93), False),
    ("percentage", Range(7, 14), Range(6, 15), True),
    ("percentage", Range(7, 14), Range(7, 15.5), False),
    ("error", Mean(1e-8, 5e-8), Mean(2e-8, 0), True),
    ("error", Mean(1e-8, 5e-8), Mean(2.001e-8, 0), False),
    ("error", Number(1e-8), Mean(0.5e-8, 1), True),
    ("error", Number(1e-8), Number(0.4999e-8), False),
    ("error", Range(1e-9, 1e-6), Range(1e-9, 1.9e-6), True),
    ("error", Range(1e-9, 1e-6), Range(1e-10, 1e-6), False),
    ("error", Number(3.24e-16), Number(0.0), False),
    ("error", Number(0.0), Number(0.0), True),
    ("error", Number(-1e-8), Number(-1.1e-8), False),
    ("property", Number(100), Number(110), True),
    ("property", Number(100), Number(110.1), False),
    ("property", Number(100), Number(90), True),
    ("property", Number(100), Number(89.9), False),
    ("property", Number(INF), Number(INF), True),
    ("property", Number(INF), Number(1e300), False),
    ("property", Range(0.43, 0.79), Range(0.43, 0.86), True),
    ("property", Range(0.43, 0.79), Range(0.48, 0.79), False),
    # Two standard errors of the difference of two means of four trials with spreads 3 and 4 are 5.
    ("property", Mean(10, 3), Mean(14.99, 4), True),
    ("property", Mean(10, 3), Mean(15.01, 4), False),
    ("property", Number(10), Mean(14.99, 4), False),
    ("signed", Number(-1e-3), Number(-2e-3), True),
    ("signed", Number(-1e-3), Number(-2.01e-3), False),
    ("signed", Number(-1e-3), Number(1e-3), False),
    ("signed", Number(15), Number(14.9), True),
    ("bound", Below(6e-9), Number(5.99e-9), True),
    ("bound", Below(6e-9), Number(6e-9), False),
    ("bound", Below(6e-9), Number(1.04e-8), False),
    ("bound", Below(6e-9), Range(1e-9, 7e-9), False),
    ("most", Most(), Count(26, 50), True),
    ("most", Most(), Count(25, 50), False),
]


@pytest.mark.parametrize(("kind", "theirs", "ours", "agrees"), CASES, ids=lambda value: str(value))
def test_rule(kind: str, theirs: Value, ours: Value, agrees: bool) -> None:
    assert KINDS[kind](Pair(theirs, ours, trials=4)) is agrees


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_cannot_be_compared_does_not_agree(kind: str) -> None:
    assert {case[3] for case in CASES if case[0] == kind} == {True, False}
    for theirs, ours in ((Words("x"), Words("x")), (Words("x"), Number(1)), (Most(), Words("x"))):
        assert not KINDS[kind](Pair(theirs, ours, 4))


def test_nothing_is_measured_with_nan_that_agrees() -> None:
    nan = Number(float("nan"))
    for kind in KINDS:
        assert not KINDS[kind](Pair(Number(1.0), nan, 4)), kind
        assert not KINDS[kind](Pair(Below(1.0), nan, 4)), kind


def test_kinds_follow_from_values_and_from_the_published_data() -> None:
    assert kind_of("rank_threshold", "success", Count(5, 5)) == "count"
    assert kind_of("rank_threshold", "RelErr(A)", Number(1e-11)) == "error"
    assert kind_of("rank_threshold", "κ(R)", Number(1e6)) == "property"
    assert kind_of("rank_threshold", "rank(Q)", Number(512)) == "whole"
    assert kind_of("replay_psd", "min λ(S_del)", Number(-1)) == "signed"
    assert kind_of("replay_psd", "replay PSD", Below(6e-9)) == "bound"
    assert kind_of("attacker_facts", "float32 labels by seed, %", Range(7, 14)) == "percentage"
    assert kind_of("attacker_facts", "post-states of the lowest rank", Most()) == "most"
    assert kind_of("detectability", "anything", Words("high")) is None


def test_an_unknown_kind_in_the_published_data_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exhume.paper.agreement.kinds", lambda table: {"x": "guess"})
    with pytest.raises(DataError, match="'guess'"):
        kind_of("t", "x", Number(1))


def test_gap_is_that_of_the_worse_end() -> None:
    def far(theirs: Value, ours: Value) -> float | None:
        return gap(Pair(theirs, ours, 1))

    assert far(Range(1, 10), Range(1, 100)) == pytest.approx(1)
    assert far(Range(1, 10), Range(0.001, 100)) == pytest.approx(-3)
    assert far(Number(-2), Number(-4)) == pytest.approx(math.log10(2))
    assert far(Number(INF), Number(INF)) == far(Number(0), Number(0)) == 0
    assert far(Number(1), Number(0)) is far(Number(1), Number(-1)) is far(Number(1), Number(INF)) is None
    assert far(Count(1, 2), Count(1, 2)) is far(Below(1), Number(0.5)) is None


def test_tallies_count_by_kind_and_in_all() -> None:
    logs = [math.log10(x) for x in (1.4, 1 / 1.5, 1.9, 2.0, 3.1, 10**0.5, 3.2)]
    found = tallies([("error", abs(x) < 0.31, x) for x in logs] + [("count", True, None), ("error", False, None)])
    assert found == [
        Tally("count", 1, 1, 0, (0, 0, 0)),
        Tally("error", 8, 4, 7, (2, 4, 6)),
        Tally("all", 9, 5, 7, (2, 4, 6)),
    ]
    assert found[0].line() == ["count", "1", "1", "–", "–", "–"]
    assert found[1].line() == ["error", "8", "4", "2/7", "4/7", "6/7"]
    assert tallies([]) == []
