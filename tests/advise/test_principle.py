"""The attacks that broke the first hardened server, against the rules that they broke and the server that it is now."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from exhume.advise import run as runner
from exhume.advise.advice import ABOVE, LEVEL, POWER, deletions_for, detectable
from exhume.advise.defences import defence
from exhume.advise.records import CellResult
from exhume.advise.run import Cell, Request, matrix_of
from exhume.simulate.attackers import Attacker, _filling, absorb, error_oracle, poison
from exhume.simulate.federation import Federation
from exhume.simulate.scenario import spread_records
from exhume.simulate.siege import HONEST_AFTER, besiege, honest_cost

SMALL = Request(dim=24, trials=20, averaged=8)
WIDE = replace(SMALL, dim=128)

HARMLESS = 1.5
"""Points: the goal is one, and one of the 359 test rows is 0.28 of them."""


@pytest.fixture(scope="module")
def dealt():
    return matrix_of(SMALL)


@pytest.fixture(scope="module")
def wide():
    """So many features that a head is good, and a point of accuracy no luck."""
    return matrix_of(WIDE)


def played(dealt, attack, name, trials):
    matrix = replace(dealt, request=replace(dealt.request, trials=trials))
    found = CellResult.model_validate(runner.work(matrix, Cell(attack, name)))
    assert found.error is None
    return found.score


@pytest.fixture(scope="module")
def play(dealt):
    return lambda attack, name, trials=SMALL.trials: played(dealt, attack, name, trials)


@pytest.fixture(scope="module")
def ruin(wide):
    return lambda attack, name: played(wide, attack, name, WIDE.trials)


def luck(trials, rate=0.1):
    """The most labels of a true rate, or of chance, that come by once in a thousand runs."""
    return binom(trials, rate).ppf(1 - 1e-3)


def test_refusals_name_the_label_where_rules_look_at_others_and_not_on_the_hardened_server(play):
    assert play("refusal-oracle", "rows+replay").labels == SMALL.trials
    assert play("refusal-oracle", "hardened").labels <= luck(SMALL.trials)
    assert play("refusal-oracle", "hardened+sums").labels <= luck(SMALL.trials)


def test_errors_tell_of_the_gram_on_the_bare_server_and_not_on_the_hardened_one(play):
    assert play("error-oracle", "none").labels > luck(SMALL.trials)
    assert play("error-oracle", "hardened").labels <= luck(SMALL.trials)


def test_giants_that_come_and_go_make_a_rule_of_ownership_leave_the_deletion_to_the_ledger(play):
    score = play("error-oracle", "algebraic-ownership", 10)
    assert score.labels > luck(10)
    assert 1 <= score.refused["algebraic-ownership"] <= error_oracle.TURNS  # before the giants; then the ledger decides
    assert play("error-oracle", "ownership", 10).messages <= 3 * error_oracle.TURNS


def test_refusals_of_additions_name_the_label_where_duplicates_are_refused_and_not_on_the_hardened_server(play):
    assert play("refusal-oracle-additions", "duplicates").labels == SMALL.trials
    assert play("refusal-oracle-additions", "hardened").labels <= luck(SMALL.trials)
    assert play("refusal-oracle-additions", "none").labels <= luck(SMALL.trials)


def test_giants_are_absorbed_by_the_bare_server_and_refused_by_the_hardened_one(ruin):
    swallowed, stopped = ruin("absorb", "none"), ruin("absorb", "hardened")
    assert swallowed.messages == 2 and not swallowed.refused  # the giants came, and they went
    assert swallowed.damage[0] > 30
    assert swallowed.honest_refused >= HONEST_AFTER  # no deletion is served any more, however it is asked for
    assert stopped.damage[0] < HARMLESS and stopped.honest_refused == 0
    assert stopped.refused == {"bounded-influence": len(absorb.SIZES)}  # what the bounds let in did come and go
    assert stopped.messages == len(absorb.SIZES) + 2 * absorb.ROUNDS


def test_giants_that_leave_no_head_make_room_for_something_smaller(wide, monkeypatch):
    monkeypatch.setattr(absorb, "SIZES", (1e8,))
    score = played(wide, "absorb", "none", WIDE.trials)
    assert 1 <= score.refused["ledger"] <= len(absorb.BALLAST)  # as they came; with ballast in their place they went
    assert score.damage[0] < 60  # giants that stand take more than 80 points, which is another attack


@pytest.mark.parametrize("rule", ["ownership", "minimum-rows"])
def test_what_is_refused_without_an_attack_is_not_laid_to_it(dealt, play, rule):
    """Both rules refuse the first way in which a record's deletion is asked for, whoever else is there."""
    idle = Attacker("idle", "does nothing", lambda prober: lambda later: None, aim="burn")
    records = spread_records(dealt.scenario, HONEST_AFTER)
    federation = Federation.behind(dealt.scenario, defence(rule).config(dealt.context()))
    assert honest_cost(federation, records).refused >= HONEST_AFTER
    assert besiege(federation, idle, records).honest_refused == 0
    assert play("absorb", rule).honest_refused > 0


def test_front_running_stops_honest_clients_where_duplicates_are_refused_and_not_on_the_hardened_server(play, ruin):
    for rule in ("duplicates", "replay", "rows+replay"):  # every addition that was seen coming
        assert play("front-running", rule).honest_refused == HONEST_AFTER
    stopped = ruin("front-running", "hardened")
    assert stopped.honest_refused == 0 and stopped.damage[0] < HARMLESS


def test_multiples_of_the_identity_draw_heads_to_nothing_but_where_records_are_bounded(ruin):
    bare, sums = (ruin("identity-blocks", name) for name in ("none", "hardened+sums"))
    assert bare.damage[0] > 10 and bare.messages == _filling.MESSAGES + 1
    held = [ruin("identity-blocks", name) for name in ("hardened", "hardened+messages")]
    assert all(one.damage[0] < HARMLESS and one.honest_refused == 0 for one in held)
    assert HARMLESS < sums.damage[0] < bare.damage[0]  # kept totals do not reach the goal, and no page says so
    for bounded in (sums, *held):
        assert set(bounded.refused) - {"whole-messages"} == {"bounded-influence"}


def test_wrong_rows_within_the_bounds_ruin_heads_behind_every_defence_and_bounds_are_what_limits_them(ruin):
    """Nobody can tell wrong rows from right ones: what a client may have at most is what it can do at most."""
    for name in ("none", "bounded-influence", "hardened", "hardened+messages", "hardened+sums"):
        score = ruin("poison", name)
        assert score.damage[0] > 5 and score.honest_refused == 0
    away = poison.turned_round(np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]]), np.array([4, 4, 7]))
    np.testing.assert_array_equal(away[0], [4, 7])
    np.testing.assert_allclose(away[1], [np.array([-1, 1]) / np.sqrt(2), np.array([1, -1]) / np.sqrt(2)], atol=0.1)


def test_every_planned_identity_fills_its_own_bound(wide):
    many = replace(wide, request=replace(WIDE, colluders=3))
    score = played(many, "identity-blocks", "bounded-influence", WIDE.trials)
    alone = played(wide, "identity-blocks", "bounded-influence", WIDE.trials)
    assert score.messages == 3 * alone.messages and score.refused.keys() == {"bounded-influence"}
    assert score.damage[0] > alone.damage[0]


def test_a_history_of_exact_heads_tells_every_label(play):
    assert play("history", "none").labels == SMALL.trials
    assert play("fold-pump", "none").labels == SMALL.trials
    assert play("history-blind", "none", 5).labels >= 3


def test_what_comes_in_is_read_from_exact_heads_as_what_goes_is(play):
    assert play("additions", "none").labels == SMALL.trials
    assert play("additions-blind", "none", 5).labels >= 3


def test_changes_in_between_do_not_stop_who_watches_everybody(dealt):
    """The paper's attack needs a quiet interval; `stitched` reads as well without one."""
    matrix = replace(dealt, request=replace(SMALL, trials=10))
    found = CellResult.model_validate(runner.work(matrix, Cell("stitched", "none", busy=True)))
    assert found.error is None and found.score.labels == 10


@pytest.mark.parametrize("attack", ["history", "additions", "fold-pump"])
def test_readers_who_know_the_feature_play_against_the_hardened_server(play, attack):
    """Of few rows the noise hides no label from them (docs/advise.md): there is no bound to hold them to."""
    score = play(attack, "hardened", 5)
    assert score.guessed == score.deleted == 5 and not score.failures


@pytest.mark.parametrize(("attack", "rate"), [("history-blind", 0.5), ("additions-blind", 0.5), ("stitched", 0.1)])
def test_readers_without_the_feature_read_little_of_the_hardened_server(play, attack, rate):
    """Who is told every noisy total reads up to a half of so few rows (docs/defences/hardened.md); others guess."""
    score = play(attack, "hardened")
    assert score.guessed == score.deleted == SMALL.trials and not score.failures
    assert score.labels <= luck(SMALL.trials, rate) < SMALL.trials


@pytest.mark.parametrize(("trials", "attacks"), [(20, 26), (200, 9), (40, 1)])
def test_what_is_detectable_is_found_out_with_the_power_that_is_promised(trials, attacks):
    rate = detectable(trials, attacks, 0.15)
    draws = np.random.default_rng(0).binomial(trials, rate, 20_000)
    refuted = attacks * binom.sf(draws - 1, trials, 0.15) < LEVEL
    assert refuted.mean() == pytest.approx(POWER, abs=4 * np.sqrt(POWER * (1 - POWER) / 20_000))


@pytest.mark.parametrize("attacks", [1, 16, 40])
def test_by_default_chance_plus_ten_points_is_found_out_on_the_hardened_server(attacks):
    trials = deletions_for(attacks, 0.1)
    draws = np.random.default_rng(1).binomial(trials, 0.1 + ABOVE, 20_000)
    found = (attacks * binom.sf(draws - 1, trials, 0.1) < LEVEL).mean()
    assert found >= POWER - 4 * np.sqrt(POWER * (1 - POWER) / 20_000)


def test_the_hardened_server_is_tried_as_often_as_that_takes_unless_told_otherwise(dealt):
    asked = replace(dealt, request=replace(SMALL, trials=None, attacks=("passive", "informed"), busy=(False,)))
    assert asked.trials_of("hardened") == asked.trials_of("hardened+sums") == deletions_for(2, 0.1)
    assert asked.trials_of("none") == 20 and dealt.trials_of("hardened") == SMALL.trials
    assert replace(asked, request=replace(asked.request, quick=True)).trials_of("hardened") == 10


def test_at_twenty_deletions_and_26_attacks_half_of_all_labels_may_go_unnoticed():
    assert detectable(20, 26, 0.15) == pytest.approx(0.52, abs=0.01)
