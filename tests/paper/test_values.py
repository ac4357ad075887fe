from __future__ import annotations

import json

import pytest

from exhume.errors import InputError
from exhume.paper.values import Below, Count, Mean, Most, Number, Range, from_plain, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("92/100", Count(92, 100)),
        ("92/100 [0.8484, 0.9648]", Count(92, 100, (0.8484, 0.9648))),
        ("4.14e-8 ± 2.67e-8", Mean(4.14e-8, 2.67e-8)),
        ("468 .. 512", Range(468, 512)),
        ("1.06e6", Number(1.06e6)),
        ("inf", Number(float("inf"))),
        ("< 6e-9", Below(6e-9)),
        ("most", Most()),
    ],
)
def test_parse_and_json_round_trip(text: str, value: object) -> None:
    found = parse(text)
    assert found == value
    assert from_plain(json.loads(json.dumps(found.plain(), allow_nan=False))) == value


def test_parse_refuses_nonsense() -> None:
    with pytest.raises(InputError, match="published value"):
        parse("about three")


def test_means_and_ranges_of_nothing_are_nothing() -> None:
    assert Mean.of([]) is None
    assert Range.of([]) is None
    assert Number.mean([]) is None
    assert Number.mean([1.0, 3.0]) == Number(2.0)
    assert Mean.of([1.0, 3.0]) == Mean(2.0, 1.0)


def test_text() -> None:
    assert str(Number(97.154)) == "97.15"
    assert str(Number(4.05e-8)) == "4.05e-08"
    assert str(Range(512, 512)) == "512"
    assert str(Count.over([True, False])) == "1/2"
    assert str(Number(float("inf"))) == "∞"
