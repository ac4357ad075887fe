"""The API for the operator, over a real socket."""

import json

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra 'serve'")
pytest.importorskip("sqlalchemy", reason="the service needs the extra 'serve'")

from exhume.store import ServerSetup
from tests.service.test_app import post, problem
from tests.store.world import DEFENCES, C, D, add, delete, rows

pytestmark = pytest.mark.extras


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_enrol_rotate_revoke(running, rng):
    up = running()
    given = up.op.post("/v1/clients", json={"name": "new"})
    assert given.status_code == 201
    token = given.json()["token"]
    assert post(up.client(token), add(*rows(rng)), "one").json()["accepted"]
    assert problem(up.op.post("/v1/clients", json={"name": "new"}), 409)["field"] == "name"
    for bad in ("", "a b", "x" * 129, "../x", "é"):
        assert problem(up.op.post("/v1/clients", json={"name": bad}), 422)
    newer = up.op.post("/v1/clients/new/rotate").json()["token"]
    assert problem(up.client(token).get("/v1/head"), 401)
    assert up.client(newer).get("/v1/updates/one").json()["accepted"]  # it is the same client
    assert up.op.delete("/v1/clients/new").status_code == 204
    assert problem(up.client(newer).get("/v1/head"), 401)
    assert problem(up.op.delete("/v1/clients/new"), 404)
    assert problem(up.op.post("/v1/clients/nobody/rotate"), 404)
    assert [row["name"] for row in up.op.get("/v1/clients").json() if row["revoked_at"] is None] == ["a", "b"]
    up.stop()
    again = running()
    assert problem(again.client(newer).get("/v1/head"), 401)  # revoked for good
    assert again.client(up.tokens["a"]).get("/v1/info").status_code == 200


def test_tokens_are_kept_as_digests_only(running, tmp_path):
    up = running()
    up.stop()
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for token in (*up.tokens.values(), up.operator_token):
        assert token[-43:].encode() not in raw


def test_reports(running, rng):
    up = running(ServerSetup(D, C, 1e-3, defence=DEFENCES["everything"]))
    block = rows(rng, 1)
    post(up.a, add(*block), "one")
    post(up.b, add(*rows(rng)), "one")
    post(up.a, delete(*block), "two")
    post(up.b, delete(*rows(rng)), "two")
    status = up.op.get("/v1/status").json()
    assert (status["submissions"], status["refused"], status["deletions_on_disk"]) == (3, 1, 1)
    assert status["ready"] and status["head_age"] >= 0
    assert {"replay", "duplicates"} <= set(status["interfering"])
    assert all(row["about"] for row in status["rules"])
    assert up.op.get("/v1/refusals").json() == {"ownership": 1}
    (deletion,) = up.op.get("/v1/deletions").json()
    assert deletion["client"] == "a" and deletion["figures"]["mu_total"] > 0
    exposures = up.op.get("/v1/exposure").json()
    assert exposures["kept"] and [row["client"] for row in exposures["clients"]] == ["a", "b"]
    assert all(row["meaning"] for row in exposures["clients"])
    decisions = up.op.get("/v1/decisions?limit=2").json()
    assert [row["seq"] for row in decisions] == [4, 3]
    assert "ownership" in decisions[0]["reason"]
    assert [row["seq"] for row in up.op.get("/v1/decisions?before=3").json()] == [2, 1]
    assert problem(up.op.get("/v1/decisions?limit=0"), 422)["field"] == "limit"
    metrics = up.op.get("/metrics").text
    assert "exhume_accepted_total 3.0" in metrics and 'exhume_refused_total{rule="ownership"} 1.0' in metrics
    up.store.snapshot()
    assert up.op.get("/v1/deletions").json()[0]["erased_at"] is not None


def test_without_an_accountant_it_says_so(running):
    found = running().op.get("/v1/exposure").json()
    assert found["kept"] is False and "no accountant" in found["words"]
    assert [(one["kind"], one["events"]) for one in found["accounts"]] == [("additions", 0), ("deletions", 0)]


def test_the_newest_accounts_are_shown_and_all_are_counted(running, rng, monkeypatch):
    from exhume.defence.release import _accounts

    monkeypatch.setattr(_accounts, "KEPT", 2)
    up = running()
    post(up.b, add(*rows(rng)), "founder")  # it is in the measure, and in no account
    for i in range(3):
        block = rows(rng, 1 + i)
        post(up.a, add(*block), f"in-{i}")
        post(up.a, delete(*block), f"out-{i}")
    found = up.op.get("/v1/deletions").json()
    assert [one["figures"] is None for one in found] == [False, False, True]  # the latest first
    assert [one["bounds"] for one in found] == ["record", "record", None]
    assert found[0]["figures"]["mu_total"] > 0 and found[0]["figures"]["mu_block"] > 0
    exposure = up.op.get("/v1/exposure").json()
    assert "3 additions, 3 deletions so far" in exposure["words"]
    (_, deletions) = exposure["accounts"]
    assert deletions["events"] == 3 and deletions["mu"] >= found[0]["figures"]["mu_total"]


def test_events_bring_decisions(running, rng):
    up = running()
    with up.op.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        found = []
        while True:
            line = next(lines)
            if line.startswith("event: "):
                found.append((line[7:], json.loads(next(lines)[6:])))
                if len(found) == 1:
                    post(up.a, add(*rows(rng)), "one")
                if found[-1][0] == "decision":
                    break
    assert found[0][0] == "status" and found[0][1]["serial"] == 0
    assert (found[-1][1]["client"], found[-1][1]["accepted"]) == ("a", True)


def test_the_last_operator_cannot_be_revoked(running):
    from exhume.errors import InputError

    up = running()
    with pytest.raises(InputError, match="last operator"):
        up.service.tokens.revoke("op", "operator")
