"""Many features: what an audit says before it starts, what it leaves out, and what it refuses."""

import re

import numpy as np
import pytest

from exhume import capacity
from exhume.audit import forecast as module
from exhume.audit.forecast import forecast, said
from exhume.audit.plan import prepare
from exhume.audit.settings import make_settings
from exhume.audit.work import record_of
from exhume.data.on_demand import EncodedRows
from exhume.errors import InputError
from exhume.numerics import relative
from exhume.protocol import Summary


def settings(tmp_path, **more):
    return make_settings({"out": tmp_path / "out", "home": tmp_path, "dim": 64, "jobs": 1, "trials": 2} | more)


def test_many_features_have_frugal_defaults_that_options_override():
    found = make_settings({"dim": 10_000})
    assert found.probe == ("ballast",) and found.recovery == ("rank-one",) and found.kind == ("record",)
    assert (found.trials, found.jobs, found.lean) == (20, 1, True)
    assert make_settings({"dim": 10_000, "trials": 5, "recovery": "difference"}).lean is False
    usual = make_settings({"dim": 4095})
    assert usual.probe == ("designed", "own-data") and usual.trials == 100 and not usual.lean
    assert make_settings({"dim": 10_000, "defence": "hardened"}).lean is False


def test_the_forecast_grows_with_the_work_and_is_said_from_a_size_on(tmp_path, monkeypatch):
    monkeypatch.setattr(module._Rates, "measured", classmethod(lambda cls, classes: cls(1e10, classes * 1e-9)))
    small = prepare(settings(tmp_path, probe="designed", recovery="rank-one", kind="record"))
    assert said(small) is None
    one, more = forecast(small), forecast(prepare(settings(tmp_path, probe="designed", kind="record")))
    assert more.seconds > one.seconds > 0 and one.memory >= 8 * 64 * 64
    d, m, facings, trials = 64, 7, 2, 2
    update, answer = d**3 / 3 / 1e10, d * d * 10 * 1e-9
    summed = 1438 * d * d / 1e10 + facings * update
    assert one.seconds == pytest.approx(summed + facings * (m * answer + 30 * d**3 / 1e10 + trials * 8 * update))
    laden = forecast(prepare(settings(tmp_path, probe="ballast", recovery="rank-one", kind="record")))
    assert laden.seconds == pytest.approx(one.seconds + facings * update)
    monkeypatch.setattr(module, "SAID_FROM", 64)
    assert re.fullmatch(r"64 features\. This will need about \d+\.\d GB of memory and \d+ s\.", said(small))


def test_a_lean_audit_gives_the_same_labels_with_less(tmp_path, monkeypatch):
    options = {"probe": "designed", "recovery": "rank-one", "kind": "record", "trials": 4, "precision": "float32"}
    full = prepare(settings(tmp_path, **options))
    records = [record_of(full, unit) for unit in full.units()]
    for place in ("plan", "forecast"):
        monkeypatch.setattr(f"exhume.audit.{place}.LEAN_FROM", 64)
    lean = prepare(settings(tmp_path, **options))
    assert lean.lean and not np.shares_memory(lean.scenario.features, full.scenario.features)
    again = [record_of(lean, unit) for unit in lean.units()]
    assert again[0].identified and again[0].exposure == () and again[0].curve == () and records[0].curve
    assert "left out" in str(forecast(lean))
    for one, other in zip(records[1:], again[1:], strict=True):
        assert other.error is None and other.identified
        assert one.recoveries[0].label == one.label and other.recoveries[0].label == other.label
        assert other.recoveries[0].relerr_feature <= 1e-3


def test_a_lean_audit_holds_pictures_and_not_their_features(tmp_path, monkeypatch):
    eager = prepare(settings(tmp_path))
    for place in ("plan", "forecast"):
        monkeypatch.setattr(f"exhume.audit.{place}.LEAN_FROM", 64)
    monkeypatch.setattr("exhume.audit.plan.LEAN_SHOWN", 100)
    monkeypatch.setattr(
        "exhume.audit.plan.usable_clients", lambda *_: pytest.fail("the gate is slower than the attack")
    )
    plan = prepare(settings(tmp_path, probe="designed", recovery="rank-one", kind="record"))
    s = plan.scenario
    assert isinstance(s.features, EncodedRows) and s.features.nbytes == 1438 * 64
    assert plan.usable is None and len(s.parts[s.attacker]) == max(map(len, s.parts))
    assert len(s.own[1]) == len(s.test_labels) == 100 and s.own[0] is s.own[0]
    everybody = prepare(settings(tmp_path, probe="own-data", recovery="rank-one", kind="record"))
    assert len(everybody.scenario.own[1]) == len(s.parts[s.attacker])
    whole = Summary.of(eager.scenario.features, eager.scenario.labels, 10)
    monkeypatch.setattr("exhume.simulate.scenario.BLOCKWISE_FROM", 64)
    monkeypatch.setattr("exhume.simulate.scenario.BLOCK", 300)
    # Features are float32, 256 terms each: sums of encodings in other company differ by their rounding.
    assert relative(s.total.gram - whole.gram, whole.gram) < 256 * 2.0**-24
    assert relative(s.total.moment - whole.moment, whole.moment) < 256 * 2.0**-24
    assert np.array_equal(s.total.gram, s.total.gram.T)


def test_too_many_features_are_refused_with_what_would_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(capacity, "free_memory", lambda: 7 * 8 * 5000**2)
    with pytest.raises(InputError, match=r"dim must be small enough for memory .* 5\.6 GB.* at most --dim 5000\); got"):
        prepare(settings(tmp_path, dim=10_000, recovery="rank-one", probe="designed"))
    with pytest.raises(InputError, match="at most --dim 3307 or fewer --jobs"):
        prepare(settings(tmp_path, dim=4000, jobs=2))
