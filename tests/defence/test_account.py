"""The account of continual noise: a figure that bounds every record whose row was shown, and a memory with an end."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume import Ledger, Server, Summary, Update
from exhume.defence.admission import Ownership
from exhume.defence.memory import Memory
from exhume.defence.release import Chain, ContinualNoise, EventAccount, EventTally, Heads, _accounts
from exhume.defence.release._accounts import KEPT, Accounts
from exhume.defence.release._epoch import EpochMeasure
from exhume.defence.release._figures import LANCZOS, MISSED, _largest_eigenvalue, largest_record, record_sizes
from exhume.defence.release._packed import whole
from exhume.protocol import Batch, itemise
from exhume.simulate.rules import figures_of

D, C, GAMMA, KEY = 6, 3, 1e-2, "42" * 16
RNG = np.random.default_rng(5)
F, Y = np.abs(RNG.normal(size=(300, D))), RNG.integers(0, C, 300)


def served(**options):
    """Return a server that is shown rows, with a head out, and its rule."""
    rule = ContinualNoise(0.2, grows=False, key=KEY, **{"by_rows": True, **options})
    admission = [Ownership(D, C, show_rows=True)] if rule.by_rows else []
    server = Server(Ledger(Summary.of(F, Y, C), GAMMA), admission=admission, release=Chain([rule, Heads()]))
    server.head()
    return server, rule


def slack(rule):
    """Return how far two ways to whiten a row can be apart: a triangular solve is d eps cond(B) off, a mu twice that.

    Four of those: the solve with and without its company, and what is whitened, in two ways.
    """
    factor = np.tril(rule.told().measure.factor)
    return 8 * D * np.finfo(float).eps * np.linalg.cond(factor)


@st.composite
def batches(draw):
    n = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    signs = np.array(draw(st.lists(st.sampled_from([1.0, -1.0]), min_size=n, max_size=n)))
    scales = np.array(draw(st.lists(st.sampled_from([0.1, 1.0, 8.0]), min_size=n, max_size=n)))
    same = draw(st.booleans())
    features = np.abs(rng.normal(size=(1 if same else n, D))) * (signs * scales)[:, None]
    return features, rng.integers(0, C, n)


@settings(max_examples=60, deadline=None)
@given(batches(), st.sampled_from([None, 0.5, 4.0]))
def test_the_figure_of_shown_rows_bounds_each_record_in_them(batch, cap):
    server, rule = served(cap=cap)
    alone = [Batch(batch[0][[i]], batch[1][[i]]) for i in range(len(batch[1]))]
    quotes = [rule.quote(one) for one in alone]
    within = 1 + slack(rule)
    for one, quote in zip(alone, quotes, strict=True):
        assert quote == pytest.approx(rule.quote(Summary.of(one.features, one.labels, C)), rel=within - 1)
    assert rule.quote(Batch(*batch)) == pytest.approx(max(quotes), rel=within - 1)
    for side in ({"add": batch}, {"delete": batch}):
        assert server.submit(itemise(C, **side), "a").accepted
        account = rule.accounts[-1]
        assert all(account.life * within >= quote for quote in quotes)
        assert account.life == pytest.approx(max(quotes), rel=within - 1) and account.rows == len(alone)
        assert cap is None or account.mu <= cap * within


def cancelling():
    """Return two records whose moments cancel but for what a head predicts of them: one feature, once turned round."""
    return np.array([F[0], -F[0]]), np.array([1, 1])


def test_of_sums_the_figure_bounds_a_record_that_the_blocks_own_does_not():
    (asks, shown), (trusts, summed) = served(), served(by_rows=False)
    update = itemise(C, add=cancelling())
    assert asks.submit(update, "a").accepted and trusts.submit(Update(update.add, update.delete), "a").accepted
    rows, sums = shown.accounts[-1], summed.accounts[-1]
    assert sums.together == pytest.approx(rows.block, rel=slack(shown)) and sums.rows == 0
    assert rows.mu > 1.4 * sums.together  # a record in it is told of more than the block
    assert sums.mu >= rows.mu
    assert rows.figures()["mu_block"] == rows.block and rows.figures()["mu_total"] == rows.mu


def test_sums_of_one_record_have_its_own_figure_and_sums_of_one_line_do_not():
    """Where no entry of a feature is negative, a gram of rank 1 and its moment say whether they are of one record."""
    rule, one = served(by_rows=False)[1], Batch(F[:1], Y[:1])
    assert rule.quote(Summary.of(F[:1], Y[:1], C)) == pytest.approx(rule.quote(one), rel=slack(rule))
    for scales, labels in (([1.0, 1.0], [0, 0]), ([1.0, 1.0], [0, 1]), ([3.0, 0.1], [2, 2])):
        features = np.outer(scales, F[0])
        singly = max(rule.quote(Batch(features[[i]], np.array([labels[i]]))) for i in range(2))
        found = rule.quote(Summary.of(features, np.array(labels), C))
        assert found >= singly and found > 1.01 * math.sqrt(2) * rule.mu(rule.shown(Summary.of(features, labels, C)))


def totals_after(block, options):
    """Return the totals that heads follow from, noise apart, after an addition, its account and the rule."""
    server, rule = served(by_rows=False, **options)
    server.submit(Update.adding(block), "a")
    rule.told()
    return whole(rule._epoch.totals.gram, D), rule._epoch.totals.moment, rule


LIMITS = st.sampled_from(
    [{}, {"cap": 0.5}, {"cap": 4.0}, *({"cap": 1.0, "outlier": 4.0, "longest": b} for b in (3, 30))]
)


@settings(max_examples=150, deadline=None)
@given(batches(), LIMITS)
def test_of_sums_the_figure_bounds_what_any_record_in_them_changes(batch, options):
    """Two worlds that differ in one record of the message: what is shown of the others can differ, too."""
    gram, moment, rule = totals_after(Summary.of(*batch, C), options)
    account, within = rule.accounts[-1], 1 + slack(rule)
    for i in range(len(batch[1])):
        others = Summary.of(np.delete(batch[0], i, axis=0), np.delete(batch[1], i), C) if len(batch[1]) > 1 else None
        then = (np.eye(D), np.zeros((D, C))) if others is None else totals_after(others, options)[:2]
        apart = rule._figures.mu(D, np.linalg.norm(gram - then[0]), np.linalg.norm(moment - then[1]))
        assert apart <= account.mu * within
    if not rule._cuts and account.rows == 0:
        assert account.mu <= options.get("cap", math.inf) * within or "longest" in options


@pytest.mark.parametrize(("times", "least"), [(0.05, 1.2), (1.01, 2.0)])
def test_a_heavy_record_in_sums_that_are_cut_changes_what_is_shown_of_the_others(times, least):
    """Found by somebody who had only the docs: its share went into that of all, and the account knew nothing of it.

    Both messages are cut, or the one with the record alone: then it changes more than its own uncut figure.
    """
    d = 24
    public = Summary.of(np.vstack([np.eye(d), -np.eye(d)] * 2), np.zeros(4 * d, dtype=int), C)
    features, labels = 10.0 * np.eye(d), np.arange(d) % C
    sums = [Summary.of(np.vstack([features, features[:n]]), np.append(labels, labels[:n]), C) for n in (0, 1)]

    def server(cap):
        rule = ContinualNoise(0.2, public=public, cap=cap, grows=False, key=KEY)
        made = Server(Ledger.zeros(d, C, GAMMA), release=Chain([rule, Heads()]))
        made.head()
        return made, rule

    free = server(None)[1]
    uncut, own = (free.quote(block) / math.sqrt(2) for block in sums)
    found = []
    for block in sums:
        made, rule = server(times * uncut)
        made.submit(Update.adding(block), "a")
        rule.told()
        found.append((whole(rule._epoch.totals.gram, d), rule._epoch.totals.moment))
    apart = rule._figures.mu(d, *(np.linalg.norm(one - other) for one, other in zip(*found, strict=True)))
    assert least * times * uncut < apart <= rule.accounts[-1].mu
    assert bool(apart > own) is (times > 1)


@settings(max_examples=60, deadline=None)
@given(batches(), LIMITS)
def test_sums_leave_as_they_came_and_as_they_were_quoted(batch, options):
    server, rule = served(by_rows=False, **options)
    block, within = Summary.of(*batch, C), 1 + slack(rule)
    quote, totals = rule.quote(block), rule._epoch.totals
    gram, moment = totals.gram.copy(), totals.moment.copy()
    for update in (Update.adding(block), Update.deleting(block)):
        server.submit(update, "a")
        rule.told()
        assert math.sqrt(2) * rule.accounts[-1].mu == pytest.approx(quote, rel=within - 1)
    size = np.abs(rule.shown(block).sizes).max() + 1
    np.testing.assert_allclose(totals.gram, gram, atol=size * slack(rule))  # nothing of it stays
    np.testing.assert_allclose(totals.moment, moment, atol=size * slack(rule))
    assert not rule._cuts


@pytest.mark.parametrize("n", [2, 7, 30, 200])
def test_no_record_is_larger_than_the_bound_of_its_block(n):
    """As rows, and dense: one row that is far longer than the others comes within the share that is made up for."""
    d, rng = 64, np.random.default_rng(n)
    features, labels = np.abs(rng.normal(size=(500, d))), rng.integers(0, C, 500)
    measure = EpochMeasure.of(features.T @ features, features.T @ np.eye(C)[labels])
    part = features[:n].copy()
    part[0] *= 30.0
    block, share = Summary.of(part, labels[:n], C), missed(d)
    found = largest_record(measure.event(block), measure, rng.standard_normal(d))
    sizes = record_sizes(*measure.records(Batch(part, labels[:n])))
    assert all(size.max() <= bound for size, bound in zip(sizes, found, strict=True))
    assert found[0] <= 1.05 * sizes[0].max() / (1 - share)
    predicted = np.linalg.eigvalsh(measure.head.T @ block.gram @ measure.head)[-1]
    assert found[1] == pytest.approx(math.sqrt(found[0]) * (1 + math.sqrt(predicted)), rel=1e-9)


def missed(d):
    """Return the share of Kuczynski and Wozniakowski's theorem, solved for by bisection."""
    below, above = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (below + above)
        likely = 1.648 * math.sqrt(d) * math.exp(-math.sqrt(middle) * (2 * LANCZOS - 1)) > MISSED
        below, above = (middle, above) if likely else (below, middle)
    return above


@pytest.mark.parametrize("spectrum", [np.linspace(0.9, 1, 400), np.geomspace(1e-9, 1, 400), np.ones(400)])
def test_the_largest_eigenvalue_is_never_missed_and_hardly_overstated(spectrum):
    rng = np.random.default_rng(3)
    Q, _ = np.linalg.qr(rng.normal(size=(400, 400)))
    gram = (Q * spectrum) @ Q.T
    share, true = missed(400), np.linalg.eigvalsh(gram)[-1]
    for _ in range(20):
        found = _largest_eigenvalue(gram, rng.standard_normal(400))
        assert true <= found <= true / (1 - share) * (1 + 1e-12)
        assert found * (1 - share) <= true * (1 + 1e-12)


def test_who_asks_about_all_that_went_gets_the_larger_figure():
    server, rule = served()
    for batch in (cancelling(), (F[:5], Y[:5])):
        server.submit(itemise(C, add=batch), "a")
        number = server.submit(itemise(C, delete=batch), "a").number
        account = rule.deletions[-1]
        assert figures_of(server, number)["mu_total"] == max(account.mu, account.block)
    assert account.block > account.mu  # several records that do not cancel tell more together


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_the_figure_of_the_block_is_of_what_heads_are_shown_of_it(n):
    """Half of d rows and more, some of them cut: the totals themselves say what came."""
    _, free = served()
    mus = [free.quote(Batch(F[[i]], Y[[i]])) / math.sqrt(2) for i in range(n)]
    server, rule = served(cap=0.5 * (min(mus) + max(mus)) if n > 1 else 0.5 * mus[0])
    rule.told()
    totals = rule._epoch.totals
    gram, moment = totals.gram.copy(), totals.moment.copy()
    server.submit(itemise(C, add=(F[:n], Y[:n])), "a")
    s, tau = rule.event_noise(D)
    moved = np.linalg.norm(whole(totals.gram - gram, D)) / (math.sqrt(2) * tau)
    expected = rule._present.sensitivity * math.hypot(moved, np.linalg.norm(totals.moment - moment) / s)
    assert rule.accounts[-1].block == pytest.approx(expected, rel=1e-9)
    assert rule._cuts


def event(i, deleted):
    return EventAccount(10**6 + i, "a", 1.0 + i % 7, deleted=deleted, block=2.0 + i % 11, rows=3)


def test_a_saved_state_does_not_grow_with_the_history():
    rule = ContinualNoise(0.2, key=KEY)
    sizes = []
    for _ in range(3):
        rule._accounts.add(event(i, deleted=i % 2 == 1) for i in range(6 * KEPT))
        sizes.append(len(rule.save()))
    # Of 3,000 to 9,000 events of a kind no number has a digit more; eight bytes are what the format is aligned to.
    assert max(sizes) - min(sizes) <= 8
    assert len(rule.accounts) == 2 * KEPT and len(rule.deletions) == KEPT
    assert rule.tallies == {"additions": EventTally(9 * KEPT, 7.0, 12.0), "deletions": EventTally(9 * KEPT, 7.0, 12.0)}
    again = ContinualNoise(0.2)
    again.load(rule.save())
    assert (again.accounts, again.tallies) == (rule.accounts, rule.tallies)


def test_the_newest_of_each_kind_stay_and_the_largest_figure_of_all(monkeypatch):
    monkeypatch.setattr(_accounts, "KEPT", 3)
    server, rule = served()
    large = (50 * F[:1], Y[:1])
    for side in [{"add": large}, {"delete": large}, *({"add": (F[[i]], Y[[i]])} for i in range(5))]:
        assert server.submit(itemise(C, **side), "a").accepted
    assert [(account.number, account.deleted) for account in rule.accounts] == [
        (2, True), (5, False), (6, False), (7, False)
    ]  # fmt: skip
    (went,) = rule.deletions
    tallies = rule.tallies
    assert (tallies["additions"].events, tallies["deletions"].events) == (6, 1)
    assert tallies["additions"].mu == pytest.approx(went.mu, rel=1e-9) and went.mu > 10 * rule.accounts[-1].mu


def test_states_of_before_still_load():
    rule = served()[1]
    found = rule.remembered()
    values = {name: value for name, value in found.values.items() if name != "tallies"}
    values["accounts"] = [
        {"number": i, "client": "a", "mu": float(i), "deleted": i % 2 == 0} for i in range(2 * KEPT + 10)
    ]
    rule.restore(Memory(json.loads(json.dumps(values)), found.arrays))
    assert rule.tallies["deletions"] == EventTally(KEPT + 5, 2.0 * KEPT + 8, 2.0 * KEPT + 8)
    assert len(rule.deletions) == KEPT and rule.deletions[-1].together == rule.deletions[-1].mu
    assert Accounts.restored(rule.remembered().values).tallies() == rule.tallies


def test_an_equal_record_of_another_client_takes_no_share_of_ones_own():
    """A founder's record is never cut; when it goes, the share of an equal one that came later must stay."""
    outlier = (np.eye(D)[:1] * 40.0, [1])
    rule = ContinualNoise(0.2, grows=False, key=KEY, by_rows=True, cap=1.0, founding=1)
    release = Chain([rule, Heads()])
    server = Server(Ledger.zeros(D, C, GAMMA), admission=[Ownership(D, C, show_rows=True)], release=release)
    assert server.submit(itemise(C, add=(np.vstack([F, outlier[0]]), [*Y, 1])), "founder").accepted
    quoted = rule.quote(Summary.of(*outlier, C))
    for client, side in (("bob", "add"), ("founder", "delete"), ("bob", "delete")):
        assert server.submit(itemise(C, **{side: outlier}), client).accepted
    life = math.hypot(*(account.mu for account in rule.accounts if account.client == "bob"))
    assert life <= quoted * (1 + slack(rule)) == pytest.approx(math.sqrt(2.0), rel=1e-6)
    assert rule._cuts == {}  # everything came back


def test_shares_of_a_state_that_knew_no_owners_still_come_back():
    server, rule = served(cap=1.0)
    outlier = (np.eye(D)[:1] * 40.0, [1])
    server.submit(itemise(C, add=outlier), "bob")
    ((key, share),) = rule._cuts.items()
    rule._cuts = {key[16:]: share}
    server.submit(itemise(C, delete=outlier), "bob")
    assert rule._cuts == {} and [a.mu for a in rule.accounts][-1] <= 1.0 + slack(rule)


@pytest.mark.parametrize("scale", [1e-160, 1e-100, 1e-30, 1e30])
def test_the_largest_eigenvalue_scales_with_the_gram(scale):
    """Squares of tiny numbers are nothing: a message of such rows once raised an error, for its whole round."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(60, 60))
    gram, start = rows @ rows.T, rng.standard_normal(60)
    assert _largest_eigenvalue(scale * gram, start) == pytest.approx(scale * _largest_eigenvalue(gram, start), rel=1e-9)
    assert _largest_eigenvalue(0.0 * gram, start) == 0.0
