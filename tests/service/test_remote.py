"""A service as a client sees it: targets, honest clients, lost answers, and the live audit over HTTP."""

import json

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("httpx", reason="needs the extra serve")

import httpx

import exhume as ex
from exhume.audit.undoing import UndoingTarget
from exhume.errors import AttackError, ConflictError, InputError, RefusedError, UnsettledError
from exhume.protocol.summary import Summary, Update
from exhume.protocol.target import SettlingTarget, Target
from exhume.service import Remote, read_token
from exhume.store import ServerSetup
from tests.service.commands import run

pytestmark = pytest.mark.extras

D, C = 6, 3
BARE = ServerSetup(D, C, 1e-3)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, D)), rng.integers(0, C, n)


@pytest.fixture
def bare(running):
    service = running(BARE)
    remote = Remote(service.address, service.tokens["a"], patience=20)
    remote.client("a").add(*rows(40))
    return service, remote


def test_a_remote_is_a_target(bare):
    service, remote = bare
    assert isinstance(remote, Target) and isinstance(remote, SettlingTarget)
    X, y = rows(40)
    wanted = np.linalg.solve(X.T @ X + 1e-3 * np.eye(D), X.T @ np.eye(C)[y])
    assert np.allclose(remote.head().weights, wanted, rtol=1e-12)
    moved = remote.submit(Update.adding(Summary.of(*rows(5, 1), C)))
    assert moved.serial == remote.head().serial == service.store.published.serial


def test_the_attack_works_over_http(bare):
    _, remote = bare
    state = ex.Attack(remote).identify(ex.probes.designed(D, C, scale=10.0))
    X, _ = rows(40)
    truth = X.T @ X + 1e-3 * np.eye(D)
    assert np.linalg.norm(state.A - truth) < 1e-8 * np.linalg.norm(truth)


def test_one_key_counts_once(bare):
    service, remote = bare
    update = Update.adding(Summary.of(*rows(5, 1), C))
    first = remote.again(update, "k")
    assert remote.again(update, "k").serial == first.serial
    assert remote.applied("k") and not remote.applied("other")
    with pytest.raises(ConflictError):
        remote.again(Update.adding(Summary.of(*rows(4, 2), C)), "k")
    assert service.store.published.counts.messages == 2


def test_a_lost_answer_is_asked_for_again_and_counts_once(bare, monkeypatch):
    service, remote = bare
    send, lost = remote._http.request, []

    def losing(method, path, **how):
        answer = send(method, path, **how)
        if method == "POST" and len(lost) < 2:
            lost.append(answer)
            raise httpx.ReadTimeout("lost on the way back")
        return answer

    monkeypatch.setattr(remote._http, "request", losing)
    before = service.store.published.counts.messages
    remote.submit(Update.adding(Summary.of(*rows(5, 1), C)))
    assert len(lost) == 2 and service.store.published.counts.messages == before + 1


def test_what_stays_unanswered_is_in_doubt_and_settled_by_its_key(bare, monkeypatch, tmp_path):
    service, remote = bare
    careful = UndoingTarget(remote, folder=tmp_path)
    remote._patience, send = 0.0, remote._http.request

    def deaf(method, path, **how):
        answer = send(method, path, **how)
        if method == "POST":
            raise httpx.ReadTimeout("lost on the way back")
        return answer

    monkeypatch.setattr(remote._http, "request", deaf)
    with pytest.raises(UnsettledError) as error:
        careful.submit(Update.adding(Summary.of(*rows(5, 1), C)))
    assert error.value.key is not None and remote.applied(error.value.key)
    monkeypatch.setattr(remote._http, "request", send)
    assert careful.restore() and careful.residual < 1e-12
    assert np.allclose(service.store.server.ledger.summary.gram, rows(40)[0].T @ rows(40)[0], atol=1e-10)


def test_a_message_that_never_arrived_is_settled_too(bare, monkeypatch, tmp_path):
    service, remote = bare
    careful = UndoingTarget(remote, folder=tmp_path)
    remote._patience, send = 0.0, remote._http.request

    def cut(method, path, **how):
        if method == "POST":
            raise httpx.ConnectError("nobody there")
        return send(method, path, **how)

    monkeypatch.setattr(remote._http, "request", cut)
    with pytest.raises(UnsettledError):
        careful.submit(Update.adding(Summary.of(*rows(5, 1), C)))
    with pytest.raises(UnsettledError):
        careful.restore()
    assert careful.file is not None
    monkeypatch.setattr(remote._http, "request", send)
    from exhume.audit.live import undo
    from exhume.audit.outstanding import read

    left = read(careful.file)
    assert left.keys and left.keys[0] is not None
    back, _ = undo(remote, left, tmp_path)
    assert back and service.store.published.counts.messages == 1


def test_refusals_and_wrong_tokens_are_told(bare):
    service, remote = bare
    with pytest.raises(RefusedError):
        remote.submit(Update.deleting(Summary.of(1e6 * rows(3)[0], rows(3)[1], C)))
    with pytest.raises(InputError, match="token"):
        Remote(service.address, "wrong", patience=0).head()
    with pytest.raises(InputError, match="token"):
        Remote(service.address, service.operator_token, patience=0).head()


@pytest.mark.parametrize(
    "address", ["http://192.0.2.1:80", "ftp://127.0.0.1", "127.0.0.1:80", "http://a:b@127.0.0.1", "http://127.0.0.1/x"]
)
def test_bad_addresses_are_refused(address):
    with pytest.raises(InputError, match="target"):
        Remote(address, "t")


def test_a_token_file_has_one_word(tmp_path):
    (tmp_path / "t").write_text("abc\n")
    assert read_token(tmp_path / "t") == "abc"
    for text in ("", "a b", "x" * 600):
        (tmp_path / "t").write_text(text)
        with pytest.raises(InputError):
            read_token(tmp_path / "t")
    with pytest.raises(InputError):
        read_token(tmp_path / "none")


@pytest.fixture
def files(bare, tmp_path):
    service, _ = bare
    for name, token in service.tokens.items():
        (tmp_path / name).write_text(token)
    features, labels = rows(30, 7)
    np.savez(tmp_path / "own.npz", features=features, labels=labels)
    return service, tmp_path


def audited(service, folder, *words):
    return run(
        "audit", "--target", service.address, "--token-file", folder / "a", "--i-operate-this-server", "--scale", "10",
        "--out", folder / "report", "--json", folder / "found.json", *words,
    )  # fmt: skip


def test_the_live_audit_reads_the_totals_over_http_and_takes_everything_back(files):
    service, folder = files
    before = service.store.server.ledger.summary
    done = audited(service, folder)
    assert done.exit_code == 0, done.output
    found = json.loads((folder / "found.json").read_text())
    assert found["verdict"]["severity"] == "aggregate" and found["live"]["restored"]
    after = service.store.server.ledger.summary
    assert np.allclose(after.gram, before.gram, atol=1e-9) and np.allclose(after.moment, before.moment, atol=1e-9)


def test_with_two_tokens_a_whole_deletion_is_played(files):
    service, folder = files
    before = service.store.server.ledger.summary
    done = audited(service, folder, "--owner-token-file", folder / "b", "--features", folder / "own.npz")
    assert done.exit_code == 0, done.output
    found = json.loads((folder / "found.json").read_text())
    deletion = found["live"]["deletion"]
    assert found["verdict"]["severity"] == "replay"
    assert deletion["label_right"] and deletion["feature_error"] < 1e-6 and deletion["replayed"] > 0.999
    after = service.store.server.ledger.summary
    assert np.allclose(after.gram, before.gram, atol=1e-9) and np.allclose(after.moment, before.moment, atol=1e-9)


@pytest.mark.parametrize(
    "words",
    [
        ["--target", "http://127.0.0.1:1", "--i-operate-this-server"],
        ["--token-file", "t"],
        ["--target", "m:f", "--owner-token-file", "t", "--i-operate-this-server"],
    ],
)
def test_options_that_do_not_go_together(words):
    done = run("audit", *words)  # the edge makes exit code 2 of it (tests/cli)
    assert isinstance(done.exception, InputError) and done.exception.field in ("token-file", "owner-token-file")


def test_an_owner_needs_a_record(files):
    service, folder = files
    done = audited(service, folder, "--owner-token-file", folder / "b")
    assert isinstance(done.exception, InputError) and done.exception.field == "owner-token-file"


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"key": "other", "accepted": true}'])
def test_an_answer_that_is_no_receipt_of_this_message_is_an_error_of_ours(bare, monkeypatch, body):
    _, remote = bare
    update = Update.adding(Summary.of(*rows(5, 1), C))
    monkeypatch.setattr(remote._http, "request", lambda *_, **__: httpx.Response(200, content=body))
    with pytest.raises(RefusedError):
        remote.receipt_of(update, "k")


def test_the_file_of_a_killed_audit_names_the_probe_that_was_under_way(bare, tmp_path, monkeypatch):
    """A kill leaves no time to write: sums and keys are on the disk before a message goes."""
    from exhume.audit.live import undo
    from exhume.audit.outstanding import read

    service, remote = bare
    before = service.store.server.ledger.summary
    careful = UndoingTarget(remote, folder=tmp_path)
    careful.submit(Update.adding(Summary.of(*rows(5, 1), C)))
    send = remote._http.request

    def killed(method, path, **how):
        answer = send(method, path, **how)
        if method == "POST":
            raise SystemExit("the process ends here, and nothing of it runs any more")
        return answer

    monkeypatch.setattr(remote._http, "request", killed)
    with pytest.raises(SystemExit):
        careful.submit(Update.adding(Summary.of(*rows(4, 2), C)))
    monkeypatch.setattr(remote._http, "request", send)
    back, _ = undo(Remote(service.address, service.tokens["a"]), read(careful.file), tmp_path)
    after = service.store.server.ledger.summary
    assert back and np.allclose(after.gram, before.gram, atol=1e-9)


def test_the_owners_record_is_taken_back_by_its_file_when_the_service_was_gone(files, monkeypatch):
    service, folder = files
    before = service.store.server.ledger.summary
    from exhume.audit.live_deletion import Owner
    from exhume.audit.row_journal import RowJournal

    remote = Remote(service.address, service.tokens["b"], patience=0.0)
    features, labels = rows(1, 3)
    owner = Owner(RowJournal({"owner": remote}, folder / "report", "it"), features[0], int(labels[0]))
    owner.add()
    send = remote._http.request
    monkeypatch.setattr(remote._http, "request", lambda *_, **__: (_ for _ in ()).throw(httpx.ConnectError("gone")))
    with pytest.raises(AttackError, match="--undo"):
        owner.delete()
    monkeypatch.setattr(remote._http, "request", send)
    words = ["--target", service.address, "--token-file", folder / "a", "--i-operate-this-server"]
    refused = run("audit", "--undo", owner.journal.file, *words)
    assert isinstance(refused.exception, InputError) and refused.exception.field == "owner-token-file"
    done = run("audit", "--undo", owner.journal.file, *words, "--owner-token-file", folder / "b")
    assert done.exit_code == 0, done.output
    after = service.store.server.ledger.summary
    assert np.allclose(after.gram, before.gram, atol=1e-9)
