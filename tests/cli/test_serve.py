"""`exhume serve` and its subcommands: what they write, say and refuse."""

import json
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra 'serve'")
pytest.importorskip("sqlalchemy", reason="the service needs the extra 'serve'")

import httpx
from typer.testing import CliRunner

from exhume.cli._edge import carry_out
from exhume.cli.main import app
from exhume.protocol.wire import encode_update
from exhume.service import Tokens, load
from exhume.service.config import first_operator
from exhume.store import OperatorKey
from exhume.store import open as open_store
from tests.store.world import SETUP, add, delete, rows

pytestmark = pytest.mark.extras


def run(*words):
    return CliRunner().invoke(app, ["serve", *map(str, words)], catch_exceptions=True)


def test_init_backup_verify_restore(tmp_path):
    home = tmp_path / "service"
    made = run("init", home, "--d", 8, "--c", 2)
    assert made.exit_code == 0, made.output
    assert {path.name for path in home.iterdir()} == {"service.toml", "service.key", "operator.token"}
    assert (home / "operator.token").read_text().startswith("exhume_o_")
    for name in ("service.key", "operator.token"):
        assert (home / name).stat().st_mode & 0o077 == 0
    config = home / "service.toml"
    found = load(config)
    with open_store(found.url, found.setup, OperatorKey.load(home / "service.key"), watch=False) as store:
        tokens = Tokens(store.engine)
        first_operator(found, tokens)
        assert tokens.holder((home / "operator.token").read_text().strip(), "operator").name == "operator"
        first_operator(found, tokens)  # once only
        assert len(tokens.all("operator")) == 1
    checked = run("verify", "--config", config, "--json", tmp_path / "found.json")
    assert "Whole: 0 messages accepted" in checked.output
    assert json.loads((tmp_path / "found.json").read_text())["receipts"] == 0
    assert run("backup", tmp_path / "copy.db", "--config", config).exit_code == 0
    assert "Whole" in run("verify", "--config", config, "--file", tmp_path / "copy.db").output
    (home / "store.db").unlink()
    assert "Restored 0 receipts" in run("restore", tmp_path / "copy.db", "--config", config).output
    assert "Whole" in run("verify", "--config", config).output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--demo or --config"),
        (["--demo", "--config", "x.toml"], "--demo or --config"),
        (["--config", "no.toml"], "a TOML file that can be read"),
        (["verify", "--config", "no.toml"], "a TOML file that can be read"),
        (["backup", "copy.db", "--config", "no.toml"], "a TOML file that can be read"),
        (["verify-receipt", "no.json", "--public-key", "00"], "a JSON file that can be read"),
    ],
)
def test_bad_lines_end_with_one_line_and_two(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert carry_out(app, ["serve", *words]) == 2
    error = capsys.readouterr().err
    assert said in " ".join(error.split()) and len(error.strip().splitlines()) <= 2
    assert not list(tmp_path.iterdir())


def test_init_overwrites_nothing(tmp_path, capsys):
    (tmp_path / "service.key").write_text("mine")
    assert carry_out(app, ["serve", "init", str(tmp_path)]) == 2
    assert "one without a service.key" in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "service.key").read_text() == "mine"


def test_a_receipt_is_checked_offline(tmp_path):
    import numpy as np

    rng, key = np.random.default_rng(0), OperatorKey.make()
    with open_store(str(tmp_path / "s.db"), SETUP, key, watch=False) as store:
        block = rows(rng)
        store.submit(add(*block), "a", "one")
        update = delete(*block)
        store.submit(update, "a", "gone")
        store.snapshot()
        signed = store.statement(store.receipt("a", "gone"))
    (tmp_path / "r.json").write_text(json.dumps({"deletion": signed}))
    (tmp_path / "m.bin").write_bytes(encode_update(update))
    good = run("verify-receipt", tmp_path / "r.json", "--public-key", key.public, "--message", tmp_path / "m.bin")
    assert good.exit_code == 0 and "had left at" in " ".join(good.output.split())
    other = OperatorKey.make().public
    assert carry_out(app, ["serve", "verify-receipt", str(tmp_path / "r.json"), "--public-key", other]) == 2


def test_the_demo_serves_and_stops(tmp_path):
    """As a newcomer starts it: an address is printed, heads come, Ctrl-C ends it with nothing left."""
    command = [sys.executable, "-c", "from exhume.cli.main import main; main()", "serve", "--demo", "--port", "0"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [*command, "--operator-port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    try:
        text = ""
        while "Stop it with" not in text:
            line = process.stdout.readline()
            assert line, text
            text += line
        address, token = re.search(r"(http://\S+)/v1/head\s+token of 'ada' (\S+)", text).groups()
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, trust_env=False) as http:
            with http.stream("GET", "/v1/head/events", timeout=60) as stream:
                serials = []
                for line in stream.iter_lines():
                    if line.startswith("data: "):
                        serials.append(json.loads(line[6:])["serial"])
                        if len(serials) > 2:
                            break
            assert serials == sorted(set(serials))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert not list(tmp_path.iterdir())
    finally:
        watchdog.cancel()
        process.kill()
        process.stdout.close()


def test_the_operator_gets_a_new_token_and_the_old_one_ends(tmp_path):
    home = tmp_path / "service"
    run("init", home, "--d", 8, "--c", 2)
    found = load(home / "service.toml")
    with open_store(found.url, found.setup, OperatorKey.load(home / "service.key"), watch=False) as store:
        first_operator(found, Tokens(store.engine))
    old = (home / "operator.token").read_text().strip()
    done = run("operator-token", tmp_path / "new.token", "--config", home / "service.toml")
    assert done.exit_code == 0, done.output
    new = (tmp_path / "new.token").read_text().strip()
    assert (tmp_path / "new.token").stat().st_mode & 0o077 == 0
    with open_store(found.url, found.setup, OperatorKey.load(home / "service.key"), watch=False) as store:
        tokens = Tokens(store.engine)
        assert tokens.holder(old, "operator") is None and tokens.holder(new, "operator").name == "operator"
    again = run("operator-token", tmp_path / "new.token", "--config", home / "service.toml")
    assert "not taken" in str(again.exception)
