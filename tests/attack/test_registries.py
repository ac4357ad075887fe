"""Every registered probe, estimator and recovery: one call shape, one line to print, typed errors for bad input.

The recipes of CONTRIBUTING.md are followed in a package of their own, which must pass the same checks.
"""

import importlib
import pkgutil
import re
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

import exhume.attack
from exhume.attack import estimate, probes, recover
from exhume.attack.recover import KINDS, Recovered
from exhume.attack.state import State
from exhume.attack.strategies import zoom
from exhume.attack.theory.bounds import DeletionRun
from exhume.attack.transcript import Transcript
from exhume.errors import InputError, NotIdentifiedError
from exhume.registry import spelt
from tests.attack.worlds import EPS, clustered, gap, norm
from tests.toys import BROUGHT

REGISTRIES = {"exhume.probes": probes, "exhume.estimators": estimate, "exhume.recoveries": recover}
OWN = [(group, name) for group, room in REGISTRIES.items() for name in room.REGISTRY]


def is_a_line(text):
    assert 0 < len(text) <= 120 and "\n" not in text and "array" not in text, text


def check_probe(entry):
    world = clustered(d=12, c=3)
    before = world.server.ledger.summary
    probe = entry.build(world.resources(scale=100.0))
    transcript = world.attack.run(probe)
    assert probe.name == transcript.probe == entry.name
    assert transcript.responses == probe.responses == world.attack.cost.probes >= 1
    after = world.server.ledger.summary
    assert norm(after.gram - before.gram) <= 100 * EPS * world.attack.cost.messages * norm(before.gram)
    assert norm(after.moment - before.moment) <= 100 * EPS * world.attack.cost.messages * norm(before.moment)
    is_a_line(repr(probe))
    is_a_line(entry.about.format(scale=1e4))
    if entry.live:
        nothing = replace(world.resources(), features=np.empty((0, 12)), labels=np.empty(0, np.intp))
        assert entry.build(nothing).responses >= 1


def check_estimator(entry):
    world = clustered(d=12, c=3)
    transcript = world.attack.run(world.probe("random"))
    state = entry(transcript, tolerance=1e-10, guess=world.A, nonnegative=True)
    assert isinstance(state, State)
    assert gap(state.A, world.A) < 1e-6 and gap(state.H, np.linalg.inv(world.A)) < 1e-6
    assert gap(state.G, world.server.ledger.summary.moment) < 1e-6
    assert np.array_equal(state.A, state.A.T)
    assert state.diagnostics.rank_X == 12
    for text in (repr(state), repr(state.diagnostics), repr(transcript), entry.about):
        is_a_line(text)
    still = Transcript(transcript.baseline, 0 * transcript.X, 0 * transcript.Z, transcript.responses, None, "x", True)
    with pytest.raises(NotIdentifiedError) as error:
        entry(still)
    assert error.value.diagnostics.rank_X == 0


def seen(world, attack, needs):
    """Return what a recovery needs after a deletion."""
    if needs == "head":
        return attack.observe()
    if needs == "state":
        return attack.identify(world.probe("designed"))
    return attack.run(world.probe("own-data"))


def check_recovery(entry):
    world = clustered(d=12, c=3)
    row = world.others[0]
    knowledge = {
        "nonnegative": True,
        "features": world.features,
        "labels": world.labels,
        "rows": len(world.features),
        "gamma": 1e-2,
        "records": 1,
    }
    before, attack = world.state, world.after(row)[1]
    found = entry(before, seen(world, attack, entry.needs), **knowledge)
    assert isinstance(found, Recovered)
    assert found.label == world.labels[row] and found.known in (True, None)
    # A recovery may take the state after for the one before: they differ by the record's leverage.
    leverage = float(world.features[row] @ np.linalg.solve(world.A, world.features[row]))
    assert gap(found.feature, world.features[row]) < leverage < 0.05
    assert found.block.gram.shape == (12, 12) and found.block.moment.shape == (12, 3)
    assert gap(found.block.moment, world.block(row).moment) < leverage
    assert "record" in entry.kinds and set(entry.kinds) <= set(KINDS)
    for text in (repr(found), repr(found.diagnostics), repr(found.block), entry.about):
        is_a_line(text)
    other = clustered(d=12, c=4)
    with pytest.raises(InputError, match="after must be of d = 12, c = 3; got d = 12, c = 4"):
        entry(before, seen(other, other.attack, entry.needs), **knowledge)


CHECKS = {"exhume.probes": check_probe, "exhume.estimators": check_estimator, "exhume.recoveries": check_recovery}


@pytest.mark.parametrize(("group", "name"), OWN, ids=lambda value: value.rpartition(".")[2])
def test_every_entry_has_the_shape_of_its_kind(group, name):
    entry = REGISTRIES[group].REGISTRY[name]
    assert entry.name == name == spelt(name)
    CHECKS[group](entry)


def test_all_of_ours_are_there():
    assert set(probes.REGISTRY) >= {"designed", "random", "label-swap", "own-data"}
    assert set(estimate.REGISTRY) >= {"direct", "symmetric", "partial"}
    ours = "difference rank-one averaged low-rank partial sequence zoomed passive informed"
    assert set(recover.REGISTRY) >= set(ours.split())


@pytest.mark.parametrize("group", REGISTRIES)
def test_the_recipes_pass_the_same_checks(toys, group):
    brought = set(REGISTRIES[group].REGISTRY) - {name for g, name in OWN if g == group}
    assert brought == {BROUGHT[group]}
    CHECKS[group](REGISTRIES[group].REGISTRY.find(BROUGHT[group].replace("-", "_")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d": 0}, "d, c must be at least 1"),
        ({"c": 0}, "d, c must be at least 1"),
        ({"scale": float("nan")}, "scale must be a finite number above 0"),
        ({"responses": 0}, "responses must be at least 1"),
        ({"features": np.ones((2, 5))}, "features must be 36 x 12, a row a label"),
    ],
)
def test_bad_resources_are_refused_whatever_the_probe(change, message):
    resources = clustered(d=12, c=3, inside=36).resources()
    is_a_line(repr(resources))
    with pytest.raises(InputError, match=message):
        replace(resources, **change)


def test_what_an_entry_cannot_do_without_is_asked_for():
    world = clustered()
    with pytest.raises(InputError, match="features must be given, which 'passive' cannot do without; got nothing"):
        recover.REGISTRY["passive"](world.state, world.target.head(), rows=3)
    with pytest.raises(InputError, match="features, labels must be at least one row of 24 features"):
        recover.REGISTRY["informed"](world.state, world.target.head(), features=world.features)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(InputError, match=r"recovery must be one of averaged, .*did you mean 'rank-one'"):
        recover.REGISTRY.find("rank_won")


def dataclasses_of_the_attack():
    for info in pkgutil.walk_packages(exhume.attack.__path__, "exhume.attack."):
        module = importlib.import_module(info.name)
        for thing in vars(module).values():
            if isinstance(thing, type) and is_dataclass(thing) and thing.__module__ == info.name:
                yield thing


def test_nothing_that_holds_arrays_prints_them():
    holding = re.compile(r"\b(Matrix|Rows|Head|State|Transcript|Block|Recovered|Centred)\b")
    found = [
        thing
        for thing in dataclasses_of_the_attack()
        if any(holding.search(str(f.type)) and not str(f.type).startswith("Callable") for f in fields(thing))
    ]
    assert {"State", "Recovered", "Block", "Transcript"} <= {c.__name__ for c in found}
    # What dataclasses write themselves is wrapped against recursion.
    assert [thing.__name__ for thing in found if hasattr(thing.__repr__, "__wrapped__")] == []


def test_longer_stories_print_as_a_line_too():
    world = clustered()
    state = world.state
    stories = [
        world.attack,
        zoom(world.attack, state),
        zoom(world.attack, state).centred,
        DeletionRun(world.A, world.A, state.G, state.G, state, state),
        recover.sequence(state, [world.head_after(200), world.head_after([200, 201])]).diagnostics.steps[0],
        state.diagnostics,
    ]
    for story in stories:
        is_a_line(repr(story))
