"""A busy server: state and other people's changes read together."""

import numpy as np
import pytest

from exhume import Summary, Update
from exhume.attack.probes import designed
from exhume.attack.session import Attack
from exhume.attack.strategies.watch import listen, read, watch
from exhume.attack.watched import Watcher
from exhume.errors import AttackError, InputError, NotIdentifiedError
from exhume.protocol import Heads, ReleaseRule
from exhume.simulate.busy import BusyTarget, HonestPlan
from tests.attack.worlds import clustered, gap

EVENTS = 6


def play(world, probe, size=1, merged=False, seed=0, first=1):
    """Let honest clients delete and add in turn while a probe runs; returns heads, A, truth."""
    rng = np.random.default_rng(seed)
    A = world.A
    gone = rng.choice(world.others, (EVENTS, size), replace=False)
    when = np.sort(rng.choice(np.arange(first, probe.responses), EVENTS, replace=probe.responses - first < EVENTS))
    between, together, truth = {}, {}, []
    for i, at in enumerate(when):
        added = bool(i % 2)
        f = world.features[gone[i]] * (0.9 if added else 1.0)
        block = Summary.of(f, world.labels[gone[i]], world.c)
        update = Update.adding(block) if added else Update.deleting(block)
        truth.append((added, f, world.labels[gone[i]], block))
        if merged:
            together[int(at)] = update
        else:
            between.setdefault(int(at), []).append(update)
    target = BusyTarget(world.server, HonestPlan(between, together), "mallory")
    return listen(Attack(target), probe), A, truth


@pytest.mark.parametrize(("name", "precision", "state", "record"), [
    ("designed", "float64", 1e-12, 1e-10),
    ("random", "float64", 1e-10, 1e-8),
    ("label-swap", "float64", 1e-10, 1e-8),
    ("own-data", "float64", 1e-11, 1e-9),
    ("designed", "float32", 1e-4, 1e-3),
    ("own-data", "float32", 1e-4, 1e-3),
])  # fmt: skip
def test_state_and_every_change_are_read_without_a_quiet_interval(name, precision, state, record):
    world = clustered(precision=precision)
    watched, A, truth = play(world, world.probe(name))
    seen = read(watched, nonnegative=True)
    assert gap(seen.state.A, A) < state
    assert seen.fit.asymmetry > 1e3 * seen.fit.misfit  # a reader who assumes quiet has this to explain
    assert len(seen.events) == EVENTS
    for event, (added, f, label, block) in zip(seen.events, truth, strict=True):
        assert event.direction == ("added" if added else "deleted")
        assert event.found.label == label[0] and event.found.known
        assert gap(event.found.feature, f[0]) < record
        assert gap(event.found.block.gram, block.gram) < 3 * record
    assert gap(seen.now, world.A) < 10 * state


@pytest.mark.parametrize("name", ["designed", "own-data"])
@pytest.mark.parametrize("size", [2, 3])
def test_batches_up_to_the_number_of_classes_come_out_as_blocks(name, size):
    world = clustered()
    watched, A, truth = play(world, world.probe(name), size)
    seen = read(watched)
    assert gap(seen.state.A, A) < 1e-10
    for event, (added, _, _, block) in zip(seen.events, truth, strict=True):
        assert event.records == size and event.direction == ("added" if added else "deleted")
        assert gap(event.found.block.gram, block.gram) < 1e-7 and gap(event.found.block.moment, block.moment) < 1e-7
        assert event.found.known


def test_changes_in_one_broadcast_with_the_attackers_own_show_in_a_spare_class():
    world = clustered(d=24, c=4)
    probe = designed(24, 4, scale=100.0, spare=1)
    assert probe.responses == 8  # ceil(24 / 3)
    watched, A, truth = play(world, probe, merged=True)
    seen = read(watched, nonnegative=True)
    assert gap(seen.state.A, A) < 1e-9
    assert all(event.merged for event in seen.events)
    for event, (added, f, label, _) in zip(seen.events, truth, strict=True):
        assert event.direction == ("added" if added else "deleted") and event.found.label == label[0]
        assert gap(event.found.feature, f[0]) < 1e-6


def test_without_a_spare_class_merged_changes_are_not_seen_but_the_misfit_tells():
    world = clustered()
    watched, A, _ = play(world, designed(24, 4, scale=100.0), merged=True, first=0)
    seen = read(watched)
    assert seen.events == () and gap(seen.state.A, A) > 1e-4
    assert seen.fit.misfit > 1e6  # in units of the rounding: about 1 to 100 where the model holds


def test_more_records_than_classes_leave_the_state_off_and_the_misfit_tells():
    world = clustered()
    watched, A, _ = play(world, world.probe("designed"), size=6)
    seen = read(watched, guess=A)
    assert all(event.records == world.c for event in seen.events)
    assert gap(seen.state.A, A) > 1e-6 and seen.fit.misfit > 1e6


def test_a_change_of_several_directions_at_once_is_mixed():
    world = clustered()
    one, two = (world.block(k) for k in (200, 300))
    update = Update(Summary.of(world.features[[201]] * 0.8, world.labels[[201]], world.c), one + two)
    target = BusyTarget(world.server, HonestPlan({2: [update]}), "mallory")
    (event,) = watch(Attack(target), world.probe("designed")).events
    signed = update.net.gram
    assert event.direction == "mixed" and event.records == 3
    assert gap(event.found.block.gram, signed) < 1e-8


def test_a_change_after_the_last_answer_is_read_by_its_own_head_alone():
    world = clustered()
    probe = world.probe("designed")
    deletion = Update.deleting(world.block(222))
    target = BusyTarget(world.server, HonestPlan({probe.responses + 1: [deletion]}), "mallory")
    (event,) = watch(Attack(target), probe, nonnegative=True).events
    assert event.found.label == world.labels[222] and event.direction == "deleted" and event.found.known
    assert gap(event.found.feature, world.features[222]) < 1e-9
    assert event.found.diagnostics.lengths is None


@pytest.mark.parametrize("name", ["designed", "own-data"])
def test_changes_before_the_first_answer_are_read_backwards(name):
    world = clustered()
    one, two = Update.deleting(world.block(222)), Update.adding(world.block(333))
    before = world.A
    watcher = Watcher(world.server.head())
    world.server.submit(one, "alice")
    watcher.heard(world.server.head())
    world.server.submit(two, "alice")
    watcher.heard(world.server.head())
    after = world.A
    for step in world.probe(name).steps():
        head = world.target.submit(step.update)
        watcher.sent(step.update.net)
        watcher.heard(head)
    seen = read(watcher.watched(), nonnegative=True)
    assert gap(seen.state.A, after) < 1e-10 and gap(seen.now, after) < 1e-10
    assert [e.direction for e in seen.events] == ["deleted", "added"]
    assert [e.found.label for e in seen.events] == [world.labels[222], world.labels[333]]
    assert gap(seen.events[0].before, before) < 1e-9
    assert all(e.found.known for e in seen.events)


def test_a_quiet_server_gives_no_event_and_the_same_state_as_identify():
    world = clustered()
    seen = watch(world.attack, world.probe("designed"))
    assert seen.events == ()
    state = world.attack.identify(world.probe("designed"))
    assert gap(seen.state.A, state.A) < 1e-12


def test_too_few_answers_need_a_guess():
    world = clustered()
    probe = world.probe("random", responses=4)
    watched, A, truth = play(world, probe)
    with pytest.raises(NotIdentifiedError, match="rank deficient"):
        read(watched)
    seen = read(watched, guess=1.2 * A, nonnegative=True)
    assert gap(seen.state.A, A) < 0.2
    assert sum(e.found.label == label[0] for e, (_, _, label, _) in zip(seen.events, truth, strict=True)) >= 4


def test_nothing_sent_is_nothing_stitched():
    world = clustered()
    with pytest.raises(NotIdentifiedError, match="no answer"):
        read(Watcher(world.target.head()).watched())


class Mute(ReleaseRule):
    name = "mute"

    def __init__(self):
        self.heads = Heads("float64")
        self.open = True

    def release(self, head, occasion):
        return self.heads.release(head, occasion) if self.open else None


def test_a_withheld_head_is_not_taken_for_an_answer():
    world = clustered()
    world.server.head()
    world.server._release = rule = Mute()
    rule.open = False
    before = world.A
    with pytest.raises(AttackError, match="withheld"):
        listen(world.attack, world.probe("designed"))
    assert gap(world.A, before) < 1e-12  # what was sent was taken back all the same


def test_a_spare_number_of_classes_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="spare must be from 0 to 3"):
        designed(8, 4, spare=4)
