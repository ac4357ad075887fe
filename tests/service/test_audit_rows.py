"""The live audit that shows rows, over HTTP: a hardened service, a bare one, and services that die in between."""

import json

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("httpx", reason="needs the extra serve")

import httpx

from exhume.audit.live_rows import audit_rows
from exhume.audit.row_journal import RowJournal
from exhume.audit.settings import make_settings
from exhume.audit.verdict_rows import conclude_rows, level_of_rows
from exhume.defence import Bounds, hardened_config
from exhume.errors import AttackError, InputError
from exhume.service import Limits, Remote
from exhume.store import ServerSetup
from tests.service.commands import run

pytestmark = pytest.mark.extras

D, C = 8, 4
KEY = "0a" * 32  # the same noise each time: one run in twenty has a p below 0.05 by luck


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.abs(rng.standard_normal((n, D))), rng.integers(0, C, n)


def setup(rows=2000, **options):
    bounds = Bounds(longest=8.0, message_rows=400, client_rows=3000)
    return ServerSetup(D, C, 1e-3, defence=hardened_config(D, bounds=bounds, rows=rows, founding=1, key=KEY, **options))


HARDENED = setup()
WHOLE = setup(show_rows=False)
BARE = ServerSetup(D, C, 1e-3)
GRID = ServerSetup(D, C, 1e-3, 2**-10)


@pytest.fixture
def started(running, tmp_path):
    """Return what starts a service that holds rows of an honest client, with tokens and rows in files."""

    def start(setup, held=2000, **options):
        limits = Limits(rows=400)
        service = running(setup, names=("honest", "attacker", "owner"), limits=limits, **options)
        remote = Remote(service.address, service.tokens["honest"])
        honest = remote.client("honest")
        X, y = rows(held)
        for i in range(0, held, 400):
            assert honest.add(X[i : i + 400], y[i : i + 400]).accepted
        for name, token in service.tokens.items():
            (tmp_path / name).write_text(token)
        features, labels = rows(120, 7)
        np.savez(tmp_path / "own.npz", features=features, labels=labels)
        return service

    return start


def audited(service, folder, *words):
    words = ["--target", service.address, "--token-file", folder / "attacker", "--i-operate-this-server", *words]
    done = run("audit", *words, "--out", folder / "report", "--json", folder / "found.json")
    found = json.loads((folder / "found.json").read_text()) if (folder / "found.json").exists() else None
    return done, found


def held(service):
    return service.store.server.ledger.summary


def same(one, other):
    return np.allclose(one.gram, other.gram, atol=1e-8) and np.allclose(one.moment, other.moment, atol=1e-8)


@pytest.mark.parametrize("setup", [HARDENED, WHOLE], ids=["rows", "whole-messages"])
def test_a_hardened_service_gets_a_measured_verdict_and_its_rows_back(started, tmp_path, setup):
    service = started(setup)
    before = held(service)
    words = ["--owner-token-file", tmp_path / "owner", "--features", tmp_path / "own.npz"]
    done, found = audited(service, tmp_path, *words)
    assert done.exit_code == 0, done.output
    deletions = found["live"]["deletions"]
    assert found["verdict"]["severity"] == "none" and deletions["owner"] and deletions["tries"] == 20
    assert {reader["name"] for reader in deletions["readers"]} >= {"passive", "informed"}
    assert "20 records deleted" in found["verdict"]["text"] and "could have missed" in found["verdict"]["text"]
    assert found["live"]["rows_made_up"] is False
    assert same(before, held(service)) and not list((tmp_path / "report").glob("undo-*"))
    refused = service.service.refusals
    assert not sum(refused.values()), refused


def test_a_hardened_service_with_hardly_any_rows_is_read_and_said_to_be(started, tmp_path):
    """Sixty rows hide nobody: the verdict is that of the heads, not of the rules' names."""
    service = started(setup(rows=60), held=60)
    words = ["--owner-token-file", tmp_path / "owner", "--features", tmp_path / "own.npz", "--trials", "48"]
    done, found = audited(service, tmp_path, *words)
    assert done.exit_code == 0 and found["verdict"]["severity"] in ("label", "feature", "replay"), done.output


def test_without_a_file_rows_are_made_up_within_the_bounds_and_one_token_is_enough(started, tmp_path):
    service = started(HARDENED)
    before = held(service)
    done, found = audited(service, tmp_path)
    assert done.exit_code == 0, done.output
    assert found["live"]["rows_made_up"] and found["live"]["deletions"]["owner"] is False
    assert "made up" in found["verdict"]["text"]
    assert found["live"]["deletions"]["replayed"] is None
    assert same(before, held(service)) and not sum(service.service.refusals.values())


@pytest.mark.parametrize("setup", [BARE, GRID], ids=["bare", "grid"])
def test_on_a_bare_service_the_same_audit_reads_every_record_and_puts_it_back(started, tmp_path, setup):
    service = started(setup)
    before = held(service)
    words = ["--owner-token-file", tmp_path / "owner", "--features", tmp_path / "own.npz", "--probe", "own-data"]
    done, found = audited(service, tmp_path, *words)
    assert done.exit_code == 0, done.output
    assert found["verdict"]["severity"] == "replay"
    deletions = found["live"]["deletions"]
    first = deletions["readers"][0]
    assert first["name"] == "rank-one" and first["labels_right"] == first["features_right"] == deletions["tries"] == 20
    assert first["feature_error"] < 1e-4 and deletions["replayed"] > 0.99 and deletions["replays"] == 3
    assert found["live"]["prediction_error"] < 1e-6
    assert same(before, held(service))


def test_one_deletion_is_no_all_clear(started, tmp_path):
    service = started(HARDENED)
    done, found = audited(service, tmp_path, "--trials", "1")
    assert done.exit_code == 2 and found["verdict"]["severity"] is None
    assert "1 deletions cannot tell" in found["verdict"]["text"]


def test_rows_beyond_the_bounds_are_left_out_or_named(started, tmp_path):
    service = started(HARDENED)
    features, labels = rows(60, 3)
    features[::2] *= 100
    np.savez(tmp_path / "long.npz", features=features, labels=labels)
    _, found = audited(service, tmp_path, "--features", tmp_path / "long.npz")  # too few deletions for every verdict
    assert "left out 24 rows" in " ".join(found["live"]["actions"])
    np.savez(tmp_path / "longer.npz", features=100 * features, labels=labels)
    done, _ = audited(service, tmp_path, "--features", tmp_path / "longer.npz")
    assert isinstance(done.exception, InputError) and done.exception.field == "features"


def test_a_bare_service_and_no_rows_is_an_error(started, tmp_path):
    done, _ = audited(started(BARE), tmp_path, "--probe", "own-data")
    assert isinstance(done.exception, InputError) and done.exception.field == "features"


def settings_of(folder, **values):
    return make_settings({"out": str(folder / "report"), "trials": 20, **values}, live=True)


def pair(service, patience=20.0):
    return [Remote(service.address, service.tokens[name], patience=patience) for name in ("attacker", "owner")]


def test_a_service_that_dies_and_returns_in_between_is_audited_to_the_end(started, running, tmp_path):
    """Every connection after the 40th request breaks once; the answers that were lost count once."""
    service = started(HARDENED)
    before = held(service)
    attacker, owner = pair(service)
    for remote in (attacker, owner):
        send, count = remote._http.request, []

        def losing(method, path, *, send=send, count=count, **how):
            count.append(path)
            answer = send(method, path, **how)
            if len(count) % 7 == 0:
                raise httpx.ReadTimeout("lost on the way back")
            return answer

        remote._http.request = losing
    found = audit_rows(attacker, settings_of(tmp_path), "it", owner)
    assert found.restored and found.deletions.tries == 20 and same(before, held(service))


@pytest.mark.parametrize("dies_at", [5, 31, 70])
def test_what_a_dead_service_keeps_is_taken_back_later_by_the_file(started, running, tmp_path, dies_at):
    service = started(HARDENED)
    before = held(service)
    attacker, owner = pair(service, patience=0.0)
    count = []
    for remote in (attacker, owner):

        def dying(method, path, *, send=remote._http.request, **how):
            count.append(path)
            if len(count) == dies_at and method == "POST":
                send(method, path, **how)  # it arrives, and nobody hears of it
            if len(count) >= dies_at:
                raise httpx.ConnectError("nobody there")
            return send(method, path, **how)

        remote._http.request = dying
    with pytest.raises(AttackError, match="COULD NOT BE TAKEN BACK"):
        audit_rows(attacker, settings_of(tmp_path), "it", owner)
    files = list((tmp_path / "report").glob("undo-*.safetensors"))
    assert len(files) == 1
    service.stop()
    again = running(HARDENED, limits=Limits(rows=400))
    words = ["--target", again.address, "--token-file", tmp_path / "attacker", "--i-operate-this-server"]
    done = run("audit", "--undo", files[0], *words, "--owner-token-file", tmp_path / "owner")
    assert done.exit_code == 0, done.output
    assert same(before, held(again)) and not files[0].exists()


def test_the_file_of_an_audit_that_was_killed_takes_back_what_stood(started, tmp_path):
    """The plan is on the disk before anything is sent: nothing that a kill could interrupt has to be written."""
    service = started(HARDENED)
    before = held(service)
    attacker, owner = pair(service)
    journal = RowJournal({"attacker": attacker, "owner": owner}, tmp_path, "it")
    planned = journal.plan("attacker", [rows(3, 1), rows(2, 2), rows(4, 3)])
    planned += journal.plan("owner", [rows(1, 4)])
    journal.add(planned[0])
    journal.add(planned[3])
    journal.add(planned[1])
    journal.delete(planned[1])
    assert not same(before, held(service))
    with pytest.raises(InputError, match="owner-token-file"):
        RowJournal.resumed({"attacker": attacker}, journal.file)
    left = RowJournal.resumed({"attacker": attacker, "owner": owner}, journal.file)
    assert left.undo() == 2 and same(before, held(service)) and not journal.file.exists()


def test_an_audit_in_a_busy_service_says_so_and_gives_no_all_clear(started, tmp_path):
    service = started(HARDENED)
    attacker, owner = pair(service)
    honest = Remote(service.address, service.tokens["honest"]).client("honest")
    send, n = owner._http.request, []

    def busy(method, path, **how):
        answer = send(method, path, **how)
        if method == "POST":
            n.append(path)
            honest.add(*rows(1, 100 + len(n)))
        return answer

    owner._http.request = busy
    found = audit_rows(attacker, settings_of(tmp_path), "it", owner)
    assert found.deletions.tries == 0
    verdict = conclude_rows(found)
    assert verdict.severity is None and "others sent" in verdict.text


def test_levels_follow_the_counts(started, tmp_path):
    service = started(HARDENED)
    found = audit_rows(*pair(service)[:1], settings_of(tmp_path), "it", pair(service)[1])
    readers = found.deletions.readers
    right = readers[0].model_copy(update={"labels_right": 20, "p": 1e-9})
    label = found.deletions.model_copy(update={"readers": (right, *readers[1:])})
    assert level_of_rows(found.model_copy(update={"deletions": label})) == "label"
    clear = right.model_copy(update={"features_right": 20})
    feature = label.model_copy(update={"readers": (clear, *readers[1:])})
    assert level_of_rows(found.model_copy(update={"deletions": feature})) == "feature"
    replay = feature.model_copy(update={"replays": 3, "replayed": 0.95})
    assert level_of_rows(found.model_copy(update={"deletions": replay})) == "replay"
