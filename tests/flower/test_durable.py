"""The durable book: stopped anywhere, a run goes on and ends bitwise as one that was not stopped."""

from dataclasses import replace

import numpy as np
import pytest

from exhume.defence import Bounds
from exhume.defence.default import hardened_config
from exhume.errors import ConflictError, InputError
from exhume.flower.client import Holder, client_app
from exhume.flower.durable import StoreBook, operator_key
from exhume.flower.local import LocalGrid
from exhume.flower.rounds import Clock, Postmaster, RoundFailedError, digest, play
from exhume.flower.server import Setup, run
from exhume.store import OperatorKey, ServerSetup
from tests.flower.conftest import C, D, FaultyGrid, numpy_totals, wanted

pytestmark = pytest.mark.flower

SETUP = ServerSetup(D, C, 1e-2)
GRID = 2.0**-8
KEY = OperatorKey(bytes(range(32)))


def opened(path, setup=SETUP):
    return StoreBook.open(str(path), setup, KEY, watch=False)


def finished(path, apps, rounds=5, setup=SETUP):
    with opened(path, setup) as book:
        run(LocalGrid(apps), Setup(book, rounds, nodes=4, unlearn=frozenset({4})))
        return digest(book.server.ledger), book.head()


class Killed(BaseException):
    """What a kill looks like from inside: nobody catches it."""


@pytest.mark.parametrize("after", [1, 2, 3, 4])
@pytest.mark.parametrize("moment", ["before the answers", "before the commit", "after the commit", "in the broadcast"])
def test_a_stopped_run_goes_on_and_ends_bitwise_equal(after, moment, lean_apps, tmp_path, monkeypatch):
    apps = lean_apps
    want = finished(tmp_path / "whole.db", apps)
    book = opened(tmp_path / "stopped.db")
    grid = LocalGrid(apps)

    def at(number, name):
        if book.rounds + (moment == "before the commit" or moment == "before the answers") == number and name == moment:
            raise Killed

    push, submit = grid.push_messages, book.submit

    def pushed(messages):
        kinds = {m.metadata.message_type for m in messages}
        at(after, "in the broadcast" if kinds == {"evaluate"} else "before the answers")
        return push(messages)

    def submitted(number, kind, messages):
        at(after, "before the commit")
        done = submit(number, kind, messages)
        at(after, "after the commit")
        return done

    monkeypatch.setattr(grid, "push_messages", pushed)
    monkeypatch.setattr(book, "submit", submitted)
    with pytest.raises(Killed):
        run(grid, Setup(book, 5, nodes=4, unlearn=frozenset({4})))
    book.store._lock.close()  # the system lets go of a killed process's lock
    book.store.engine.dispose()
    assert finished(tmp_path / "stopped.db", apps) == want


def test_the_ledger_is_that_of_numpy_bit_for_bit_on_a_grid(apps, nodes, tmp_path):
    with opened(tmp_path / "grid.db", ServerSetup(D, C, 1e-2, GRID)) as book:
        run(LocalGrid(apps), Setup(book, 5, nodes=4))
        found = book.server.ledger.summary
    gram, moment = numpy_totals(nodes, 5, snap=GRID)
    assert found.gram.tobytes() == gram.tobytes() and found.moment.tobytes() == moment.tobytes()


def test_a_round_is_taken_once(apps, tmp_path):
    with opened(tmp_path / "one.db") as book:
        post = Postmaster(LocalGrid(apps))
        play(post, book, post.nodes())
        before = digest(book.server.ledger)
        with pytest.raises(InputError, match="the next round"):
            book.submit(1, "train", [])
        # Somebody who goes around the book's count still meets the store's constraint.
        book._rounds, book._taken = 0, {}
        other = {n: client_app(lambda _: Holder(np.eye(D), [0] * D, C, lambda number: range(2))) for n in apps}
        with pytest.raises(ConflictError):
            play(Postmaster(LocalGrid(other)), book, post.nodes())
        assert digest(book.server.ledger) == before


def test_played_again_the_same_round_is_the_same_receipt(apps, tmp_path):
    with opened(tmp_path / "again.db") as book:
        post = Postmaster(LocalGrid(apps))
        first = play(post, book, post.nodes())
        before = digest(book.server.ledger)
        book._rounds, book._taken = 0, {}  # as if the process had died before it could note the round
        second = play(post, book, post.nodes())
        assert [r.number for r in second.receipts] == [r.number for r in first.receipts]
        assert digest(book.server.ledger) == before and book.server.counts.submissions == 1


def test_a_node_that_was_lost_in_one_run_is_made_up_for_in_the_next(apps, nodes, tmp_path):
    clock = Clock(0.05, 0.01)
    with opened(tmp_path / "lost.db") as book:
        run(FaultyGrid(apps, {12: lambda answer, asked: []}), Setup(book, 2, nodes=4, clock=clock))
    with opened(tmp_path / "lost.db") as book:
        assert book.taken("node 12") == () and book.taken("node 11") == ((2, "train"),)
        run(LocalGrid(apps), Setup(book, 3, nodes=4))
        gram = sum(f[list(wanted(3))].T @ f[list(wanted(3))] for f, _ in nodes.values())
        assert np.allclose(book.server.ledger.summary.gram, gram, rtol=0, atol=1e-12)


def test_a_run_in_which_everybody_failed_leaves_the_store_as_it_was(apps, tmp_path):
    want = finished(tmp_path / "s.db", apps, rounds=2)
    with opened(tmp_path / "s.db") as book:
        broken = FaultyGrid(
            apps, {n: (lambda a, asked: [] if asked.metadata.message_type != "evaluate" else [a]) for n in apps}
        )
        with pytest.raises(RoundFailedError):
            run(broken, Setup(book, 3, nodes=4, clock=Clock(0.05, 0.01)))
    with opened(tmp_path / "s.db") as book:
        assert (digest(book.server.ledger), book.head()) == want and book.rounds == 2


def test_the_key_is_made_once(tmp_path):
    assert operator_key(tmp_path / "k").public == operator_key(tmp_path / "k").public


def test_a_run_of_other_nodes_does_not_go_on(apps, nodes, tmp_path):
    # As in a simulation, where every run gives nodes new ids: they would add their rows a second time.
    want = finished(tmp_path / "s.db", apps, rounds=2)
    with opened(tmp_path / "s.db") as book, pytest.raises(RoundFailedError, match="node ids last"):
        run(LocalGrid({node + 100: app for node, app in apps.items()}), Setup(book, 3, nodes=4))
    with opened(tmp_path / "s.db") as book:
        assert (digest(book.server.ledger), book.rounds) == (want[0], 2)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"gamma": 1e-1}, "gamma of the configuration must be 0.01, as in the store"),
        ({"grid": GRID}, "grid of the configuration"),
        ({"d": D + 1}, "d of the configuration"),
        ({"app": {"rows": 21}}, "app.rows of the configuration must be 20, as in the store"),
        ({"app": {}}, "app.rows of the configuration"),
    ],
    ids=str,
)
def test_a_stopped_run_does_not_go_on_with_another_configuration(other, says, apps, tmp_path):
    # With other rows a node would delete what it never sent: it remembers nothing but what the configuration says.
    setup = ServerSetup(D, C, 1e-2, app={"rows": 20})
    want = finished(tmp_path / "s.db", apps, 2, setup)
    with pytest.raises(InputError, match=says):
        opened(tmp_path / "s.db", replace(setup, **other))
    with opened(tmp_path / "s.db", setup) as book:
        assert (digest(book.server.ledger), book.head(), book.rounds) == (*want, 2)


def test_rounds_go_on_behind_the_hardened_servers_rules(lean_apps, nodes, tmp_path):
    bounds = Bounds.measure(np.concatenate([features for features, _ in nodes.values()]), client_rows=20)
    rules = hardened_config(D, bounds=bounds, rows=80, founding=1, key="ab" * 32)
    setup = ServerSetup(D, C, 1e-2, defence=rules)
    want = finished(tmp_path / "whole.db", lean_apps, setup=setup)
    for rounds in (2, 5):  # stopped after two, and on to the end
        got = finished(tmp_path / "parts.db", lean_apps, rounds, setup)
    assert got == want
    with opened(tmp_path / "parts.db", setup) as book:
        # Rows are shown because the rules ask for them, and every node's deletion was of rows that it had shown. In the
        # fourth round, in which only deletions are asked for, nobody has any.
        assert book.server.counts.refused == 0 and book.server.counts.messages == 16
        exact = book.server.ledger.head()
        assert not np.array_equal(book.head().weights, exact)
