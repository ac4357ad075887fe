from __future__ import annotations

import pytest

from exhume.paper.comparisons import Comparison, differences, ratios, tallied
from exhume.paper.values import Count, Mean, Number, Words


def comparison(table: str, column: str, theirs: object, ours: object, **more: str) -> Comparison:
    row = more.get("row", "sample")
    return Comparison(table, row, column, theirs, ours, 1, "mnist", more.get("encoder", "resnet18"))  # type: ignore[arg-type]


def test_differences() -> None:
    fine = comparison("designed_recovery", "RelErr(G)", Mean(1e-8, 1e-8), Mean(2e-8, 1e-8))
    far = comparison("designed_recovery", "RelErr(S)", Mean(1e-8, 1e-8), Mean(4e-8, 1e-8))
    count = comparison("designed_recovery", "labels", Count(100, 100), Count(99, 100))
    part = comparison("designed_recovery", "success", Count(1000, 1000), Count(50, 50))
    other = comparison("designed_recovery", "RelErr(S)", Mean(1e-8, 0), Mean(1e-2, 0), encoder="random-relu")
    kappa = comparison("rank_threshold", "κ(R)", Number(1.06e6), Number(1.08e6), row="designed, m = 52")
    low = comparison("state_diagnostics", "λ_min(A)", Number(23.2), Number(22.9), row="designed")
    found = differences([fine, far, count, part, other, kappa, low])
    assert [gap.cell for gap in found] == [far, count]
    assert found[0].what == "4.00e-08 ± 1.00e-08, published 1.00e-08 ± 1.00e-08, 4 times"
    assert "κ 1.08e+06 measured, 1.06e+06 published" in found[0].conditions
    assert "λ_min(A) 22.9 measured, 23.2 published" in found[0].conditions
    assert found[1].what == "99/100, published 100/100"
    rates = Count(92, 100, (0.85, 0.96)), Count(97, 100, (0.91, 0.99))
    assert differences([comparison("designed_precision", "labels", *rates)])[0].what.endswith("intervals overlap")


def test_no_cell_agrees_without_a_comparison() -> None:
    cells = [
        comparison("rank_threshold", "success", Count(5, 5), Count(5, 5)),
        comparison("rank_threshold", "success", Count(4, 5), Count(5, 5)),
        *(comparison("rank_threshold", "RelErr(A)", Number(1.0), Number(x)) for x in (1.4, 1 / 1.4, 1.9, 3.0, 4.0)),
        comparison("state_diagnostics", "max e_G", Number(3e-16), Number(0.0)),
        comparison("replay_psd", "min λ(S_del)", Number(-1.0), Number(1.0)),
        comparison("rank_threshold", "RelErr(A)", Number(1.0), None),
        comparison("rank_threshold", "RelErr(A)", None, Number(1.0)),
        comparison("rank_threshold", "RelErr(A)", Number(1.0), Number(1.0), encoder="random-relu"),
        comparison("rank_threshold", "RelErr(A)", Words("small"), Number(1.0)),
    ]
    found = {tally.kind: tally for tally in tallied(cells)}
    assert (found["count"].cells, found["count"].agree) == (2, 1)
    assert (found["error"].cells, found["error"].agree, found["error"].within) == (6, 3, (2, 3, 4))
    assert (found["signed"].cells, found["signed"].agree) == (1, 0)
    assert (found["all"].cells, found["all"].agree, found["all"].sizes) == (9, 4, 5)
    assert len(differences(cells)) == 5
    assert not any(cell.agrees for cell in cells[-4:])


def test_ratios_tell_on_which_side_the_errors_of_a_table_lie() -> None:
    above = [comparison("attacker_data", "class G", Number(1.0), Number(x), row="float64") for x in (2, 2, 2, 2, 2)]
    mixed = [comparison("attacker_data", "class G", Number(1.0), Number(x), row="float32") for x in (4, 1, 1, 1, 0.25)]
    few = [comparison("feature_error", "mean", Number(1.0), Number(9.0), row="float64")] * 4
    counts = [comparison("attacker_data", "sample labels", Count(1, 2), Count(2, 2), row="float64")]
    first, second = ratios([*above, *mixed, *few, *counts])
    assert (first.table, first.heads, first.cells, first.above) == ("attacker_data", "float64", 5, 5)
    assert first.mean == pytest.approx(2)
    assert first.reason is not None
    assert (second.heads, second.above) == ("float32", 1)
    assert second.mean == pytest.approx(1)
    assert second.reason != first.reason


def test_random_rows_show_their_own_conditioning() -> None:
    cells = [
        comparison("rank_threshold", "κ(R)", Mean(7.0, 1.0), Mean(6.5, 1.0), row="random, m = 52"),
        comparison("rank_threshold", "κ(R)", Number(1.0), Number(1.05), row="designed, m = 52"),
        comparison("rank_threshold", "RelErr(A)", Number(1.0), Number(9.0), row="random, m = 52"),
    ]
    (gap,) = differences(cells)
    assert "κ 6.5 ± 1 measured, 7 ± 1 published" in gap.conditions
