import ast
from pathlib import Path

import numpy as np
import pytest

import exhume.attack
from exhume import Head, ReleaseRule
from exhume.attack.block import Block
from exhume.attack.session import Attack, Cost
from exhume.errors import AttackError, RefusedError
from tests.attack.worlds import EPS, PROBES, Tap, World, norm

VARIANTS = [(name, "cumulative") for name in PROBES] + [("designed", "restored"), ("random", "restored")]


class Flaky(Tap):
    """A target that fails once, before it takes the update with the given number."""

    def __init__(self, world, fails_at, error):
        super().__init__(world)
        self.fails_at, self.error = fails_at, error

    def submit(self, update):
        if len(self.updates) == self.fails_at:
            self.fails_at = -1
            raise self.error
        return super().submit(update)


def close(ledger, before, passed):
    for a, b in ((ledger.gram, before.gram), (ledger.moment, before.moment)):
        assert norm(a - b) <= 100 * EPS * passed


@pytest.mark.parametrize("error", [ConnectionError("lost"), KeyboardInterrupt(), RefusedError("enough")], ids=type)
@pytest.mark.parametrize("fails_at", [1, 3])
@pytest.mark.parametrize(("name", "mode"), VARIANTS)
def test_a_probe_is_taken_back_when_the_target_fails_in_the_middle(name, mode, fails_at, error):
    world = World()
    before = world.server.ledger.summary
    tap = Flaky(world, fails_at, error)
    with pytest.raises(type(error)):
        Attack(tap).run(world.probe(name, mode))
    passed = max(norm(s.gram) + norm(s.moment) for s in tap.ledgers)
    assert passed > norm(before.gram) + norm(before.moment)
    close(world.server.ledger.summary, before, passed)


class Deaf(Flaky):
    """A target whose answer is lost once, after it took the update."""

    def submit(self, update):
        head = Tap.submit(self, update)
        if len(self.updates) == self.fails_at:
            raise self.error
        return head


@pytest.mark.parametrize("error", [ConnectionError("lost"), KeyboardInterrupt()], ids=type)
def test_a_probe_is_taken_back_when_an_answer_is_lost(error):
    world = World()
    before = world.server.ledger.summary
    tap = Deaf(world, 3, error)
    with pytest.raises(type(error)):
        Attack(tap).run(world.probe("designed"))
    close(world.server.ledger.summary, before, max(norm(s.gram) + norm(s.moment) for s in tap.ledgers))


def test_nothing_is_cancelled_where_nothing_was_accepted():
    world = World()
    tap = Flaky(world, 0, RefusedError("no"))
    attack = Attack(tap)
    with pytest.raises(RefusedError):
        attack.run(world.probe("designed"))
    assert tap.updates == []
    assert attack.cost == Cost(responses=1)


def test_a_failure_of_the_plan_itself_is_taken_back():
    world = World()
    before = world.server.ledger.summary

    class Broken:
        name = "broken"
        cancel = world.probe("own-data").cancel

        def steps(self):
            yield from list(world.probe("own-data").steps())[:2]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Attack(world.target).run(Broken())
    close(world.server.ledger.summary, before, 10 * norm(before.gram))


def test_a_run_sends_the_plan_and_one_cancellation():
    world = World()
    tap = Tap(world)
    probe = world.probe("own-data")
    transcript = Attack(tap).run(probe)
    assert tap.updates[:-1] == [step.update for step in probe.steps()]
    assert len(tap.updates) == probe.responses + 1
    assert tap.updates[-1].add.is_zero
    assert np.array_equal(transcript.final.weights, tap.heads[-1])
    assert np.array_equal(transcript.X[:, :4], tap.heads[0] - transcript.baseline.weights)
    assert (transcript.probe, transcript.responses) == ("own-data", probe.responses)


def test_observing_counts_only_what_is_new():
    world = World()
    attack = Attack(world.target)
    attack.observe()
    attack.observe()
    assert attack.cost.responses == 1
    world.delete(3)
    attack.observe()
    attack.observe()
    assert attack.cost.responses == 2
    assert attack.cost == Cost(0, 0, 0, 2)


def test_a_broadcast_whose_weights_round_to_the_old_ones_is_still_a_response():
    world = World(precision="bfloat16")
    attack = Attack(world.target)
    first = attack.observe()
    world.honest.add(world.features[:1] * 1e-6, world.labels[:1])
    second = attack.observe()
    assert np.array_equal(first.weights, second.weights) and second.serial == first.serial + 1
    assert attack.cost.responses == 2


def test_own_submissions_are_not_counted_again_when_observed():
    world = World()
    attack = Attack(world.target)
    attack.run(world.probe("designed"))
    cost = attack.cost
    attack.observe()
    assert attack.cost == cost == Cost(probes=6, messages=7, pairs=28, responses=8)
    attack.submit(next(world.probe("designed").steps()).update)
    assert attack.cost == Cost(6, 8, 32, 9)


def test_a_second_run_starts_from_the_present_head():
    world = World()
    attack = Attack(world.target)
    first = attack.run(world.probe("designed"))
    world.delete(0, 1)
    second = attack.run(world.probe("designed"))
    assert norm(second.baseline.weights - first.baseline.weights) > 1e-6
    want = np.linalg.solve(world.A, world.server.ledger.summary.moment)
    np.testing.assert_allclose(second.baseline.weights, want, rtol=1e-9)


class Every(ReleaseRule):
    def __init__(self, n):
        self.n = n

    def release(self, head, occasion):
        return head if occasion.counts.submissions % self.n == 0 else None


def withholding(n):
    world = World()
    world.server._release = Every(n)
    return world


def test_a_withheld_head_is_not_taken_for_a_response_and_the_probe_is_taken_back():
    world = withholding(3)
    before = world.server.ledger.summary
    attack = Attack(world.target)
    with pytest.raises(AttackError, match="withheld"):
        attack.run(world.probe("designed"))
    assert world.server.counts.messages == 1 + attack.cost.messages
    close(world.server.ledger.summary, before, 1e4 + norm(before.gram))


class AllBut(ReleaseRule):
    def __init__(self, submission):
        self.submission = submission

    def release(self, head, occasion):
        return None if occasion.counts.submissions == self.submission else head


def test_a_withheld_answer_to_the_cancellation_is_no_final_head():
    world = World()
    world.server._release = AllBut(1 + 6 + 1)
    assert Attack(world.target).run(world.probe("designed")).final is None


class Fixed:
    """A target whose heads tell no serial."""

    def __init__(self, weights):
        self.weights = weights

    def head(self):
        return Head(self.weights)

    def submit(self, update):
        self.weights = self.weights + 1.0
        return Head(self.weights)


def test_heads_without_a_serial_are_taken_as_they_come():
    transcript = Attack(Fixed(np.zeros((24, 4)))).run(World().probe("designed"))
    assert transcript.responses == 6
    np.testing.assert_array_equal(transcript.X[0], np.repeat(np.arange(1.0, 7.0), 4))


def test_replay_adds_the_block_as_it_is():
    world = World()
    tap = Tap(world)
    f = world.features[0]
    rough = np.outer(f, f)
    rough[0, 1] += 1e-9
    attack = Attack(tap)
    attack.replay(Block(rough, Block.of_sample(2, f, 4).moment))
    (update,) = tap.updates
    assert update.delete.is_zero
    np.testing.assert_array_equal(update.add.gram, 0.5 * (rough + rough.T))
    assert update.add.moment[:, 2].tolist() == f.tolist()
    assert attack.cost.messages == 1


def test_no_module_of_the_attack_imports_hidden_state():
    hidden = {"ledger", "server", "client", "rules"}
    for path in Path(exhume.attack.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
            elif isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            else:
                continue
            for name in names:
                assert name.lower() not in {"exhume.server", "exhume.ledger", "exhume.client"}, path
                assert not (name.startswith("exhume.protocol.") and name.split(".")[2].lower() in hidden), path
