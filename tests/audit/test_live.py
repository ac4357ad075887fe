import os
import signal

import numpy as np
import pytest

from exhume import Head, Summary, Update
from exhume.attack.probes import moment_update
from exhume.audit.live import audit_live, undo
from exhume.audit.outstanding import read
from exhume.audit.settings import make_settings
from exhume.audit.target import load_target
from exhume.audit.undoing import UndoingTarget
from exhume.audit.verdict import conclude_live
from exhume.errors import AttackError, InputError, RefusedError
from tests.audit.servers import (
    Adapter,
    Flaky,
    Gone,
    RanPAC32,
    interrupted,
    lost_after,
    lost_before,
    refused,
    relu_digits,
    retried_blindly,
)
from tests.audit.servers import small_server as server

D, C = 12, 3
RESPONSES = 4


@pytest.fixture(autouse=True)
def _somewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(__name__ + ".OUT", tmp_path / "out")


OUT = None


def settings(**more):
    return make_settings({"probe": "designed", "seed": 0, "out": OUT, **more})


def in_dry_run():
    """Return how many messages a dry run sends: all but the probes, their cancellation, and an unseen one and back."""
    return audit_live(server().as_target("auditor"), settings()).messages - RESPONSES - 3


def test_a_live_server_is_read_and_left_as_it_was():
    own = server()
    before = own.ledger.summary
    live = audit_live(own.as_target("auditor"), settings())
    assert live.identified
    assert live.restored
    assert live.prediction_error < 1e-6
    assert live.residual < 1e-9
    np.testing.assert_allclose(own.ledger.summary.moment, before.moment, atol=1e-8)
    assert np.array_equal(own.ledger.summary.gram, before.gram)
    verdict = conclude_live(live)
    assert verdict.severity == "aggregate"
    assert len(verdict.text.splitlines()) <= 10


@pytest.mark.parametrize("how", [lost_before, lost_after, refused, interrupted])
@pytest.mark.parametrize("at", [1, 3, 5])  # the first probe, the third, the cancellation
def test_probes_are_taken_back_whatever_happens(how, at):
    own = server()
    before = own.ledger.summary
    live = audit_live(Flaky(own.as_target("auditor"), in_dry_run() + at, how), settings())
    assert live.restored
    assert live.residual < 1e-9
    np.testing.assert_allclose(own.ledger.summary.moment, before.moment, atol=1e-7)
    assert np.array_equal(own.ledger.summary.gram, before.gram)
    assert live.interrupted == (how is interrupted)
    assert live.failed == (how in (lost_before, lost_after))
    assert live.reason
    verdict = conclude_live(live)
    assert verdict.severity is None
    assert verdict.text.startswith("No verdict") and "Verdict: NONE" not in verdict.text


def test_it_does_not_start_where_an_undo_does_not_work():
    class OneWay:
        def __init__(self):
            self.inner = server().as_target("auditor")
            self.sent = 0

        def head(self):
            return self.inner.head()

        def submit(self, update):
            self.sent += 1
            if update.net.moment.sum() < 0:
                return self.head()
            return self.inner.submit(update)

    target = OneWay()
    with pytest.raises(AttackError, match="not started: after a one-message dry run"):
        audit_live(target, settings())
    assert target.sent == 2


def test_it_does_not_start_where_the_head_never_answers():
    class Silent:
        def head(self):
            return Head(np.ones((D, C)))

        def submit(self, update):
            return self.head()

    with pytest.raises(AttackError, match="did not answer"):
        audit_live(Silent(), settings())


@pytest.mark.parametrize("probe", ["ballast", "designed,ballast", "own-data,ballast"])
def test_a_probe_with_a_ballast_is_refused_wherever_it_stands(probe):
    own = server()
    serial = own.head().serial
    with pytest.raises(InputError, match=r"probe must be ones that leave nothing standing.*ballast"):
        audit_live(own.as_target("auditor"), settings(probe=probe))
    assert own.head().serial == serial
    with pytest.raises(InputError, match=r"probe must be ones that leave nothing standing.*ballast"):
        make_settings({"probe": probe}, live=True)


def test_many_features_of_a_live_target_choose_no_probe_that_it_refuses():
    assert make_settings({"dim": 10000}).probe == ("ballast",)
    assert make_settings({"dim": 10000}, live=True).probe == ("designed", "own-data")


def test_it_does_not_start_where_updates_are_refused():
    with pytest.raises(AttackError, match=r"not started.*too large.*as it was"):
        audit_live(Flaky(server().as_target("auditor"), 1, refused), settings())


@pytest.mark.parametrize("at", [1, 2])  # the dry run's update, and its undo
def test_an_interrupt_in_the_dry_run_is_taken_back_too(at):
    own = server()
    before = own.head().weights
    with pytest.raises(KeyboardInterrupt):
        audit_live(Flaky(own.as_target("auditor"), at, interrupted), settings())
    np.testing.assert_allclose(own.head().weights, before, rtol=1e-9)


def test_probes_of_own_records_are_not_for_live_targets():
    with pytest.raises(InputError, match="designed or random for a live target without --features"):
        audit_live(server().as_target("auditor"), settings(probe="own-data"))


def test_too_few_responses_leave_the_state_unread():
    live = audit_live(server().as_target("auditor"), settings(probe="random", responses=2))
    assert not live.identified
    assert "rank deficient" in live.reason
    assert conclude_live(live).severity is None


def test_an_update_in_doubt_is_settled_by_the_head():
    own = server()
    careful = UndoingTarget(Flaky(own.as_target("auditor"), 1, lost_after))
    update = Update.adding(Summary.of(np.ones((1, D)), [0], C))
    with pytest.raises(ConnectionError):
        careful.submit(update)
    assert not careful.restored
    assert careful.restore()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nonsense", "package.module:function"),
        ("no.such.module:target", "a module that can be imported"),
        ("examples.audit_ranpac:targe", "a function of examples.audit_ranpac"),
        ("os:getcwd", "head\\(\\) and submit\\(\\)"),
    ],
)
def test_a_target_that_cannot_be_had_is_told_so(spec, words):
    with pytest.raises(InputError, match=words):
        load_target(spec)


def test_the_example_wraps_a_server_that_is_not_ours():
    live = audit_live(load_target("examples.audit_ranpac:target"), settings())
    assert live.identified
    assert live.restored
    assert (live.dim, live.classes) == (100, 10)


def test_an_interrupt_while_probes_are_taken_back_waits_for_them(monkeypatch):
    own = server()
    start = own.head().weights
    at = in_dry_run() + RESPONSES + 1  # the cancellation

    def stopped(inner, update):
        os.kill(os.getpid(), signal.SIGTERM)
        return inner.submit(update)

    live = audit_live(Flaky(own.as_target("auditor"), at, stopped), settings())
    assert live.interrupted and live.restored
    np.testing.assert_allclose(own.head().weights, start, rtol=1e-9)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("at", [1, 3])
def test_every_signal_that_asks_to_end_takes_the_way_of_ctrl_c(number, at):
    own = server()
    start = own.ledger.summary.moment

    def stopped(inner, update):
        head = inner.submit(update)
        os.kill(os.getpid(), number)
        return head

    live = audit_live(Flaky(own.as_target("auditor"), in_dry_run() + at, stopped), settings())
    assert live.interrupted and live.restored
    np.testing.assert_allclose(own.ledger.summary.moment, start, atol=1e-7)
    assert signal.getsignal(number) is signal.SIG_DFL


def merged(**options):
    features, labels = relu_digits()
    return RanPAC32(features, labels, **options)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("how", [{"ridge": 1.0}, {"ridge": 1e-3, "halves": True}, {}])
def test_a_float32_server_is_read_and_hardly_moved(how, scale):
    own = merged(**how)
    start = own.weights.copy()
    live = audit_live(Adapter(own), settings(scale=scale))
    assert conclude_live(live).severity == "aggregate"
    assert live.restored and live.scale <= scale
    off = np.linalg.norm(own.weights - start) / np.linalg.norm(start)
    assert off <= 8 * live.noise
    # Of the order of what float32 sums lose by any one addition and deletion (2e-7 a rounding, dozens of them).
    assert off < 1e-5


def test_halves_that_would_swallow_the_sums_are_never_sent():
    """Of a server that adds one half and subtracts the other in float32, a scale of 1e4 leaves nothing."""
    own = merged(ridge=1.0, halves=True)
    start = own.weights.copy()
    own.merge(moment_update(1e4 * np.eye(64)[:, :10]))
    own.merge(moment_update(-1e4 * np.eye(64)[:, :10]))
    assert np.linalg.norm(own.weights - start) > 1e-3 * np.linalg.norm(start)
    live = audit_live(Adapter(merged(ridge=1.0, halves=True)), settings())
    assert live.scale < 100


def test_a_server_that_no_probe_leaves_as_it_was_is_not_probed():
    class Worn:
        """Loses a hundredth of its sums at every message."""

        def __init__(self):
            self.inner = server()
            self.sent = 0

        def head(self):
            return self.inner.head()

        def submit(self, update):
            self.sent += 1
            gone = self.inner.ledger.summary
            loss = Summary(np.zeros_like(gone.gram), 0.01 * gone.moment)
            self.inner.submit(Update(update.add, update.delete + loss), "auditor")
            return self.head()

    target = Worn()
    with pytest.raises(AttackError, match="not started: after a one-message dry run"):
        audit_live(target, settings())
    assert target.sent == 2


def test_a_limit_on_the_size_of_messages_only_makes_probes_smaller():
    class Limited:
        def __init__(self):
            self.inner = server().as_target("auditor")

        def head(self):
            return self.inner.head()

        def submit(self, update):
            if update.magnitude > 100:
                raise RefusedError("too large")
            return self.inner.submit(update)

    live = audit_live(Limited(), settings())
    assert live.scale < 100 and live.restored
    assert conclude_live(live).severity == "aggregate"


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_a_blind_retry_in_the_dry_run_is_found_out_and_named(at):
    own = server()
    start = own.ledger.summary.moment
    with pytest.raises(AttackError, match=r"applied more than once.*at most once; the head is as it was"):
        audit_live(Flaky(own.as_target("auditor"), at, retried_blindly), settings())
    np.testing.assert_allclose(own.ledger.summary.moment, start, atol=1e-9)


@pytest.mark.parametrize("at", range(1, 8))  # probes, their cancellation, the unseen one and its undo
def test_a_blind_retry_among_the_probes_is_taken_back_and_named(at):
    own = server()
    start = own.ledger.summary.moment
    live = audit_live(Flaky(own.as_target("auditor"), in_dry_run() + at, retried_blindly), settings())
    np.testing.assert_allclose(own.ledger.summary.moment, start, atol=1e-6)
    assert live.restored and live.failed
    assert "applied more than once" in live.reason
    assert conclude_live(live).severity == (None if at < 7 else "aggregate")  # the last came after all was read


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("at", [1, 3, 5])
def test_what_could_not_be_taken_back_is_on_disk_and_sent_later(at, arrives):
    own = server()
    start = own.ledger.summary
    gone = Gone(own.as_target("auditor"), in_dry_run() + at, arrives)
    with pytest.raises(AttackError, match=r"COULD NOT BE TAKEN BACK.*undo-1\.safetensors"):
        audit_live(gone, settings(), "mine:target")
    file = OUT / "undo-1.safetensors"
    assert [path.name for path in OUT.iterdir()] == ["undo-1.safetensors"]
    left = read(file)
    assert left.target == "mine:target"
    assert not left.nothing
    assert file.stat().st_size < 20_000
    gone.down, gone.at = False, 0
    back, _ = undo(gone, left, OUT)
    assert back
    np.testing.assert_allclose(own.ledger.summary.moment, start.moment, atol=1e-6)
    assert np.array_equal(own.ledger.summary.gram, start.gram)


def test_an_undo_is_for_the_server_that_it_came_from():
    gone = Gone(server().as_target("auditor"), in_dry_run() + 2)
    with pytest.raises(AttackError):
        audit_live(gone, settings())
    with pytest.raises(InputError, match="d = 12, c = 3"):
        undo(server(d=5).as_target("auditor"), read(OUT / "undo-1.safetensors"), OUT)


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(5)
    path = tmp_path / "own.npz"
    np.savez(path, features=rng.standard_normal((60, D)), labels=rng.integers(0, C, 60))
    return path


@pytest.mark.parametrize("probe", ["own-data", "label-swap", "designed"])
def test_own_rows_probe_a_live_server_too(rows, probe):
    own = server()
    before = own.ledger.summary
    live = audit_live(own.as_target("auditor"), settings(probe=probe, features=rows))
    assert conclude_live(live).severity == "aggregate"
    assert live.prediction_error < 1e-5
    assert (live.scale is None) == (probe != "designed")
    np.testing.assert_allclose(own.ledger.summary.moment, before.moment, atol=1e-7)
    np.testing.assert_allclose(own.ledger.summary.gram, before.gram, atol=1e-9)


@pytest.mark.parametrize("how", [lost_before, lost_after, interrupted])
def test_own_rows_are_taken_back_whatever_happens(rows, how):
    own = server()
    before = own.ledger.summary
    live = audit_live(Flaky(own.as_target("auditor"), 8, how), settings(probe="own-data", features=rows))
    assert live.restored
    np.testing.assert_allclose(own.ledger.summary.gram, before.gram, atol=1e-9)


def test_own_rows_must_fit_the_server(tmp_path, rows):
    with pytest.raises(InputError, match="features must be rows of 5 features"):
        audit_live(server(d=5).as_target("auditor"), settings(probe="own-data", features=rows))
    with pytest.raises(InputError, match="below 2"):
        audit_live(server(c=2).as_target("auditor"), settings(probe="own-data", features=rows))


def test_live_features_of_rows_with_dead_coordinates(tmp_path):
    rng = np.random.default_rng(5)
    features = rng.standard_normal((60, D))
    features[:, [2, 7]] = 0.0
    np.savez(tmp_path / "own.npz", features=features, labels=rng.integers(0, C, 60))
    live = audit_live(server().as_target("auditor"), settings(probe="own-data", features=tmp_path / "own.npz"))
    assert (live.live, live.dim) == (D - 2, D)
    assert conclude_live(live).severity == "aggregate"
