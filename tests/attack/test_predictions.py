"""Less than a head: scores, the best of them, labels."""

import numpy as np
import pytest

from exhume.attack import recover
from exhume.attack.estimate.scaled import scaled
from exhume.attack.predictions import PredictionService, PredictionTarget, read_head
from exhume.attack.probes.base import moment_update
from exhume.attack.recover.scaled import up_to_scale
from exhume.attack.session import Attack
from exhume.errors import AttackError, InputError, NotIdentifiedError
from exhume.protocol.head import Head
from tests.attack.worlds import clustered, gap


def spread_totals(d, c, scale=100.0):
    """Moments of full rank in the contrasts, one class left alone."""
    m = -(-d // (c - 1))
    stack = np.zeros((d, m * (c - 1)))
    stack[:, :d] = scale * np.eye(d)
    return [np.pad(stack[:, j * (c - 1) : (j + 1) * (c - 1)], ((0, 0), (0, 1))) for j in range(m)]


class Fixed:
    """A target whose head stays."""

    def __init__(self, W):
        self._head = Head(W)

    def head(self):
        return self._head

    def submit(self, update):
        raise AssertionError


def centred(W):
    W = W - W.mean(axis=1, keepdims=True)
    return W / np.linalg.norm(W)


@pytest.mark.parametrize(("answers", "most"), [("scores", 1e-14), ("top-k", 1e-10), ("labels", 1e-9)])
def test_the_head_comes_out_of_answers(answers, most):
    world = clustered(d=10, c=4)
    service = PredictionService(world.target, answers, k=2)
    W, truth = read_head(service, 10, 4, rng=np.random.default_rng(0)), world.target.head().weights
    assert gap(centred(W), centred(truth)) < most
    if answers != "labels":
        assert gap(W, truth) < most
    assert service.asked == {"scores": 10, "top-k": service.asked, "labels": service.asked}[answers]


@pytest.mark.parametrize("seed", range(4))
def test_a_class_that_seldom_comes_out_takes_more_questions(seed):
    d, c, rng = 8, 4, np.random.default_rng(seed)
    W = rng.standard_normal((d, c))
    W[:, 3] = W[:, :3].mean(axis=1) + 0.05 * rng.standard_normal(d)  # among the others, hardly ever the best
    service = PredictionService(Fixed(W), "labels")
    found = read_head(service, d, c, rng=np.random.default_rng(0))
    assert gap(centred(found), centred(W)) < 1e-9
    even = PredictionService(Fixed(np.random.default_rng(seed).standard_normal((d, c))), "labels")
    read_head(even, d, c, rng=np.random.default_rng(0))
    assert service.asked > even.asked


def test_a_class_that_never_comes_out_is_said_to():
    W = np.random.default_rng(0).standard_normal((6, 3))
    W[:, 2] = W[:, :2].mean(axis=1)
    with pytest.raises(AttackError, match="hardly ever comes out"):
        read_head(PredictionService(Fixed(W), "labels"), 6, 3, rng=np.random.default_rng(0))


def test_questions_grow_with_what_an_answer_hides():
    world, asked = clustered(d=10, c=4), []
    for answers in ("scores", "top-k", "labels"):
        service = PredictionService(world.target, answers, k=2)
        read_head(service, 10, 4, rng=np.random.default_rng(0))
        asked.append(service.asked)
    assert asked[0] == 10 < asked[1] < asked[2]


def test_an_attack_runs_on_a_service_of_scores_as_on_heads():
    world = clustered(d=12, c=4)
    target = PredictionTarget(PredictionService(world.target), world.target, 12, 4, rng=np.random.default_rng(0))
    attack = Attack(target)
    before = attack.identify(world.probe("designed"))
    assert gap(before.A, world.A) < 1e-10
    world.delete(200)
    found = recover.rank_one(before, attack.observe(), nonnegative=True)
    assert found.label == world.labels[200] and gap(found.feature, world.features[200]) < 1e-8


@pytest.mark.parametrize("seed", range(4))
def test_heads_up_to_shift_and_scale_give_the_state_up_to_one_number(seed):
    d, c = 12, 4
    world, rng = clustered(d=d, c=c, seed=seed), np.random.default_rng(seed)

    def hidden(W):
        return rng.uniform(0.5, 2.0) * (W + rng.standard_normal((d, 1)))

    baseline, heads, totals = hidden(world.target.head().weights), [], spread_totals(d, c)
    standing = np.zeros((d, c))
    for total in totals:
        heads.append(hidden(world.target.submit(moment_update(total - standing)).weights))
        standing = total
    world.target.submit(moment_update(-standing))
    state = scaled(baseline, heads, totals)
    H = np.linalg.inv(world.A)
    assert gap(state.H / np.linalg.norm(state.H), H / np.linalg.norm(H)) < 1e-9
    assert state.gap < 1e-6
    right = 0
    for row in world.others[:20]:
        found = up_to_scale(state, hidden(world.head_after(row).weights))
        right += found.label == world.labels[row]
        u, f = found.feature / np.linalg.norm(found.feature), world.features[row] / np.linalg.norm(world.features[row])
        assert gap(u, f) < 1e-5
    assert right == 20


def test_labels_alone_lead_to_the_label_of_a_deleted_record():
    d, c = 8, 4
    world = clustered(d=d, c=c)
    target = PredictionTarget(
        PredictionService(world.target, "labels"), world.target, d, c, rng=np.random.default_rng(1)
    )
    baseline, heads, totals, standing = target.head().weights, [], spread_totals(d, c, 10.0), np.zeros((d, c))
    for total in totals:
        heads.append(target.submit(moment_update(total - standing)).weights)
        standing = total
    world.target.submit(moment_update(-standing))
    state = scaled(baseline, heads, totals)
    H = np.linalg.inv(world.A)
    assert gap(state.H / np.linalg.norm(state.H), H / np.linalg.norm(H)) < 1e-4
    right = 0
    for row in world.others[:5]:
        server, _ = world.after(row)
        service = PredictionService(server.as_target("mallory"), "labels")
        right += up_to_scale(state, read_head(service, d, c, rng=np.random.default_rng(2))).label == world.labels[row]
    assert right >= 4


def test_bad_input_is_refused():
    world = clustered(d=10, c=4)
    with pytest.raises(InputError, match="answers must be scores, top-k, labels"):
        PredictionService(world.target, "none")
    with pytest.raises(InputError, match="as many heads as totals"):
        scaled(np.ones((4, 3)), [], [])
    with pytest.raises(NotIdentifiedError, match="rank below 4"):
        scaled(np.ones((4, 3)), [np.ones((4, 3))], [np.eye(4, 3)])

    class Dull:
        def head(self):
            from exhume import Head

            W = world.target.head().weights.copy()
            W[:, 3] = 0.0
            W[:, :3] *= 1e-9
            return Head(W * 0)

    with pytest.raises(AttackError, match="never among the best"):
        read_head(PredictionService(Dull(), "top-k", k=1), 10, 4, rng=np.random.default_rng(0))
