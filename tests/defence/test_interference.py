"""Non-interference: two worlds that differ in what others send give one client the same answers."""

import gc
import sys
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume import Ledger, Server, Summary, Update
from exhume.defence import Bounds, accountants, admission, hardened, interfering, reads_of, release
from exhume.defence.admission import Duplicates, Replay
from exhume.defence.interference import READS
from exhume.defence.release._epoch import Epoch
from exhume.defence.release._noisy_head import solve
from exhume.errors import RefusedError
from exhume.protocol import Heads, itemise
from exhume.protocol.grid import snap
from exhume.protocol.summary import Summary as Sums

D, C, GAMMA, POOL = 5, 3, 1e-3, 12
RNG = np.random.default_rng(0)
GRID = 2.0**-8
F, Y = snap(np.abs(RNG.normal(size=(POOL, D))) + 0.1, GRID), RNG.integers(0, C, POOL)
BOUNDS = Bounds.measure(F, client_rows=20, message_rows=6)
MODES = {"rows": {}, "messages": {"show_rows": False}, "totals": {"show_rows": False, "keep_totals": True}}


@dataclass(frozen=True)
class Sent:
    """One message: rows of the pool at a scale, added or deleted, honest or made up."""

    rows: tuple[int, ...]
    deletes: bool
    scale: float = 1.0
    fake: str = ""


def update_of(sent, shown):
    features, labels = sent.scale * F[list(sent.rows)], Y[list(sent.rows)]
    made = itemise(C, **{"delete" if sent.deletes else "add": (features, labels)})
    if sent.fake == "moment":
        zero = Summary.zeros(D, C)
        return Update(zero.with_moment(made.net.moment), zero)
    if sent.fake == "identity":
        return Update.adding(Sums(sent.scale * np.eye(D), np.zeros((D, C))))
    if sent.fake == "negative":
        return Update.adding(Sums(-made.add.gram - made.delete.gram, made.add.moment + made.delete.moment))
    return made if shown else Update(made.add, made.delete)


rows_of_pool = st.lists(st.integers(0, POOL - 1), min_size=1, max_size=3, unique=True).map(tuple)
honest = st.builds(Sent, rows_of_pool, st.booleans())
any_message = st.builds(
    Sent,
    rows_of_pool,
    st.booleans(),
    st.sampled_from([1.0, 1.0, 0.5, -1.0, 1.05, 1e3, 1e10]),
    st.sampled_from(["", "", "", "moment", "identity", "negative"]),
)


def answers(server, script, others, shown):
    """Play a script of mallory's, each message after one of the others'; return all that mallory is told."""
    told = []
    for mine, theirs in zip(script, others, strict=True):
        if theirs is not None:
            server.submit(update_of(theirs[1], shown), theirs[0])
        told.append(answer(server, mine, shown))
    return told


def answer(server, mine, shown):
    receipt = server.submit(update_of(mine, shown), "mallory")
    return receipt.accepted, receipt.reason, receipt.rule, receipt.head is None


@dataclass(frozen=True)
class Setup:
    """What is public of a server: when epochs turn, how many found it, its grid, and rows of the operator's."""

    horizon: int = 1000
    founding: int = 0
    grid: float | None = None
    public: bool = False

    def server(self, start=None, **options):
        ledger = Ledger.zeros(D, C, GAMMA, self.grid) if start is None else Ledger(start, GAMMA, self.grid)
        given = {"public": (F, Y)} if self.public else {} if self.founding else {"grows": True}
        given |= {"rows": 50, "horizon": self.horizon, "founding": self.founding, "key": "42" * 16}
        return hardened(ledger, bounds=BOUNDS, **given | options)


setups = st.builds(
    Setup, st.sampled_from([2, 3, 1000]), st.integers(0, 12), st.sampled_from([None, GRID]), st.booleans()
)


@st.composite
def worlds(draw):
    script = draw(st.lists(any_message, min_size=1, max_size=8))
    theirs = st.none() | st.tuples(st.sampled_from(["alice", "bob"]), honest)
    return script, *(draw(st.lists(theirs, min_size=len(script), max_size=len(script))) for _ in range(2))


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from([2, 1000]), st.sampled_from([None, GRID]), st.booleans())
def test_what_others_send_and_delete_changes_nothing_that_a_client_is_told(mode, played, horizon, grid, public):
    """Whether and what others send. Nobody waits for founders: how many messages there were is public."""
    script, *others = played
    setup = Setup(horizon, 0, grid, public)
    told = [answers(setup.server(**MODES[mode]), script, theirs, mode == "rows") for theirs in others]
    assert told[0] == told[1]


@dataclass
class Others:
    """Clients of one world: their rows, and what they do before each message of mallory's. Everything is accepted."""

    seed: int
    steps: list[tuple[bool, int]]
    """Whether rows come or go, and how many come."""

    def play(self, server, shown):
        """Send one message before each of mallory's."""
        rng = np.random.default_rng(self.seed)
        standing = []
        for i, (goes, count) in enumerate(self.steps):
            if goes and standing:
                client, rows = standing.pop()
                side = {"delete": rows}
            else:
                # Long rows among them: the cap cuts those, and what it cut must be found again when they go.
                rows = rng.uniform(0.2, 1.0) * np.abs(rng.normal(size=(count, D)))
                rows *= np.minimum(1.0, BOUNDS.longest / np.linalg.norm(rows, axis=1))[:, None]
                # A client each, so that none has more rows than allowed; towards zero, so that none gets longer.
                rows = rows if server.grid is None else np.trunc(rows / server.grid) * server.grid
                client = f"bob {i}"
                standing.append((client, (rows, rng.integers(0, C, count))))
                side = {"add": standing[-1][1]}
            made = itemise(C, **side)
            assert server.submit(made if shown else Update(made.add, made.delete), client).accepted
            yield


PUBLIC = {solve.__code__, Epoch.turned.__code__, Epoch.steadied.__code__}
"""What works on noisy totals alone. That it runs is compared, what it takes is public."""


def work_of(call):
    """Return every function, of Python and of C, that a call runs, in order; what noisy totals decide is public."""
    found, inside = [], 0

    def note(frame, event, arg):
        nonlocal inside
        solving = event in ("call", "return") and frame.f_code in PUBLIC
        if not inside:
            name = frame.f_code.co_qualname if event == "call" else getattr(arg, "__qualname__", "")
            found.append((event, name)) if event in ("call", "c_call") else None
        inside += (event == "call") * solving
        inside -= (event == "return") * solving

    gc.disable()  # it would call back whenever it likes
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return found


def work_in(world, script, mode, setup):
    """Return the work that each message of a script takes in a world of others, whose rows are in the ledger too."""
    features, labels = next(founders(world.seed))
    start = Summary.of(snap(features, setup.grid), labels, C)
    server, shown = setup.server(start, cap=0.5, grows=False, **MODES[mode]), mode == "rows"
    with suppress(RefusedError):  # while founders come in
        server.head()
    found = []
    for _, mine in zip(world.play(server, shown), script, strict=True):
        made = update_of(mine, shown)
        found.append(work_of(lambda made=made: server.submit(made, "mallory")))
    return found


def founders(seed):
    rng = np.random.default_rng([seed, 1])
    while True:
        yield np.abs(rng.normal(size=(50, D))), rng.integers(0, C, 50)


@st.composite
def scripts(draw):
    script = draw(st.lists(any_message, min_size=1, max_size=6))
    steps = st.lists(st.tuples(st.booleans(), st.integers(1, 6)), min_size=len(script), max_size=len(script))
    return script, *(draw(st.builds(Others, st.integers(0, 2**31), steps)) for _ in range(2))


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40, deadline=None)
@given(scripts(), setups)
def test_what_others_hold_and_delete_changes_nothing_that_a_client_is_told(mode, played, setup):
    """As many messages in both worlds, all accepted: founders are waited for, and epochs turn, by their number."""
    script, *others = played
    told = []
    for world in others:
        server = setup.server(**MODES[mode])
        steps = zip(world.play(server, mode == "rows"), script, strict=True)
        told.append([answer(server, mine, mode == "rows") for _, mine in steps])
    assert told[0] == told[1]


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40, deadline=None)
@given(scripts(), setups)
def test_what_others_hold_and_delete_changes_nothing_of_the_work_that_a_message_takes(mode, played, setup):
    """Time is what work takes: the same calls in the same order, whoever has which records cut, added or gone."""
    script, one, other = played
    work_in(one, script, mode, setup)  # what is made once and kept is made now
    assert work_in(one, script, mode, setup) == work_in(other, script, mode, setup)


@pytest.mark.parametrize("goes", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_a_head_goes_out_after_the_founders_whether_or_not_anything_is_left_of_them(mode, goes):
    """A server with nothing in it once withheld its first head, and told so that everybody had deleted everything."""
    server, shown = Setup(founding=4, grid=GRID).server(**MODES[mode]), mode == "rows"
    world = Others(1, [(False, 1), (goes, 1)]).play(server, shown)
    told = [answer(server, Sent((0,), deletes=i == 1), shown) for i, _ in enumerate(world)]
    assert told == [(True, None, None, True), (True, None, None, False)]
    assert np.isfinite(server.head().weights).all()


def test_the_work_of_a_cut_record_is_seen():
    """The property can fail: what a client's own cap takes is more work."""
    short, long = ([Sent((0,), deletes=False, scale=scale)] for scale in (0.01, 1.0))
    world = Others(1, [(False, 1)])
    work_in(world, long, "rows", Setup())
    assert work_in(world, short, "rows", Setup()) != work_in(world, long, "rows", Setup())


def test_the_property_fails_for_rules_that_refuse_by_others_secrets():
    """The worlds of the property, in the simplest case: bob's deletion is what mallory's guess is refused by."""
    guess, deletion = Sent((0,), deletes=False), ("bob", Sent((0,), deletes=True))
    for rule, expected in ((Replay(D, C), False), (Replay(D, C, aside=True), True)):
        told = [
            answers(Server(Ledger(Summary.of(F, Y, C), 1.0), admission=[rule]), [guess], [theirs], False)
            for theirs in (None, deletion)
        ]
        assert (told[0] == told[1]) is expected


@pytest.mark.parametrize("mode", MODES)
def test_no_rule_of_the_hardened_server_reads_others(mode):
    server = hardened(Ledger.zeros(D, C, GAMMA), bounds=BOUNDS, rows=50, founding=1, **MODES[mode])
    assert interfering(server) == ()


def test_every_rule_says_what_it_may_read():
    for registry in (admission.REGISTRY, release.REGISTRY):
        for name, rule in registry.items():
            if rule is not Heads:
                assert hasattr(rule, "reads"), name
    found = {name: reads_of(rule) for name, rule in admission.REGISTRY.items() if isinstance(rule.reads, str)}
    assert set(found.values()) <= set(READS)
    assert {name for name, reads in found.items() if reads == "everyone"} == {"detector"}
    assert reads_of(Duplicates(D, C)) == "everyone"
    assert reads_of(Duplicates(D, C, others=False)) == "client"
    assert reads_of(object()) == "everyone"
    quiet, loud = (accountants.IdentificationAccountant(1, action=action) for action in ("report", "withhold"))
    assert (reads_of(quiet), reads_of(loud)) == ("message", "everyone")


@pytest.mark.parametrize("shown", [True, False])
def test_what_is_set_aside_moves_nothing_and_its_deletion_is_matched_in_silence(shown):
    rule = Replay(D, C, aside=True, seed=1)
    server = Server(Ledger(Summary.of(F, Y, C), 1.0), admission=[rule])
    server.submit(update_of(Sent((0,), deletes=True), shown), "bob")
    before = server.ledger.summary
    copy = update_of(Sent((0,), deletes=False, scale=1.01), shown)
    receipt = server.submit(copy, "mallory")
    assert (receipt.accepted, receipt.reason, receipt.rule) == (True, None, None)
    assert server.ledger.summary == before
    again = Replay(D, C, aside=True)
    again.load(rule.save())
    assert again.taken(copy.undo() if not shown else itemise(C, delete=(1.01 * F[:1], Y[:1])), "mallory").net.is_zero
    gone = Sent((0,), deletes=True, scale=1.01)
    assert server.submit(update_of(gone, shown), "mallory").accepted
    assert server.ledger.summary == before
    server.submit(update_of(gone, shown), "mallory")  # nothing is left aside: a second deletion is one
    assert server.ledger.summary != before
    assert server.submit(update_of(Sent((0,), deletes=False), shown), "bob").accepted  # its own may come back


def test_of_rows_that_are_shown_only_the_copies_are_set_aside():
    server = Server(Ledger(Summary.of(F, Y, C), 1.0), admission=[Replay(D, C, aside=True, seed=1)])
    server.submit(update_of(Sent((0,), deletes=True), True), "bob")
    before = server.ledger.summary
    server.submit(update_of(Sent((0, 1), deletes=False), True), "mallory")
    expected = before + Summary.of(F[1:2], Y[1:2], C)
    np.testing.assert_allclose(server.ledger.summary.gram, expected.gram, rtol=1e-14)
    server.submit(update_of(Sent((1, 0), deletes=True), True), "mallory")
    np.testing.assert_allclose(server.ledger.summary.gram, before.gram, rtol=1e-13)


@pytest.mark.parametrize("rule", [Replay(D, C, seed=1, most=8), Duplicates(D, C, seed=1, most=8)])
def test_memory_and_search_end_at_the_limit_and_the_latest_stay(rule):
    rng = np.random.default_rng(1)
    for i in range(30):
        block = Summary.of(rng.normal(size=(1, D)), [i % C], C)
        before = rule._deleted.remembered()
        undo = rule.checkpoint(("bob",))
        rule.record(Update(Summary.of(rng.normal(size=(1, D)), [0], C), block), "bob")
        if i % 3 == 0:
            state = rule.save()
            undo()
            after = rule._deleted.remembered()
            assert after.values == before.values
            np.testing.assert_array_equal(after.arrays["vectors"], before.arrays["vectors"])
            rule.load(state)
        last = block
    again = Update.adding(last) if isinstance(rule, Replay) else Update.deleting(last)
    assert rule.refuse(again, "mallory" if isinstance(rule, Replay) else "bob") is not None
    assert len(rule._deleted) == 8
    assert rule._deleted.vectors.shape[0] == 8
