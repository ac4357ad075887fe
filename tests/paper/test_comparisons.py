from __future__ import annotations

from exhume.paper.comparisons import Agreement, Comparison, differences
from exhume.paper.values import Count, Mean, Number


def comparison(table: str, column: str, theirs: object, ours: object, **more: str) -> Comparison:
    row = more.get("row", "sample")
    return Comparison(table, row, column, theirs, ours, 1, "mnist", more.get("encoder", "resnet18"))  # type: ignore[arg-type]


def test_differences() -> None:
    fine = comparison("designed_recovery", "RelErr(G)", Mean(1e-8, 1e-8), Mean(3e-8, 1e-8))
    far = comparison("designed_recovery", "RelErr(S)", Mean(1e-8, 1e-8), Mean(4e-8, 1e-8))
    count = comparison("designed_recovery", "labels", Count(100, 100), Count(99, 100))
    part = comparison("designed_recovery", "success", Count(1000, 1000), Count(50, 50))
    other = comparison("designed_recovery", "RelErr(S)", Mean(1e-8, 0), Mean(1e-2, 0), encoder="random-relu")
    kappa = comparison("rank_threshold", "κ(R)", Number(1.06e6), Number(1.08e6), row="designed, m = 52")
    low = comparison("state_diagnostics", "λ_min(A)", Number(23.2), Number(22.9), row="designed")
    found = differences([fine, far, count, part, other, kappa, low])
    assert [gap.cell for gap in found] == [far, count]
    assert found[0].what == "log10 differs by +0.60"
    assert "κ 1.08e+06 measured, 1.06e+06 published" in found[0].conditions
    assert "λ_min(A) 22.9 measured, 23.2 published" in found[0].conditions
    assert found[1].what == "99/100, published 100/100"
    rates = Count(92, 100, (0.85, 0.96)), Count(97, 100, (0.91, 0.99))
    assert differences([comparison("designed_precision", "labels", *rates)])[0].what.endswith("intervals overlap")


def test_agreement_has_a_rule_for_each_kind_of_value() -> None:
    cells = [
        comparison("rank_threshold", "success", Count(5, 5), Count(5, 5)),
        comparison("rank_threshold", "success", Count(4, 5), Count(5, 5)),
        *(comparison("rank_threshold", "RelErr(A)", Number(1.0), Number(x)) for x in (1.4, 1 / 1.4, 1.9, 3.0, 4.0)),
        comparison("state_diagnostics", "max e_G", Number(0.0), Number(0.0)),
        comparison("state_diagnostics", "min", Number(-1.0), Number(-1.0)),
    ]
    found = Agreement.of(cells)
    assert (found.counts, found.counts_equal, found.sizes, found.without) == (2, 1, 5, 2)
    assert list(found.within.values()) == [2, 3, 4]
    assert "2 within 1.5 times, 3 within 2 times, 4 within 3.16 times" in str(found)


def test_random_rows_show_their_own_conditioning() -> None:
    cells = [
        comparison("rank_threshold", "κ(R)", Number(7.0), Number(6.0), row="random, m = 52"),
        comparison("rank_threshold", "κ(R)", Number(1.0), Number(1.5), row="designed, m = 52"),
        comparison("rank_threshold", "RelErr(A)", Number(1.0), Number(9.0), row="random, m = 52"),
    ]
    (gap,) = differences(cells)
    assert "κ 6 measured, 7 published" in gap.conditions
