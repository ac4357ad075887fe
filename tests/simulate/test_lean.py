"""A lean campaign finds what a full one finds, on one server that is as it was afterwards."""

import numpy as np
import pytest

from exhume.attack import probes
from exhume.defence import Config
from exhume.simulate.federation import Federation
from exhume.simulate.lean import LeanCampaign
from exhume.simulate.scenario import Scenario
from exhume.simulate.trial import Campaign


def scenario(d=24, c=4, n=160):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, c, n)
    features = np.maximum(rng.normal(size=(n, d)) + rng.normal(size=(c, d))[labels], 0.0)
    return Scenario(features, labels, c, (np.arange(60), np.arange(60, n)), attacker=0)


@pytest.mark.parametrize("probe", [probes.designed(24, 4), probes.ballast(24, 4, weight=50.0)], ids=lambda p: p.name)
@pytest.mark.parametrize("solver", ["direct", "low-rank"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_it_agrees_with_the_full_campaign(precision, solver, probe):
    case = scenario()
    full = Campaign(Federation.bare(case, precision), probe)
    lean = LeanCampaign(Federation.bare(case, precision, solver=solver), probe)
    assert lean.diagnostics.sigma_min_X == pytest.approx(full.diagnostics.sigma_min_X, rel=1e-6)
    # A head that follows has a backward error of up to 2**-52, which the condition number makes one of A.
    assert lean.state_error <= 2 * full.state_error + 24 * 2.0**-52 * full.diagnostics.kappa_X
    before = lean.federation.server.ledger.summary
    for row in (70, 80, 90):
        one, other = (kind.trial(np.array([row]), ("rank-one",), "record") for kind in (full, lean))
        a, b = one.recovery("rank-one"), other.recovery("rank-one")
        assert (a.label, a.label_correct, a.known) == (b.label, b.label_correct, b.known)
        close = 1e-2 if precision == "float64" else 0.5  # the full one reads the symmetric estimate of rounded heads
        assert b.relerr_feature <= a.relerr_feature * (1 + close) + 1e-12
        assert other.replay("rank-one").head_error <= 10 * one.replay("rank-one").head_error + 1e-11
        assert one.replay("rank-one").cost == other.replay("rank-one").cost
        assert other.asked.released and other.label == case.labels[row]
    after = lean.federation.server.ledger.summary
    assert np.abs(after.gram - before.gram).max() <= 1e-12 * np.abs(before.gram).max()
    assert np.abs(after.moment - before.moment).max() <= 1e-12 * np.abs(before.moment).max()


def test_a_ballast_that_is_refused_is_told_and_the_attack_goes_on_without():
    case = scenario()
    federation = Federation.behind(case, Config(admission=[{"rule": "norm-limit", "thresholds": {"0": 100.0}}]))
    campaign = Campaign(federation, probes.ballast(24, 4, weight=1e4, scale=1.0))
    assert "no ballast, refused by norm-limit" in campaign.reason
    assert np.allclose(federation.server.ledger.summary.gram, case.total.gram)


def test_what_needs_a_second_identification_is_said_to_be_left_out():
    lean = LeanCampaign(Federation.bare(scenario()), probes.designed(24, 4))
    trial = lean.trial(np.array([70]), ("difference",), "record")
    assert trial.recoveries == [] and "left out" in trial.reason


def test_a_state_that_is_not_identified_is_told_with_its_reason():
    lean = LeanCampaign(Federation.bare(scenario()), probes.designed(24, 4), tolerance=0.9)
    assert lean.before is None and "rank deficient" in lean.reason and lean.diagnostics.d == 24
    trial = lean.trial(np.array([70]), ("rank-one",), "record")
    assert not trial.identified and trial.recoveries == []
