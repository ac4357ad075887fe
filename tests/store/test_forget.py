"""Forgetting reaches the disk: the raw bytes of all files of a store, before and after."""

import sqlite3
import time

import numpy as np
import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the extra 'serve'")
pytest.importorskip("cryptography", reason="the store needs the extra 'serve'")

from exhume.errors import InputError
from exhume.protocol import Summary, Update
from exhume.protocol.wire import encode_update
from exhume.store import Forgetting, OperatorKey, ServerSetup, check_statement, snapshot
from exhume.store import open as open_store
from tests.store.world import C, add, delete, rows

pytestmark = pytest.mark.extras


def numbers(*arrays):
    """Return every number of some arrays as its eight bytes; zeros are everywhere and say nothing."""
    values = np.concatenate([np.asarray(array, dtype="<f8").ravel() for array in arrays])
    return {value.tobytes() for value in values if value != 0.0}


def found(folder, wanted):
    """Return how many of some numbers are in any file of a folder, at any offset."""
    raw = b"\0".join(path.read_bytes() for path in sorted(folder.iterdir()))
    return sum(number in raw for number in wanted)


def parts_of(server):
    with server.engine.connect() as connection:
        return snapshot.read(connection)


def test_a_deleted_block_leaves_every_file(make, rng, tmp_path, key):
    server = make()
    play = [("a", rows(rng, 3)), ("b", rows(rng, 3)), ("a", rows(rng, 1))]
    for i, (client, block) in enumerate(play):
        server.submit(add(*block), client, f"add-{i}")
    victim = play[2][1]
    with_it = server.server.ledger.summary
    block = Summary.of(*victim, C)
    record = numbers(victim[0])
    sums = numbers(block.gram, block.moment)
    sent = numbers(block.factor, block.moment)
    containing = numbers(with_it.gram, with_it.moment)
    server.snapshot()
    assert found(tmp_path, containing) == len(containing)  # the totals that hold it are in the snapshot
    receipt = server.submit(delete(*victim), "a", "gone")
    assert receipt.deletes and server.pending == 1
    assert found(tmp_path, record) == len(record)  # and the deletion itself is in the log
    assert found(tmp_path, sent) > 0.9 * len(sent)

    server.snapshot()
    assert server.pending == 0
    without = server.server.ledger.summary
    # Numbers of the moment whose class the block did not touch are still those of the others.
    kept = numbers(without.gram, without.moment)
    for wanted in (record, sums, sent, containing):
        assert found(tmp_path, wanted - kept) == 0
    assert found(tmp_path, kept) == len(kept)  # the search finds what is there

    opened = snapshot.memories(parts_of(server), key)  # what the rules remember, without its seal
    assert not any(number in opened for number in record | sums)


def test_it_stays_gone_after_many_messages_and_restarts(make, rng, tmp_path):
    """Pages are used again and again: none of them keeps what was on it."""
    gone = set()
    server = make(forgetting=Forgetting(updates=4))
    standing = []
    for i in range(40):
        if i % 3 == 2:
            block = standing.pop(rng.integers(len(standing)))
            server.submit(delete(*block), "a", f"k{i}")
            gone |= numbers(block[0])
        else:
            standing.append(rows(rng, int(rng.integers(1, 30))))
            server.submit(add(*standing[-1]), "a", f"k{i}")
        if i % 10 == 9:
            server.close()
            server = make(forgetting=Forgetting(updates=4))
    server.snapshot()
    assert len(gone) > 1000
    assert found(tmp_path, gone) == 0


def test_dense_messages_larger_than_a_page_leave_too(tmp_path, key, rng):
    d, c = 96, 4
    server = open_store(str(tmp_path / "s.db"), ServerSetup(d, c, 1e-3), key, watch=False)
    batches = [(rng.standard_normal((5, d)), rng.integers(0, c, 5)) for _ in range(6)]
    blocks = [Summary.of(*batch, c, factored=False) for batch in batches]
    for i, block in enumerate(blocks):
        server.submit(Update.adding(block), "a", f"k{i}")
    server.submit(Update.deleting(blocks[2]), "a", "gone")
    wanted = numbers(blocks[2].gram)
    assert found(tmp_path, wanted) > 0.9 * len(wanted)
    server.snapshot()
    assert found(tmp_path, wanted) == 0
    server.close()


def test_the_bound_holds_while_nobody_sends_anything(make, rng, tmp_path):
    server = make(forgetting=Forgetting(seconds=1.0), watch=True)
    block = rows(rng)
    server.submit(add(*block), "a", "one")
    server.submit(add(*rows(rng)), "a", "two")
    receipt = server.submit(delete(*block), "a", "gone")
    end = time.monotonic() + 20
    while server.pending and time.monotonic() < end:
        time.sleep(0.05)
    assert found(tmp_path, numbers(block[0])) == 0
    erased = server.receipt("a", "gone").erased_at
    assert receipt.at < erased <= receipt.at + 1.0 + 5.0  # the machine may be busy


def test_who_was_killed_forgets_when_it_starts(make, left, rng, tmp_path):
    server = make()
    block = rows(rng)
    server.submit(add(*block), "a", "one")
    server.submit(delete(*block), "a", "gone")
    left(server)
    assert found(tmp_path, numbers(block[0])) > 0
    again = make()
    assert again.pending == 0
    assert found(tmp_path, numbers(block[0])) == 0


def test_no_digest_of_a_block_is_in_a_file(make, rng, tmp_path):
    """A disk thief who guesses a block cannot confirm the guess by a plain hash of it."""
    import hashlib

    from exhume.defence.admission._numbers import content
    from exhume.protocol.message import message

    server = make()
    block = rows(rng)
    update = add(*block)
    server.submit(update, "a", "one")
    server.snapshot()
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    body = encode_update(update)
    guesses = [hashlib.sha256(body).digest(), content(update.add), message(update).added.digest()]
    guesses += list(message(update).added.digests())
    assert not any(guess in raw or guess.hex().encode() in raw for guess in guesses)


def test_a_statement_says_when_a_block_left_and_can_be_checked_offline(make, rng, key):
    server = make()
    block = rows(rng)
    server.submit(add(*block), "a", "one")
    update = delete(*block)
    receipt = server.submit(update, "a", "gone")
    promised = server.statement(receipt)
    assert check_statement(promised, key.public).erased_at is None
    assert promised["statement"]["erased_by"] == receipt.at + server.forgetting.seconds
    server.snapshot()
    kept = server.statement(server.receipt("a", "gone"))
    told = check_statement(kept, key.public, encode_update(update))
    assert told.erased_at >= receipt.at and told.client == "a"
    assert server.statement(server.receipt("a", "one")) is None
    for wrong, why in (
        (kept | {"statement": kept["statement"] | {"erased_at": 1.0}}, "signature"),
        (kept | {"signature": "00" * 64}, "signature"),
        (kept | {"opener": "00" * 32}, "digest"),
        ({}, "receipt"),
    ):
        with pytest.raises(InputError, match=why):
            check_statement(wrong, key.public, encode_update(update))
    with pytest.raises(InputError, match="signature"):
        check_statement(kept, OperatorKey.make().public)
    with pytest.raises(InputError, match="digest must be that of the message"):
        check_statement(kept, key.public, encode_update(add(*block)))


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"updates": 0}, {"megabytes": 0.1}, {"seconds": float("nan")}])
def test_bounds_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError, match=f"forget.{next(iter(wrong))}"):
        Forgetting(**wrong)


def test_somebody_else_who_reads_the_file_holds_up_forgetting_but_nobody_who_sends(make, rng, tmp_path, caplog):
    """A hung copy or a shell with an open transaction: said in words, tried again, no snapshot piled on another."""
    server = make(forgetting=Forgetting(seconds=1.0), watch=True)
    victim = rows(rng, 2)
    server.submit(add(*victim), "a", "in")
    reader = sqlite3.connect(f"file:{tmp_path / 'store.db'}?mode=ro", uri=True, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from log").fetchall()
    server.submit(delete(*victim), "a", "out")
    until = time.monotonic() + 60
    while server.trouble is None and time.monotonic() < until:
        time.sleep(0.05)
    assert "another process reads" in server.trouble and server.pending == 1
    size = (tmp_path / "store.db-wal").stat().st_size
    for i in range(10):
        start = time.monotonic()
        server.submit(add(*rows(rng, 1)), "b", f"b{i}")
        assert time.monotonic() - start < 2.0  # five seconds of SQLite's patience each, before
    time.sleep(1.5)  # several tries of the watcher
    grown = (tmp_path / "store.db-wal").stat().st_size - size
    assert grown < 10 * 8 * 8192  # a few pages a message, no snapshots
    assert found(tmp_path, numbers(victim[0])) and server.receipt("a", "out").erased_at is None
    reader.close()
    while (server.pending or server.trouble) and time.monotonic() < until:
        time.sleep(0.05)
    assert not server.pending and server.trouble is None and server.receipt("a", "out").erased_at is not None
    assert not found(tmp_path, numbers(victim[0]))
    assert sum("deletions" in record.message for record in caplog.records) == 2  # once when it began, once at the end
