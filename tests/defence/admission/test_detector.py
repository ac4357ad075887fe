"""The sequence detector: its promise on honest traffic, and its power on whole attacks."""

import numpy as np
import pytest

from exhume import Ledger, Server, Summary, Update
from exhume.attack.probes import designed, label_swap, own_data, random
from exhume.attack.session import Attack
from exhume.defence.admission import FEATURES, Detector
from exhume.errors import InputError, RefusedError

D, C = 12, 3


def rows(rng, n):
    labels = rng.integers(0, C, n)
    return np.maximum(rng.normal(size=(n, D)) + 0.5 + labels[:, None] * 0.2, 0.0), labels


def honest_log(seed, clients=6):
    """A server's honest traffic: uploads, later additions, deletions of some of one's own rows."""
    rng = np.random.default_rng(seed)
    plans = []
    for _ in range(clients):
        features, labels = rows(rng, int(rng.integers(20, 60)))
        parts = zip(np.array_split(features, 3), np.array_split(labels, 3), strict=True)
        plan = [Update.adding(Summary.of(f, y, C)) for f, y in parts]
        for _ in range(int(rng.integers(0, 9))):
            if rng.random() < 0.6:
                f, y = rows(rng, int(rng.integers(1, 4)))
                plan.append(Update.adding(Summary.of(f, y, C)))
            else:
                pick = rng.choice(len(features), int(rng.integers(1, 4)), replace=False)
                plan.append(Update.deleting(Summary.of(features[pick], labels[pick], C)))
                features, labels = np.delete(features, pick, axis=0), np.delete(labels, pick)
        plans.append(plan)
    log = []
    while any(plans):
        k = int(rng.choice([i for i, plan in enumerate(plans) if plan]))
        log.append((f"client {k}", plans[k].pop(0)))
    return log


@pytest.fixture(scope="module")
def detector():
    return Detector.calibrated([honest_log(seed) for seed in range(60)], rate=0.05, seed=1)


def fresh(detector, **changes):
    return Detector(D, C, **(detector.options() | {"seed": 1} | changes))


def attack_log(kind, seed=0):
    """Honest traffic with one complete attack in it: probes and cancellations on both sides of a deletion, a replay."""
    rng = np.random.default_rng([seed, 99])
    log = honest_log(1000 + seed)
    own, labels = rows(rng, 40)
    sent = []

    class Tap:
        def __init__(self):
            self.server = Server(Ledger(Summary.of(*rows(rng, 200), C), 0.1))

        def head(self):
            return self.server.head()

        def submit(self, update):
            sent.append(("mallory", update))
            return self.server.as_target("mallory").submit(update)

    probe = {
        "designed": lambda: designed(D, C, scale=1e4),
        "quiet designed": lambda: designed(D, C, scale=1.0),
        "random": lambda: random(D, C, rng=rng, scale=1.0),
        "label swap": lambda: label_swap(own, C),
        "own data": lambda: own_data(own, labels, C, responses=8, rng=rng),
    }[kind]()
    attack = Attack(Tap())
    sent.append(("mallory", Update.adding(Summary.of(own, labels, C))))
    attack.run(probe)
    victim = Summary.of(*rows(rng, 1), C)
    sent.append(("client 0", Update.deleting(victim)))
    attack.run(probe)
    attack.submit(Update.adding(victim))
    return log + sent


def test_honest_clients_exceed_the_threshold_no_more_often_than_promised(detector):
    scores = [s for seed in range(500, 560) for s in detector.judge(honest_log(seed)).values()]
    flagged = np.mean(np.array(scores) > detector.threshold)
    # 5% promised; 360 clients: three standard deviations of the test and of the calibration
    assert flagged <= 0.05 + 3 * np.sqrt(0.05 * 0.95 * (1 / 360 + 1 / 180))


@pytest.mark.parametrize("kind", ["designed", "quiet designed", "random", "label swap", "own data"])
def test_complete_attacks_are_seen(detector, kind):
    seen = [detector.judge(attack_log(kind, seed))["mallory"] > detector.threshold for seed in range(5)]
    assert all(seen)


def test_a_refusing_detector_ends_an_attack_and_a_flagging_one_lets_it_run(detector):
    for refuse in (True, False):
        rule = fresh(detector, refuse_flagged=refuse)
        server = Server(Ledger(Summary.of(*rows(np.random.default_rng(0), 200), C), 0.1), admission=[rule])
        attack = Attack(server.as_target("mallory"))
        if refuse:
            with pytest.raises(RefusedError, match="detector: the sequence of 'mallory' scores"):
                attack.run(designed(D, C, scale=1.0))
        else:
            attack.run(designed(D, C, scale=1.0))
            assert rule.flagged == {"mallory"}


def test_online_and_offline_agree(detector):
    log = attack_log("own data")
    rule = fresh(detector, refuse_flagged=False)
    for client, update in log:
        assert rule.refuse(update, client) is None
        rule.record(update, client)
    expected = {client for client, score in rule.judge(log).items() if score > rule.threshold}
    assert rule.flagged == expected


def test_features_are_named_and_say_why(detector):
    assert len(FEATURES) == len(detector.centre)
    rule = fresh(detector)
    block = Update.adding(Summary.of(*rows(np.random.default_rng(3), 2), C))
    reasons = []
    for _ in range(6):
        reasons.append(rule.refuse(block, "mallory"))
        rule.record(block, "mallory")
    assert any(r and "repetition" in r for r in reasons)


def test_an_attacker_as_slow_as_honest_clients_is_not_seen(detector):
    """What the detector does not stop: a few additions of one's own, mixed into the traffic, never taken back."""
    rng = np.random.default_rng(5)
    log = honest_log(77)
    for at in (4, 11, 18):
        log.insert(at, ("mallory", Update.adding(Summary.of(*rows(rng, 3), C))))
    assert detector.judge(log)["mallory"] <= detector.threshold


def test_bad_calibrations_are_refused():
    with pytest.raises(InputError, match="rate"):
        Detector.calibrated([honest_log(0)], rate=0.0)
    with pytest.raises(InputError, match="at least one log"):
        Detector.calibrated([])
    with pytest.raises(InputError, match="numbers each"):
        Detector(D, C, [0.0], [1.0], 1.0, 0.1)
    small = Detector.calibrated([honest_log(0)], rate=0.01)
    assert small.rate > 0.01  # three clients cannot promise one in a hundred
