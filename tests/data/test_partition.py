import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from exhume.data import dirichlet, iid, is_full_rank, load_features, select_attacker, usable_clients
from exhume.errors import DataError, InputError

LABELS = np.arange(120) % 3


def written_out(labels, clients, alpha, seed, minimum):
    """The procedure of the paper, spelt out a second time."""
    rng = np.random.default_rng(seed)
    while True:
        hands = [[] for _ in range(clients)]
        for label in range(labels.max() + 1):
            rows = rng.permutation(np.where(labels == label)[0])
            p = rng.dirichlet([alpha] * clients)
            for k, piece in enumerate(np.split(rows, (np.cumsum(p) * len(rows)).astype(int)[:-1])):
                hands[k].extend(piece.tolist())
        if min(map(len, hands)) >= minimum:
            return hands


def test_golden_split():
    parts = dirichlet(LABELS, clients=4, alpha=0.5, seed=0)
    assert [len(part) for part in parts] == [33, 30, 34, 23]
    assert [part[:6].tolist() for part in parts] == [
        [27, 21, 36, 66, 48, 75],
        [60, 84, 63, 78, 12, 57],
        [90, 99, 112, 61, 115, 58],
        [45, 39, 102, 81, 72, 108],
    ]
    assert [int(part.sum()) for part in parts] == [1818, 1548, 2184, 1590]


@pytest.mark.parametrize("seed", range(5))
def test_dirichlet_is_the_papers_procedure(seed):
    labels = np.random.default_rng(99).integers(0, 10, 3000)
    parts = dirichlet(labels, clients=8, alpha=0.1, seed=seed)
    assert [part.tolist() for part in parts] == written_out(labels, 8, 0.1, seed, 10)


@forall(st.integers(1, 6), st.floats(0.3, 10), st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_every_row_goes_to_one_client(clients, alpha, seed, classes):
    labels = np.arange(300) % classes
    for parts in (dirichlet(labels, clients, alpha, seed, minimum=1), iid(labels, clients, seed, minimum=1)):
        assert len(parts) == clients
        assert all(part.dtype == np.intp for part in parts)
        assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(300))


def test_iid_is_even_and_seeded():
    parts = iid(LABELS, 7, seed=3)
    assert {len(part) for part in parts} == {17, 18}
    assert all(np.array_equal(a, b) for a, b in zip(parts, iid(LABELS, 7, seed=3), strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(parts, iid(LABELS, 7, seed=4), strict=True))


def test_failing_split_says_its_numbers():
    with pytest.raises(DataError, match=r"120 rows among 12 clients at alpha 0\.01, seed 5 .* 10 rows in 20 attempts"):
        dirichlet(LABELS, clients=12, alpha=0.01, seed=5, attempts=20)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"clients": 0}, "clients"),
        ({"clients": 13}, "clients"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"minimum": -1}, "minimum"),
        ({"attempts": 0}, "attempts"),
        ({"labels": LABELS.astype(float)}, "labels"),
        ({"labels": LABELS.reshape(2, -1)}, "labels"),
    ],
)
def test_bad_input_names_its_field(change, field):
    with pytest.raises(InputError) as caught:
        dirichlet(**{"labels": LABELS, "clients": 4, "alpha": 0.5, "seed": 0, **change})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("rows", "words"), [(1, "rows must be at least 10 for each of 5 clients; got 1"), (19, "rows must")]
)
def test_too_few_rows_for_two_clients_are_said_to_be_so(rows, words):
    with pytest.raises(InputError, match=words):
        iid(np.zeros(rows, int), 5, 0)
    with pytest.raises(InputError, match="clients must be at most 2 for 20 rows"):
        iid(np.zeros(20, int), 5, 0)


def test_rank_gate():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((40, 5))
    features[:10, 4] = features[:10, 3]
    parts = (np.arange(10), np.arange(10, 14), np.arange(14, 30), np.arange(30, 40))
    assert not is_full_rank(features[parts[0]])
    assert not is_full_rank(features[parts[1]])
    assert usable_clients(features, parts) == (2, 3)
    assert select_attacker(features, parts) == 2
    assert select_attacker(features, parts[2:]) == 0
    with pytest.raises(DataError, match="none of the 2 clients has feature rank 5; the largest holds 10 rows"):
        select_attacker(features, parts[:2])


@pytest.mark.parametrize(
    ("data", "rows", "usable"),
    [
        ("mnist", [867, 1005, 4309, 1614, 993], 25),
        ("cifar10", [5342, 2988, 784, 962, 779], 27),
    ],
)
def test_published_attackers(given, data, rows, usable):
    """The paper: attackers of 867 to 4,309 and 779 to 5,342 rows; 25 to 33 and 25 to 28 usable clients."""
    given(f"features/{data}_resnet18_train.npz")
    found = load_features(data, "resnet18", download=False)
    splits = [dirichlet(found.train_labels, clients=50, alpha=0.05, seed=seed) for seed in range(5)]
    attackers = [select_attacker(found.train_features, parts) for parts in splits]
    assert [len(parts[who]) for parts, who in zip(splits, attackers, strict=True)] == rows
    # One split of each is enough to hold the gate: all ten take half a minute.
    assert len(usable_clients(found.train_features, splits[4])) == usable
