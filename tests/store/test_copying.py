"""Backup, restore, verify."""

import sqlite3

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the extra 'serve'")
pytest.importorskip("cryptography", reason="the store needs the extra 'serve'")

from exhume.errors import InputError, StoreError
from exhume.store import OperatorKey
from exhume.store import open as open_store
from exhume.store.copying import backup, inspect, restore
from tests.store.test_durable import play, whole
from tests.store.world import add, rows

pytestmark = pytest.mark.extras


def test_a_backup_of_a_running_store_comes_back_whole(make, rng, key, setup, tmp_path):
    server = make()
    play(server, rng)
    before = whole(server)
    count = backup(str(tmp_path / "store.db"), tmp_path / "copy.db")
    assert count == server.last
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0
    server.submit(add(*rows(rng)), "a", "later")  # not in the backup
    assert inspect(str(tmp_path / "copy.db"), setup, key).receipts == count
    assert restore(tmp_path / "copy.db", str(tmp_path / "new.db")) == count
    with open_store(str(tmp_path / "new.db"), setup, key, watch=False) as again:
        assert whole(again) == before
        assert again.identity != server.identity  # clients can see that it is not the store that they knew


def test_nothing_is_overwritten(make, rng, tmp_path):
    make().close()
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(InputError, match="a name that is not taken"):
        backup(str(tmp_path / "store.db"), tmp_path / "copy.db")
    with pytest.raises(InputError, match="one that is not there yet"):
        restore(tmp_path / "store.db", str(tmp_path / "copy.db"))
    with pytest.raises(InputError, match="a file that is there"):
        backup(str(tmp_path / "no.db"), tmp_path / "other.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match="no store to copy"):
        backup(str(tmp_path / "empty.db"), tmp_path / "other.db")
    assert not (tmp_path / "other.db").exists()


def test_verify_says_what_there_is_and_finds_what_is_wrong(make, left, rng, key, setup, tmp_path):
    url = str(tmp_path / "store.db")
    server = make()
    play(server, rng, 7)
    with pytest.raises(StoreError, match="in use"):
        inspect(url, setup, key)
    left(server)
    found = inspect(url, setup, key)
    assert (found.receipts, found.accepted, found.logged, found.pending) == (7, 7, 7, 1)
    with pytest.raises(InputError, match="key file"):
        inspect(url, setup, OperatorKey.make())
    database = sqlite3.connect(tmp_path / "store.db")
    database.execute("DELETE FROM receipts WHERE seq = 7")
    database.commit()
    with pytest.raises(StoreError, match="does not lead to the head"):
        inspect(url, setup, key)
    database.execute("UPDATE snapshot SET body = zeroblob(100) WHERE part = 'memories'")
    database.commit()
    database.close()
    with pytest.raises(StoreError, match="damaged, or sealed with another key"):
        inspect(url, setup, key)


def test_a_damaged_backup_is_said_in_one_line(tmp_path):
    (tmp_path / "copy.db").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="cannot be read"):
        restore(tmp_path / "copy.db", str(tmp_path / "new.db"))
