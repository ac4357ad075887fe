"""Every table on the small case: d = 12 and c = 4, so 3 responses identify a state and 2 never do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from exhume.paper.cells import CellSpec, Pick, Split, cell, clipped_scale, pick, request_p99, scenario
from exhume.paper.plan import Study
from exhume.paper.registry import about, by_names, tables
from exhume.paper.table import Results, Row
from exhume.paper.values import Count, Number, Range
from tests.paper.conftest import TABLES


def rows(name: str, studies: Sequence[Study], results: Results) -> dict[str, Row]:
    return {row.name: row for row in tables()[name].rows(studies, results)}


@pytest.mark.parametrize("name", [table.name for table in TABLES])
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
            assert value.level is not None
            assert value.level < 1e-10


def test_float32_is_worse_and_has_intervals(studies: Sequence[Study], results: Results) -> None:
    exact = rows("designed_recovery", studies, results)["sample"].cells["RelErr(G)"]
    rounded = rows("designed_precision", studies, results)["sample"].cells
    assert exact is not None
    assert rounded["RelErr(G)"] is not None
    assert rounded["RelErr(G)"].level / exact.level > 1e4  # type: ignore[operator]
    assert isinstance(rounded["labels"], Count)
    assert rounded["labels"].interval is not None


def test_messages_of_a_complete_attack(studies: Sequence[Study], results: Results) -> None:
    facts = rows("attacker_facts", studies, results)["m = 6"].cells
    # 2 x 6 additions, 2 cancellations, the deletion, the replay; and the baseline among the responses
    assert facts["messages"] == Number(16)
    assert facts["responses"] == Number(17)
    assert facts["post-state rank at the bound"] == Range(12, 12)


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


def test_requests_grow_with_the_square_of_the_scale(studies: Sequence[Study], results: Results) -> None:
    found = rows("probe_scale", studies, results)
    ratios = [found[f"τ = {scale}"].cells["update ratio"] for scale in ("1e+06", "1e+08")]
    assert all(isinstance(ratio, Number) for ratio in ratios)
    assert ratios[1].level / ratios[0].level == pytest.approx(1e4)  # type: ignore[union-attr, operator]
    assert found["clipped"].cells["update ratio"].level == pytest.approx(1.0)  # type: ignore[union-attr]


def test_failures_stay_in_the_denominator(study: Study) -> None:
    live = cell(study.source, CellSpec("random", "float64", Split(0, 4, 2.0), responses=2))
    trial = live.trial(np.array([3]))
    assert not trial.identified
    from exhume.paper.table import errors, labels, successes
    from exhume.paper.work import _flat

    trials = [_flat(trial)]
    assert successes(trials) == labels(trials) == Count(0, 1)
    assert errors(trials, "relerr_gram") is None


def test_replayed_ledger_differs_by_the_blocks_own_error(study: Study) -> None:
    live = cell(study.source, CellSpec("own_data", "float64", Split(0, 4, 2.0), responses=6))
    rows = np.flatnonzero(live.scenario.labels == 1)
    trial = live.trial(rows)
    replay, found = trial.replays[0], trial.recovery("difference")
    assert found is not None
    share = np.linalg.norm(live.scenario.summary(rows).gram) / np.linalg.norm(live.scenario.total.gram)
    # The cancellation leaves roundoff of its own, hence not exactly.
    assert replay.ledger_error_gram == pytest.approx(found.relerr_gram * share, rel=0.2)
    assert replay.ledger_error_gram_psd is not None
    designed = cell(study.source, CellSpec("designed", "float64", Split(0, 4, 2.0))).trial(rows).replays[0]
    assert designed.head_error_psd is None
    assert designed.ledger_error_gram is not None


def test_smaller_runs_take_the_first_of_the_same_draws(study: Study) -> None:
    split = Split(0, 4, 2.0)
    stage = scenario(study.source, split)
    drawn = [int(pick(stage, split, Pick("sample", i, 7))[0]) for i in range(5)]
    assert drawn == np.random.default_rng(7).choice(600, 100, replace=False)[:5].tolist()
    others = [int(pick(stage, split, Pick("sample", i, 0, others=True))[0]) for i in range(5)]
    assert not set(others) & set(stage.parts[stage.attacker].tolist())


def test_clipped_requests_are_as_large_as_honest_ones(study: Study) -> None:
    scale = clipped_scale(study.source, 12, 4)
    # increments hold +s and -s in each of 4 columns: |gram|^2 = 2 * 4 * (s^2/2)^2, |moment|^2 = 2 * 4 * s^2/2
    assert np.sqrt(2 * scale**4 + 4 * scale**2) == pytest.approx(request_p99(study.source))


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


def test_registry() -> None:
    assert [t.name for t in by_names(["dinov2", "rank_threshold"])] == ["rank_threshold", "dinov2"]
    assert len(by_names(["all"])) == len(tables())
    with pytest.raises(ValueError, match="did you mean 'rank_threshold'"):
        by_names(["rank_treshold"])
