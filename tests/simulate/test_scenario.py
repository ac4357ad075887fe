"""Who holds which rows."""

import numpy as np
import pytest

from exhume.data import load_features
from exhume.errors import DataError
from exhume.simulate.scenario import deal, spread_records


@pytest.fixture(scope="module")
def dealt():
    found = load_features("digits", "random-relu", dim=24)
    train, test = (found.train_features, found.train_labels), (found.test_features, found.test_labels)
    return deal(train, test, found.classes)


def test_the_attacker_has_full_feature_rank_where_the_data_have_it(dealt):
    s = dealt
    for rows in (s.parts[s.attacker], s.held_out):
        assert np.linalg.matrix_rank(s.features[rows]) == s.d


def test_the_records_to_delete_are_spread_over_the_classes(dealt):
    records = spread_records(dealt, 20)
    assert np.bincount(dealt.labels[records]).tolist() == [2] * 10
    assert set(records) <= set(dealt.others)


def test_too_few_rows_are_refused():
    with pytest.raises(DataError, match="too few"):
        deal((np.ones((50, 20)), np.zeros(50, int)), (np.ones((5, 20)), np.zeros(5, int)), 2)
