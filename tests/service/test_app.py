"""The API for clients, over a real socket."""

import json
import socket
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra 'serve'")
pytest.importorskip("sqlalchemy", reason="the service needs the extra 'serve'")

from exhume.protocol.message import itemise
from exhume.protocol.wire import decode_head, encode_update
from exhume.service import Gathering, Limits
from exhume.store import ServerSetup, check_statement
from tests.store.world import DEFENCES, C, D, add, delete, rows

pytestmark = pytest.mark.extras


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def post(http, update, key, **headers):
    content = update if isinstance(update, bytes) else encode_update(update)
    return http.post("/v1/updates", content=content, headers={"Idempotency-Key": key, **headers})


def problem(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == status and found["title"]
    return found


def test_a_message_is_answered_and_brings_a_head(running, rng):
    up = running()
    assert problem(up.a.get("/v1/head"), 404)
    answer = post(up.a, add(*rows(rng)), "one")
    assert answer.status_code == 200
    assert answer.json() | {"at": 0} == {
        "key": "one", "accepted": True, "code": None, "number": 1, "serial": 1, "at": 0, "deletion": None,
    }  # fmt: skip
    head = up.b.get("/v1/head")
    assert head.headers["etag"] == '"1"'
    assert decode_head(head.content, d=D, c=C) == up.store.head()
    assert up.b.get("/v1/head", headers={"If-None-Match": '"1"'}).status_code == 304
    assert up.b.get("/v1/head", headers={"If-None-Match": '"0"'}).status_code == 200


def test_a_retry_is_no_replay(running, rng):
    up = running()
    update = add(*rows(rng))
    first = post(up.a, update, "one").json()
    assert post(up.a, update, "one").json() == first
    assert up.a.get("/v1/updates/one").json() == first
    found = problem(post(up.a, add(*rows(rng)), "one"), 409)
    assert (found["field"], found["got"]) == ("Idempotency-Key", "one")
    assert up.store.published.counts.messages == 1
    assert problem(up.b.get("/v1/updates/one"), 404)  # a client acts as itself only
    up.stop()
    again = running()
    http = again.client(up.tokens["a"])
    assert post(http, update, "one").json() == first
    assert http.get("/v1/updates/one").json() == first


def test_a_deletion_has_a_statement_that_says_when_it_left(running, rng):
    up = running()
    block = rows(rng)
    post(up.a, add(*block), "one")
    signed = post(up.a, delete(*block), "gone").json()["deletion"]
    public = up.a.get("/v1/info").json()["public_key"]
    assert check_statement(signed, public).erased_at is None
    up.store.snapshot()
    later = up.a.get("/v1/updates/gone").json()["deletion"]
    assert check_statement(later, public).erased_at is not None


def test_a_client_is_told_the_rule_only_where_it_depends_on_that_client(running, rng):
    up = running(ServerSetup(D, C, 1e-3, defence=DEFENCES["everything"]))
    refused = post(up.a, delete(*rows(rng)), "one").json()
    assert (refused["accepted"], refused["code"], refused["serial"]) == (False, "ownership", None)
    block = rows(rng, 1)
    assert post(up.b, add(*block), "one").json()["accepted"]
    assert post(up.b, add(*rows(rng)), "two").json()["accepted"]
    assert post(up.b, delete(*block), "three").json()["accepted"]
    replayed = post(up.a, add(*block), "two").json()
    assert (replayed["accepted"], replayed["code"]) == (False, "refused")  # which rule would tell of b's deletion
    reasons = {row["key"]: (row["rule"], row["reason"]) for row in up.op.get("/v1/decisions").json() if row["rule"]}
    assert reasons["two"][0] in ("replay", "duplicates") and "another client" in reasons["two"][1]


def test_what_cannot_be_read_is_a_problem_with_field_allowed_and_got(running, rng):
    up = running()
    found = problem(post(up.a, b"nonsense", "k"), 400)
    assert found["field"] == "message"
    other = itemise(C, add=(rng.standard_normal((2, D + 1)), np.array([0, 1])))
    found = problem(post(up.a, other, "k"), 400)
    assert (found["field"], found["allowed"], found["got"]) == ("d", "12", "13")
    found = problem(up.a.post("/v1/updates", content=b""), 400)
    assert found["field"] == "key" and "got" in found
    assert problem(post(up.a, add(*rows(rng)), "k", **{"Content-Type": "text/html"}), 415)["got"] == "text/html"
    assert problem(up.a.get("/v1/nothing"), 404)
    assert problem(up.a.put("/v1/updates"), 405)
    assert up.store.published.counts.messages == 0


def test_tokens_are_of_two_kinds_and_needed(running, rng):
    up = running()
    stranger, update = up.client(None), add(*rows(rng))
    for http, status in ((stranger, 401), (up.client("exhume_c_0000000000000000_" + "x" * 43), 401)):
        assert problem(http.get("/v1/head"), status)
        assert problem(http.get("/v1/info"), status)
        assert problem(post(http, update, "k"), status)
    operator = up.client(up.operator_token)
    assert problem(post(operator, update, "k"), 403)
    assert (
        up.a.get("/metrics").status_code == operator.get("/metrics").status_code == 404
    )  # the operator's address has it
    assert problem(up.client(up.tokens["a"], up.operator_address).get("/metrics"), 403)
    assert up.op.get("/metrics").status_code == 200
    client_at_operator = up.client(up.tokens["a"], up.operator_address)
    assert problem(client_at_operator.get("/v1/clients"), 403)
    assert stranger.get("/healthz").text == "ok\n"
    assert stranger.get("/readyz").text == "ready\n"


def test_info_says_what_a_client_must_know(running):
    up = running()
    info = up.a.get("/v1/info").json()
    assert (info["d"], info["c"], info["gamma"], info["grid"]) == (D, C, 1e-3, None)
    assert info["asks"] == ["rows"]
    assert info["most_bytes"] == up.service.most_bytes


def test_a_body_is_refused_before_it_is_in_memory(running, rng):
    up = running()
    most = up.service.most_bytes
    assert problem(post(up.a, bytes(most + 1), "k"), 413)["allowed"] == f"at most {most} bytes"
    # A length that is declared is believed at once: nothing of the body has been sent here.
    host, port = up.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(
            f"POST /v1/updates HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {up.tokens['a']}\r\n"
            f"Idempotency-Key: k\r\nContent-Length: {10**15}\r\n\r\n".encode()
        )
        assert b" 413 " in raw.recv(4096)

    def endless():
        for _ in range(most // 1000 + 10):
            yield bytes(1000)

    answer = up.a.post("/v1/updates", content=endless(), headers={"Idempotency-Key": "k"})
    assert problem(answer, 413)
    # The largest message that clients can make fits.
    large = itemise(C, add=rows(rng, 50), delete=rows(rng, 50))
    assert len(encode_update(large)) <= most


def test_slow_senders_are_not_waited_for(running):
    up = running(limits=Limits(rows=50, body_seconds=0.3, header_seconds=0.5))
    host, port = up.address.removeprefix("http://").split(":")
    request = (
        f"POST /v1/updates HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {up.tokens['a']}\r\nIdempotency-Key: k\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(f"{request}Content-Length: 1000\r\n\r\nabc".encode())
        assert b" 408 " in raw.recv(4096)
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(request.encode())  # a head that never ends
        assert _closed(raw)
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        assert _closed(raw)  # nothing at all
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        try:
            for i in range(100):
                raw.sendall(b"GET / HTTP/1.1\r\n" if i == 0 else b"X-Long: " + b"x" * 2000 + b"\r\n")
        except OSError:
            return
        assert _closed(raw)


def test_trailers_of_a_chunked_body_are_bounded(running):
    up = running(limits=Limits(rows=50, body_seconds=20))
    host, port = up.address.removeprefix("http://").split(":")
    sent = 0
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(
            f"POST /v1/updates HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {up.tokens['a']}\r\n"
            "Idempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n".encode()
        )
        with suppress(OSError):
            for _ in range(4000):  # 32 MB, where 64 KiB are allowed and socket buffers hold a few MB
                raw.sendall(b"X-a: " + b"b" * 8000 + b"\r\n")
                sent += 8000
    assert sent < 20e6


def test_a_body_in_chunks_of_one_byte_is_taken(running, rng):
    up = running()
    body = encode_update(add(*rows(rng, 1)))
    answer = up.a.post(
        "/v1/updates", content=(body[i : i + 1] for i in range(len(body))), headers={"Idempotency-Key": "k"}
    )
    assert answer.status_code == 200


def _closed(raw):
    try:
        return raw.recv(4096) == b""
    except ConnectionResetError:
        return True


def test_who_sends_too_much_is_told_when_to_come_back(running, rng):
    up = running(limits=Limits(rows=50, per_minute=6, burst=2))
    for i in range(2):
        assert post(up.a, add(*rows(rng)), f"k{i}").status_code == 200
    answer = post(up.a, add(*rows(rng)), "k2")
    assert problem(answer, 429)
    assert 1 <= int(answer.headers["retry-after"]) <= 10
    assert post(up.b, add(*rows(rng)), "k").status_code == 200  # nobody else is held up


def test_a_full_queue_is_said_and_readers_do_not_wait(running, rng):
    up = running(limits=Limits(rows=50, queue=1))
    post(up.a, add(*rows(rng)), "first")
    with up.store.paused():  # the writer is held
        results = []
        thread = threading.Thread(target=lambda: results.append(post(up.a, add(*rows(rng)), "waits")))
        thread.start()
        end = time.monotonic() + 10
        while up.service.writer.waiting < 1 and time.monotonic() < end:
            time.sleep(0.01)
        answer = post(up.b, add(*rows(rng)), "k")
        assert problem(answer, 429) and answer.headers["retry-after"] == "1"
        assert up.b.get("/v1/head").status_code == 200
    thread.join(10)
    assert results[0].json()["accepted"]


def test_a_gathered_round_is_one_submission(running, rng):
    up = running(gathering=Gathering(seconds=30, clients=2))
    updates = {name: add(*rows(rng)) for name in "ab"}
    answers = {}

    def send(name):
        answers[name] = post(getattr(up, name), updates[name], "k").json()

    threads = [threading.Thread(target=send, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert {(one["number"], one["serial"]) for one in answers.values()} == {(1, 1)}
    assert up.store.published.counts.submissions == 1


def test_a_line_for_every_broadcast(running, rng):
    up = running()
    post(up.a, add(*rows(rng)), "one")
    with up.b.stream("GET", "/v1/head/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        found = []
        while len(found) < 3:
            line = next(lines)
            if line.startswith("data: "):
                found.append(json.loads(line[6:])["serial"])
                if len(found) < 3:
                    post(up.a, add(*rows(rng)), f"more-{len(found)}")
    assert found == [1, 2, 3]


def test_too_many_listeners_are_told(running):
    up = running(limits=Limits(rows=50, listeners=1))
    with up.a.stream("GET", "/v1/head/events") as stream:
        lines = stream.iter_lines()  # kept: a generator that goes away closes the connection
        assert next(lines)
        assert problem(up.b.get("/v1/head/events"), 429)


def test_a_store_that_cannot_be_written_is_503_and_nothing_is_lost(running, rng, monkeypatch):
    up = running()
    update = add(*rows(rng))
    post(up.a, update, "one")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("exhume.store.journal.write", full)
    monkeypatch.setattr("exhume.store.durable._put", full)
    answer = post(up.a, add(*rows(rng)), "two")
    found = problem(answer, 503)
    assert answer.headers["retry-after"] == "5" and "space" not in json.dumps(found)
    assert up.a.get("/readyz").status_code == 503
    assert "No space left" in up.op.get("/v1/status").json()["trouble"]
    time.sleep(1.2)  # it is tried again meanwhile
    assert up.a.get("/readyz").status_code == 503
    monkeypatch.setattr("exhume.store.schema.CLIENTS.insert", full)
    assert problem(up.op.post("/v1/clients", json={"name": "c"}), 503)
    monkeypatch.undo()
    until = time.monotonic() + 10
    while up.a.get("/readyz").status_code != 200:  # nobody has to send something for it to be ready again
        assert time.monotonic() < until
        time.sleep(0.05)
    assert post(up.a, add(*rows(rng)), "two").json()["number"] == 2
    assert up.a.get("/readyz").status_code == 200


def test_stopping_answers_who_waits(running, rng):
    up = running(gathering=Gathering(seconds=600, clients=5))
    answers = []
    thread = threading.Thread(target=lambda: answers.append(post(up.a, add(*rows(rng)), "k")))
    thread.start()
    end = time.monotonic() + 10
    while up.service.writer.waiting < 1 and time.monotonic() < end:
        time.sleep(0.01)
    up.stop()
    thread.join(10)
    assert answers[0].json()["accepted"]


def test_tls_by_certificate_files(running, tmp_path):
    import datetime
    import ipaddress
    import ssl

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    from exhume.service import Address

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    certificate = made.add_extension(here, critical=False).sign(key, hashes.SHA256())
    (tmp_path / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(key.private_bytes(*form))
    address = Address(port=0, certificate=str(tmp_path / "cert.pem"), private_key=str(tmp_path / "key.pem"))
    up = running(listen=address)
    assert up.address.startswith("https://")
    trusted = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    assert up.client(up.tokens["a"], verify=trusted).get("/v1/info").status_code == 200


def test_a_revoked_token_ends_what_it_had_open(running, rng):
    up = running()
    update = add(*rows(rng))
    assert post(up.b, update, "first").json()["accepted"]
    host, port = up.address.removeprefix("http://").split(":")
    body = encode_update(add(*rows(rng)))
    link = HTTPConnection(host, int(port), timeout=20)
    link.putrequest("POST", "/v1/updates")
    for name, value in {
        "Authorization": f"Bearer {up.tokens['a']}", "Idempotency-Key": "late", "Content-Length": str(len(body)),
    }.items():  # fmt: skip
        link.putheader(name, value)
    link.endheaders(body[:50])
    with up.a.stream("GET", "/v1/head/events") as events:
        lines = events.iter_lines()
        assert next(lines).startswith("id:")
        assert up.op.delete("/v1/clients/a").status_code == 204
        assert post(up.b, add(*rows(rng)), "second").json()["accepted"]
        assert not [line for line in lines if line.startswith("id:")]  # it ends, and tells nothing more
    before = up.store.published.counts.messages
    link.send(body[50:])
    assert link.getresponse().status == 401 and up.store.published.counts.messages == before
    link.close()


def test_who_shows_no_token_does_not_keep_a_connection(running):
    up = running()
    for path in ("/healthz", "/readyz", "/v1/head"):
        assert up.client(None).get(path).headers["connection"] == "close"
    assert "connection" not in up.a.get("/v1/info").headers


def test_one_client_cannot_take_every_stream(running):
    up = running(limits=Limits(rows=50, listeners=10, listeners_each=1))
    with up.a.stream("GET", "/v1/head/events") as stream:
        lines = stream.iter_lines()
        assert next(lines)
        assert problem(up.a.get("/v1/head/events"), 429)
        with up.b.stream("GET", "/v1/head/events") as other:
            assert next(other.iter_lines())


@pytest.mark.parametrize("key", ["%00", "%20", "a%0Ab", "x" * 200 + "y"])
def test_a_key_that_no_message_can_have_has_no_receipt(running, key):
    assert running().a.get(f"/v1/updates/{key}").status_code in (404, 422)


def test_with_a_pace_answers_take_whole_multiples_of_it_and_others_do_not_wait(running, rng):
    up = running(limits=Limits(rows=50, pace=1.0))
    took = {}

    def ask(name, http, update):
        began = time.monotonic()
        assert post(http, update, name).status_code in (200, 400)
        took[name] = time.monotonic() - began

    mine = rows(rng)
    sent = [("comes", up.a, add(*mine)), ("refused", up.b, delete(*mine)), ("unreadable", up.b, b"no update")]
    threads = [threading.Thread(target=ask, args=one) for one in sent]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began < 3.0  # side by side: nobody waits for another's tick
    assert all(seconds >= 1.0 for seconds in took.values())
