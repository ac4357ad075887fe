"""Disk full, a store that cannot be written, PostgreSQL, kills: clear errors, nothing lost."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the extra 'serve'")
pytest.importorskip("cryptography", reason="the store needs the extra 'serve'")

from exhume.errors import StoreError
from tests.store.test_durable import whole
from tests.store.world import add, rows

pytestmark = pytest.mark.extras

ROOT = Path(__file__).parents[2]


def test_a_full_disk_loses_nothing(make, rng, tmp_path):
    """No file may grow any more, as on a full disk: SQLite's own writes fail, not a stand-in for them."""
    server = make()
    server.submit(add(*rows(rng)), "a", "one")
    before = whole(server)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (tmp_path / "store.db-wal").stat().st_size
    update = add(*rows(rng, 50))
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, hard))
    try:
        with pytest.raises(StoreError, match="cannot be written"):
            server.submit(update, "a", "two")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert whole(server) == before
    assert server.receipt("a", "two") is None
    assert server.submit(update, "a", "two").number == 2


READ_ONLY = """
import sys
from exhume.errors import StoreError
from exhume.store import OperatorKey, open
from tests.store.world import SETUP
try:
    open(sys.argv[1], SETUP, OperatorKey(bytes(range(32))))
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize("folder_too", [True, False])
def test_a_store_that_cannot_be_written_is_said(make, tmp_path, folder_too):
    make().close()
    if not folder_too:
        (tmp_path / "store.db.lock").chmod(0o600)
    before = (tmp_path / "store.db").read_bytes()
    command = [sys.executable, "-c", READ_ONLY, str(tmp_path / "store.db")]
    if os.geteuid() == 0:  # modes mean nothing to root unless it gives up the right to pass over them
        if shutil.which("setpriv") is None:
            pytest.skip("root can write everything, and there is no setpriv to give that up")
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    (tmp_path / "store.db").chmod(0o400)
    if folder_too:
        (tmp_path / "store.db.lock").unlink()
        tmp_path.chmod(0o500)
    try:
        environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    finally:
        tmp_path.chmod(0o700)
    assert re.search("cannot be (written|opened)", done.stdout), done.stderr
    assert re.search("Permission denied|readonly database", done.stdout)
    assert (tmp_path / "store.db").read_bytes() == before


def test_kills_lose_nothing_and_double_nothing():
    """The short form of `python benchmarks/crash.py --kills 1000 --json`."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "crash.py"), "--kills", "12", "--seed", "5", "--json"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == 12 and found["acknowledged"] > 12
    assert [found[name] for name in ("lost", "doubled", "never_sent", "other_receipt", "ledger_differs")] == [0] * 5
