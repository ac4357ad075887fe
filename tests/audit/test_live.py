import numpy as np
import pytest

from exhume import Head, Ledger, Server, Summary, Update
from exhume.audit.live import audit_live
from exhume.audit.settings import make_settings
from exhume.audit.target import load_target
from exhume.audit.undoing import UndoingTarget
from exhume.audit.verdict import conclude_live
from exhume.errors import AttackError, InputError, RefusedError

D, C = 12, 3


def server():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((200, D))
    return Server(Ledger(Summary.of(features, rng.integers(0, C, 200), C), 1e-2))


class Flaky:
    """A target on which the n-th submission goes wrong in a chosen way."""

    def __init__(self, inner, at, how):
        self.inner, self.at, self.how, self.count = inner, at, how, 0

    def head(self):
        return self.inner.head()

    def submit(self, update):
        self.count += 1
        if self.count == self.at:
            return self.how(self.inner, update)
        return self.inner.submit(update)


def lost_before(inner, update):
    raise ConnectionError("the request was lost")


def lost_after(inner, update):
    inner.submit(update)
    raise ConnectionError("the answer was lost")


def refused(inner, update):
    raise RefusedError("too large")


def interrupted(inner, update):
    inner.submit(update)
    raise KeyboardInterrupt


def settings(**more):
    return make_settings({"probe": "designed", "seed": 0, **more})


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
@pytest.mark.parametrize("at", [3, 5, 7])  # the first probe, the third, the cancellation
def test_probes_are_taken_back_whatever_happens(how, at):
    own = server()
    before = own.ledger.summary
    live = audit_live(Flaky(own.as_target("auditor"), at, how), settings())
    assert live.restored
    assert live.residual < 1e-9
    np.testing.assert_allclose(own.ledger.summary.moment, before.moment, atol=1e-7)
    assert np.array_equal(own.ledger.summary.gram, before.gram)
    assert live.interrupted == (how is interrupted)
    assert live.failed == (how in (lost_before, lost_after))
    assert live.reason


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
    with pytest.raises(InputError, match="designed or random"):
        audit_live(server().as_target("auditor"), settings(probe="own-data"))


def test_too_few_responses_leave_the_state_unread():
    live = audit_live(server().as_target("auditor"), settings(probe="random", responses=2))
    assert not live.identified
    assert "rank deficient" in live.reason
    assert conclude_live(live).severity == "none"


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
