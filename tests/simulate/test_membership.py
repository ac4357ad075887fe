"""Who was in a deletion, as a trial scores it."""

import numpy as np

from exhume.attack.probes import designed
from exhume.simulate.federation import Federation
from exhume.simulate.scenario import Scenario
from exhume.simulate.trial import Campaign
from tests.attack.worlds import clusters


def campaign(d=24, c=4, n=300):
    features, labels = clusters(0, n, d, c)
    parts = (np.arange(100), np.arange(100, 110), np.arange(110, n))
    case = Scenario(features, labels, c, parts, 0, gamma=1e-2)
    return case, Campaign(Federation.bare(case), designed(d, c, scale=100.0))


def test_a_client_of_fewer_records_than_features_is_known_by_its_members():
    case, under = campaign()
    scored = under.trial(case.parts[1], ("difference",), "client").recovery("difference")
    assert scored.membership == 1.0


def test_one_record_and_a_large_client_have_no_members_to_tell():
    case, under = campaign()
    assert under.trial(case.parts[1][:1]).recovery("difference").membership is None
    assert under.trial(case.parts[2], ("difference",), "client").recovery("difference").membership is None
