"""One deletion under attack."""

import numpy as np
import pytest

from exhume.attack import probes
from exhume.attack.session import Attack
from exhume.defence.config import Config, Entry
from exhume.errors import InputError
from exhume.simulate.federation import Federation
from exhume.simulate.listening import listen
from exhume.simulate.trial import Campaign


def own_data(scenario):
    return probes.own_data(*scenario.own, scenario.classes, responses=8, rng=np.random.default_rng(0))


def test_noisy_heads_are_read_by_the_estimator_that_knows_of_noise(scenario):
    noisy = Config(release=(Entry.of("posterior-noise", sigma=1e-6),))
    campaign = Campaign(Federation.behind(scenario, noisy), own_data(scenario))
    assert campaign.sharper is not None
    assert campaign.sharper is not campaign.before
    exact = Campaign(Federation.behind(scenario, Config()), own_data(scenario))
    assert exact.sharper is exact.before


def test_probes_that_cannot_be_taken_back_are_part_of_what_the_attacker_knows(scenario):
    rules = Config(admission=(Entry.of("minimum-rows", rows=8),))
    federation = Federation.behind(scenario, rules)
    heard = listen(Attack(federation.fork().target()), probes.designed(scenario.d, scenario.classes))
    assert heard.standing is not None
    assert "could not be taken back" in heard.why()
    campaign = Campaign(federation, probes.designed(scenario.d, scenario.classes))
    (found,) = campaign.trial(scenario.parts[1], ("difference",), "client").recoveries
    assert found.relerr_gram < 1e-6
    assert found.relerr_moment < 1e-6


def test_the_estimator_is_chosen_by_name(scenario):
    # On heads of eight bits the paper's estimate and the one that knows of rounding differ.
    made = {
        name: Campaign(Federation.bare(scenario, "bfloat16"), own_data(scenario), estimator=name)
        for name in ("direct", "symmetric")
    }
    assert made["symmetric"].state_error == made["symmetric"].state_error_sharper == made["direct"].state_error_sharper
    assert made["direct"].state_error != made["direct"].state_error_sharper
    with pytest.raises(InputError, match="did you mean 'symmetric'"):
        Campaign(Federation.bare(scenario), own_data(scenario), estimator="symetric")
