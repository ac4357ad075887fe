"""The durable server: acknowledged is on the disk, a retry is no replay, and what comes back is bitwise the same."""

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("sqlalchemy", reason="the store needs the extra 'serve'")
pytest.importorskip("cryptography", reason="the store needs the extra 'serve'")

from exhume.defence import Defences
from exhume.defence.memory import Saveable, unpack
from exhume.defence.release import rules_of
from exhume.errors import ConflictError, InputError, StoreError
from exhume.store import Forgetting, OperatorKey, ServerSetup
from exhume.store import open as open_store
from tests.store.world import DEFENCES, C, D, add, delete, rows

pytestmark = pytest.mark.extras


def whole(server):
    """Everything that must come back: totals, memories of the rules, counts, head."""
    inner = server.server
    total, head = inner.ledger.summary, inner.released
    parts = [*inner.admission, *rules_of(inner.release), *([inner.accountant] if inner.accountant else [])]
    memories = [part.remembered() for part in parts if isinstance(part, Saveable)]
    return (
        total.gram.tobytes(),
        total.moment.tobytes(),
        inner.ledger.lost,
        inner.counts,
        None if head is None else (head.weights.tobytes(), head.precision, head.serial),
        [(dict(memory.values), {k: v.tobytes() for k, v in memory.arrays.items()}) for memory in memories],
        server.published.encoded,
    )


def play(server, rng, messages=9):
    """Send additions and some deletions of them from three clients."""
    standing = []
    for i in range(messages):
        client = f"client-{i % 3}"
        if i % 4 == 3 and standing:
            owner, block = standing.pop(0)
            server.submit(delete(*block), owner, f"m{i}")
        else:
            block = rows(rng)
            if server.submit(add(*block), client, f"m{i}").accepted:
                standing.append((client, block))


@pytest.mark.parametrize("name", DEFENCES)
def test_it_comes_back_bitwise_the_same(make, left, rng, name):
    setup = ServerSetup(D, C, 1e-3, defence=DEFENCES[name])
    server = make(setup, forgetting=Forgetting(updates=5))
    play(server, rng)
    before = whole(server)
    assert server._logged > 0  # part of it is in the log, part in the snapshot
    left(server)
    again = make(setup)
    # What was deleted and still in the log leaves it at once: that is a snapshot, which changes nothing that shows.
    assert whole(again) == before
    assert again.pending == 0


def test_what_goes_on_after_a_restart_is_what_would_have_gone_on(tmp_path, key, setup):
    """One server is stopped and started before every message, the other never: their heads are the same."""
    config = DEFENCES["hardened"]
    entries = [entry.model_copy(update={"key": "ab" * 32}) for entry in config.release[:1]]
    fixed = replace(setup, defence=config.model_copy(update={"release": (*entries, *config.release[1:])}))
    heads = []
    for name, restarts in (("one.db", True), ("two.db", False)):
        rng = np.random.default_rng(3)
        server = open_store(str(tmp_path / name), fixed, key, watch=False)
        block = rows(rng)
        found = []
        for i in range(8):
            update = delete(*block) if i == 5 else add(*(block if i == 2 else rows(rng)))
            server.submit(update, "a", f"k{i}")
            found.append(server.head().weights.tobytes())
            if restarts:
                server.close()
                server = open_store(str(tmp_path / name), fixed, key, watch=False)
            else:
                server.snapshot()
        server.close()
        heads.append(found)
    assert heads[0] == heads[1]


def test_a_retry_gets_the_same_receipt_for_ever_and_counts_once(make, left, rng):
    server = make()
    update = add(*rows(rng))
    first = server.submit(update, "a", "k")
    total = server.server.ledger.summary
    assert server.submit(update, "a", "k") == first
    left(server)
    again = make()
    assert again.submit(update, "a", "k") == first
    again.snapshot()
    assert again.submit(update, "a", "k") == first
    assert again.server.ledger.summary == total
    assert again.published.counts.messages == 1


def test_the_same_key_for_another_message_is_a_conflict(make, rng):
    server = make()
    server.submit(add(*rows(rng)), "a", "k")
    before = whole(server)
    with pytest.raises(ConflictError, match="'a' has used the key 'k' before"):
        server.submit(add(*rows(rng)), "a", "k")
    assert whole(server) == before
    assert server.submit(add(*rows(rng)), "b", "k").accepted  # keys are each client's own


def test_a_refusal_is_remembered_too_and_leaves_no_body(make, left, rng):
    server = make()
    refused = server.submit(delete(*rows(rng)), "a", "k")
    assert (refused.accepted, refused.rule) == (False, "ownership")
    assert server._logged == 0
    left(server)
    again = make()
    assert again.receipt("a", "k") == refused
    assert again.published.counts.refused == 1


def test_a_key_is_unique_by_the_database(make, left, rng, tmp_path):
    server = make()
    server.submit(add(*rows(rng)), "a", "k")
    left(server)
    database = sqlite3.connect(tmp_path / "store.db")
    with pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE constraint failed: receipts\.client, receipts\.key"):
        database.execute("INSERT INTO receipts SELECT seq + 1, round, client, key, digest, accepted, number, serial, "
                         "rule, reason, at, deletes, erased_at FROM receipts")  # fmt: skip
    database.close()


def test_a_round_is_one_submission_and_one_broadcast(make, left, rng):
    server = make()
    found = server.submit_round([(name, "k", add(*rows(rng))) for name in "abc"])
    assert {(receipt.number, receipt.serial, receipt.round) for receipt in found} == {(1, 1, 1)}
    assert (server.published.counts.submissions, server.published.counts.messages) == (1, 3)
    before = whole(server)
    left(server)
    assert whole(make()) == before


def test_what_cannot_be_written_did_not_happen(make, rng, monkeypatch):
    server = make()
    server.submit(add(*rows(rng)), "a", "one")
    before = whole(server)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("exhume.store.journal.write", full)
    with pytest.raises(StoreError, match=r"cannot be written.*No space left on device; nothing of it was taken"):
        server.submit(add(*rows(rng)), "a", "two")
    assert whole(server) == before
    monkeypatch.undo()
    assert server.submit(add(*rows(rng)), "a", "two").number == 2


def test_a_store_of_another_configuration_is_refused_by_name(make, setup, key, tmp_path):
    make().close()
    for other, name in (
        (replace(setup, gamma=0.5), "gamma"),
        (replace(setup, d=13), "d of the configuration"),
        (replace(setup, defence=DEFENCES["bare"]), r"defence\.admission\[0\]"),
    ):
        with pytest.raises(InputError, match=name):
            make(other)
    with pytest.raises(InputError, match="key file must be that of the store"):
        open_store(str(tmp_path / "store.db"), setup, OperatorKey.make())
    make().close()


def test_a_store_of_another_version_is_refused_by_name(make, tmp_path):
    make().close()
    database = sqlite3.connect(tmp_path / "store.db")
    database.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
    database.commit()
    database.close()
    with pytest.raises(InputError, match="version of the store must be 1; got 99"):
        make()


def test_a_second_server_on_one_store_is_refused(make):
    first = make()
    with pytest.raises(StoreError, match="in use by another process"):
        make()
    first.close()
    make()


@pytest.mark.skipif(sys.platform != "linux", reason="the file itself is locked on Linux only")
def test_a_second_server_under_another_name_of_the_file_is_refused_too(make, tmp_path, setup, key):
    make()
    (tmp_path / "store.db.lock").unlink()  # somebody tidied up
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "linked.db").symlink_to(tmp_path / "store.db")
    (tmp_path / "other" / "same.db").hardlink_to(tmp_path / "store.db")
    for path in (tmp_path / "store.db", tmp_path / "other" / "linked.db", tmp_path / "other" / "same.db"):
        done = subprocess.run(
            [sys.executable, "-c", SECOND, str(path)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        )
        assert "in use by another process" in done.stdout, done.stdout + done.stderr


SECOND = """
import sys
from exhume.errors import StoreError
from exhume.store import OperatorKey, open
from tests.store.world import SETUP
try:
    open(sys.argv[1], SETUP, OperatorKey(bytes(range(32))))
except StoreError as error:
    print(error)
"""
ROOT = Path(__file__).parents[2]


def test_a_clock_that_goes_back_moves_nothing_back(make, left, rng, monkeypatch):
    server = make()
    first = server.submit(add(*rows(rng)), "a", "one")
    monkeypatch.setattr("exhume.store.setup.time.time", lambda: first.at - 10_000)
    assert server.submit(add(*rows(rng)), "a", "two").at == first.at
    left(server)
    again = make()
    assert again.submit(add(*rows(rng)), "a", "three").at == first.at


def test_a_damaged_log_is_found(make, left, rng, tmp_path):
    server = make()
    server.submit(add(*rows(rng)), "a", "one")
    left(server)
    database = sqlite3.connect(tmp_path / "store.db")
    database.execute("DELETE FROM log")
    database.commit()
    database.close()
    with pytest.raises(StoreError, match="lacks the accepted message 1"):
        make()


def test_files_are_for_their_owner_only(make, rng, tmp_path):
    server = make()
    server.submit(add(*rows(rng)), "a", "one")
    assert {path.name for path in tmp_path.iterdir()} == {
        "store.db",
        "store.db-wal",
        "store.db-shm",
        "store.db.lock",
    }
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())


def test_memories_are_sealed(make, rng, key, tmp_path):
    """The noise's key and the sketches' seed are in no file as they are."""
    server = make()
    play(server, rng)
    server.snapshot()
    names = Defences.of(server.server).remembered().arrays
    release = server.server.release
    secret = release.rules[0]._key
    assert names and len(secret) == 32
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret not in raw and secret.hex().encode() not in raw
    assert unpack(release.save(), release.name, release.configuration())  # it is in what was sealed


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_history_with_restarts_and_retries_is_the_sum_of_what_counts(tmp_path_factory, data):
    """On a grid the totals are bitwise those of the accepted messages, whatever was retried and however it stopped."""
    folder, key = tmp_path_factory.mktemp("history"), OperatorKey(bytes(32))
    setup = ServerSetup(4, 2, 1e-3, grid=2.0**-8)
    server = open_store(str(folder / "s.db"), setup, key, watch=False, forgetting=Forgetting(updates=3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    from exhume.protocol import Summary, Update, snap

    total, sent = Summary.zeros(4, 2), {}
    for step in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["send", "send", "retry", "stop", "kill", "snapshot"]))
        if action == "send":
            rows, labels = snap(rng.standard_normal((2, 4)), setup.grid), rng.integers(0, 2, 2)
            block = Summary.of(rows, labels, 2, factored=False)  # the factor of two rows is not on the grid
            update, client = Update.adding(block), f"c{step % 3}"
            sent[client, str(step)] = update
            assert server.submit(update, client, str(step)).accepted
            total = total + block
        elif action == "retry" and sent:
            client, name = data.draw(st.sampled_from(sorted(sent)))
            assert server.submit(sent[client, name], client, name).accepted
        elif action == "snapshot":
            server.snapshot()
        elif action in ("stop", "kill"):
            if action == "kill":
                server._closed.set()
                server._lock.close()
                server._engine.dispose()
            else:
                server.close()
            server = open_store(str(folder / "s.db"), setup, key, watch=False, forgetting=Forgetting(updates=3))
        assert server.server.ledger.summary == total
        assert server.published.counts.messages == len(sent)
    server.close()
