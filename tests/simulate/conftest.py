import pytest

from exhume.data import dirichlet, load_features, usable_clients
from exhume.simulate.scenario import Scenario


@pytest.fixture(scope="session")
def scenario():
    """Digits under 16 random features and three clients, of which the attacker has full feature rank."""
    found = load_features("digits", "random-relu", dim=16)
    parts = dirichlet(found.train_labels, 3, 1.0, 0)
    attacker = usable_clients(found.train_features, parts)[0]
    return Scenario(found.train_features, found.train_labels, found.classes, parts, attacker)
