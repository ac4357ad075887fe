"""Every table on the small case: d = 12 and c = 4, so 3 responses identify a state and 2 never do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from exhume.paper.attacker_complete import bound_jobs, expected_jobs
from exhume.paper.registry import about, tables
from exhume.paper.study import Study
from exhume.paper.table import IN_PAPER, KINDS, Results, TableRow, own_deletions
from exhume.paper.values import Count, Number, Range
from tests.paper.conftest import FEATURE_TABLES


def rows(name: str, studies: Sequence[Study], results: Results) -> dict[str, TableRow]:
    return {row.name: row for row in tables()[name].rows(studies, results)}


@pytest.mark.parametrize("name", [table.name for table in FEATURE_TABLES])
def test_rows_fit_their_table(name: str, studies: Sequence[Study], results: Results) -> None:
    table = tables()[name]
    found = table.rows(studies, results)
    assert found
    for row in found:
        assert set(row.cells) <= set(table.columns)
        assert any(value is not None for value in row.cells.values())
        assert row.trials > 0
    assert about(table)


def test_one_response_too_few_fails_with_the_known_rank(studies: Sequence[Study], results: Results) -> None:
    found = rows("rank_threshold", studies, results)
    below, at = found["random, m = 2"].cells, found["random, m = 3"].cells
    assert below["success"] == Count(0, 2)
    assert below["rank(Q)"] == Range(8, 8)
    assert below["κ(Q)"] == below["κ(R)"] == Number(float("inf"))
    assert below["RelErr(A)"] is None
    assert at["success"] == Count(2, 2)
    assert at["rank(Q)"] == Range(12, 12)
    assert str(found["designed, m = 3"].cells["κ(Q)"]) == "1"


def test_designed_probe_recovers_everything(studies: Sequence[Study], results: Results) -> None:
    found = rows("designed_recovery", studies, results)
    assert found["sample"].cells["labels"] == found["sample"].cells["rank-one labels"] == Count(6, 6)
    assert found["class"].cells["success"] == Count(4, 4)
    assert found["client"].cells["success"] == Count(8, 8)
    for row in found.values():
        for column in ("RelErr(G)", "RelErr(S)"):
            value = row.cells[column]
            assert value is not None
            assert value.size is not None
            assert value.size < 1e-10


def test_float32_is_worse_and_has_intervals(studies: Sequence[Study], results: Results) -> None:
    exact = rows("designed_recovery", studies, results)["sample"].cells["RelErr(G)"]
    rounded = rows("designed_precision", studies, results)["sample"].cells
    assert exact is not None
    assert rounded["RelErr(G)"] is not None
    assert rounded["RelErr(G)"].size / exact.size > 1e4  # type: ignore[operator]
    assert isinstance(rounded["labels"], Count)
    assert rounded["labels"].interval is not None


def test_messages_of_a_complete_attack(studies: Sequence[Study], results: Results) -> None:
    facts = rows("attacker_facts", studies, results)["m = 6"].cells
    # 2 x 6 additions, 2 cancellations, the deletion, the replay; and the baseline among the responses
    assert facts["messages"] == Number(16)
    assert facts["responses"] == Number(17)


def test_ranks_at_the_bound_are_those_that_the_batches_predict(studies: Sequence[Study], results: Results) -> None:
    study = studies[0]
    found = rows("attacker_facts", studies, results)["m = 3"].cells
    assert found["ranks as predicted"] == Count(8, 8)
    assert found["pre-states of full rank"] == Count(2, 2)
    ranks = [results[job]["rank"] for job in expected_jobs(study)]
    posts = [results[job]["post"]["rank_X"] for job in bound_jobs(study)]
    assert posts == ranks
    assert found["post-state rank"] == Range(min(posts), max(posts))
    assert found["post-states of the lowest rank"] == Count(posts.count(9), 8)
    complete = rows("attacker_complete", studies, results)["float64, m = 3, class"].cells
    assert complete["predicted success"] == complete["success"] == Count(posts.count(12), 8)


def test_answers_are_counted_as_they_come(studies: Sequence[Study], results: Results) -> None:
    found = rows("answers", studies, results)
    assert found["one state, designed"].cells["probe answers"] == Number(3)  # ceil(12 / 4)
    assert found["one state, label swap"].cells["probe answers"] == Number(4)  # ceil(12 / 3)
    assert found["one state, one part an answer"].cells["probe answers"] == Number(12)
    # baseline, 2 x 3 probes, 2 cancellations, the deletion, the replay; then all but the first state and the baseline
    assert found["first attack, designed"].cells["server answers"] == Number(11)
    assert found["next attack, designed"].cells["server answers"] == Number(6)
    assert found["first attack, designed"].cells["messages"] == Number(10)
    for name, row in found.items():
        assert row.cells["identified"] == Count(1, 1)
        assert row.cells["with one answer fewer"] == (Count(0, 1) if name.startswith("one state") else None)


def test_pooled_rows_add_up(studies: Sequence[Study], results: Results) -> None:
    both = [*studies, *studies]
    pooled = tables()["designed_recovery"].rows(both, results)[-1]
    assert (pooled.data, pooled.cells["success"]) == ("features+features", Count(36, 36))
    alone = tables()["replay_psd"].rows(studies, results)
    largest = max(row.cells["replay PSD"].value for row in alone[:3])  # type: ignore[union-attr]
    assert alone[-1].cells == {"replay PSD": Number(largest)}


def test_the_same_answers_are_solved_by_qr_and_by_svd(studies: Sequence[Study], results: Results) -> None:
    found = rows("rank_threshold", studies, results)["random, m = 3"].cells
    qr, *svd = (found[f"RelErr(A){how}"] for how in ("", ", pinv", ", lstsq"))
    for value in svd:
        assert qr != value
        assert 0 < value.size < 1e-8  # type: ignore[union-attr, operator]
    assert svd[0] != svd[1]


def test_no_run_crosses_the_amplification_bound(studies: Sequence[Study], results: Results) -> None:
    found = rows("amplification_bound", studies, results)["attacks"].cells
    assert found["below the bound"] == Count(28, 28)


def test_replay_undoes_every_deletion(studies: Sequence[Study], results: Results) -> None:
    start = rows("prediction_change", studies, results)["final head"].cells["accuracy, %"]
    for name, row, column in (
        ("class_replay", "all classes", "final attacked accuracy, %"),
        ("client_replay", "all clients", "median final attacked accuracy, %"),
    ):
        assert rows(name, studies, results)[row].cells[column] == start


def test_raw_and_projected_replays_are_read_each_from_its_own_field(studies: Sequence[Study], results: Results) -> None:
    found = rows("replay_psd", studies, results)
    fields = {
        "ledger RelErr(S) raw": "ledger_error_gram",
        "ledger RelErr(S) PSD": "ledger_error_gram_psd",
        "ledger RelErr(G)": "ledger_error_moment",
        "replay raw": "head_error",
        "replay PSD": "head_error_psd",
        "block RelErr(S) PSD": "relerr_gram_psd",
    }
    for kind in KINDS:
        done = [results[job] for job in own_deletions(studies[0], "float64", kind)]
        for column, field in fields.items():
            expected = Number.mean([float(trial["replay"][field]) for trial in done if trial["identified"]])
            assert found[IN_PAPER[kind]].cells[column] == expected, column
    one = found[IN_PAPER["record"]].cells
    assert one["ledger RelErr(S) raw"] != one["ledger RelErr(S) PSD"]
    assert one["replay raw"] != one["replay PSD"]


def test_requests_grow_with_the_square_of_the_scale(studies: Sequence[Study], results: Results) -> None:
    found = rows("probe_scale", studies, results)
    ratios = [found[f"τ = {scale}"].cells["update ratio"] for scale in ("1e+06", "1e+08")]
    assert all(isinstance(ratio, Number) for ratio in ratios)
    assert ratios[1].size / ratios[0].size == pytest.approx(1e4)  # type: ignore[union-attr, operator]
    assert found["clipped"].cells["update ratio"].size == pytest.approx(1.0)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["amplification_bound", "class_replay", "client_replay"])
def test_figures_are_small_vectors_and_repeatable(
    name: str, studies: Sequence[Study], results: Results, tmp_path: Path
) -> None:
    draw = tables()[name].draw
    assert draw is not None
    for file in ("a.svg", "b.svg", "c.png"):
        draw([*studies, *studies], results, tmp_path / file)
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.svg").read_text()
    assert (tmp_path / "a.svg").stat().st_size < 300_000
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
