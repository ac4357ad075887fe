"""The mask of deletions: exactly Gaussian, never averaged away, bounded, and gone from no head."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from exhume import Ledger, Server, Summary, Update
from exhume.attack.estimate import direct
from exhume.attack.transcript import Recorder
from exhume.defence.config import Config, Entry
from exhume.defence.config import build as build_defences
from exhume.defence.default import rows_in
from exhume.defence.release import Chain, DeletionMask, Heads, LowRank, PosteriorNoise
from exhume.defence.release._mask_parts import FLOOR, MaskedDeletion
from exhume.defence.release._sticky import Sticky, keyed_generator
from exhume.defence.release.deletion_mask import mask_growth
from exhume.errors import InputError

D, C, GAMMA = 6, 3, 1e-2
KEY = "42" * 16


def rows(n, seed=0, d=D):
    rng = np.random.default_rng(seed)
    return np.abs(rng.standard_normal((n, d))), rng.integers(0, C, n)


def block(F, y, part):
    return Summary.of(F[part], y[part], C)


def served(rule, n=200, d=D):
    F, y = rows(n, d=d)
    server = Server(Ledger(Summary.of(F, y, C), GAMMA), release=Chain([rule, Heads("float64")]))
    server.head()
    return server, F, y


def drop(server, F, y, part, client="alice"):
    return server.submit(Update.deleting(block(F, y, part)), client)


def exact(server):
    return server.ledger.head()


def test_without_a_deletion_heads_are_exact():
    server, F, y = served(DeletionMask(0.1))
    head = server.submit(Update.adding(block(*rows(5, 1), slice(None))), "bob").head
    assert np.array_equal(head.weights, exact(server))
    assert not np.allclose(drop(server, F, y, slice(0, 1)).head.weights, exact(server), rtol=1e-3)


def test_additions_after_a_deletion_follow_from_the_masked_totals_exactly():
    rule = DeletionMask(0.1, key=KEY)
    server, F, y = served(rule)
    drop(server, F, y, slice(0, 1))
    A, G = rule.masked_totals(server.ledger)
    total = Summary.zeros(D, C)
    for seed in range(5):
        extra = block(*rows(4, seed + 10), slice(None))
        total = total + extra
        head = server.submit(Update.adding(extra), "mallory").head.weights
        np.testing.assert_allclose(head, np.linalg.solve(A + total.gram, G + total.moment), rtol=1e-9)


def test_the_draw_has_the_covariance_that_the_figures_take():
    """Whitened by the totals before, the change less the block is normal with s for the moment, tau for the gram."""
    F, y = rows(200)
    before = Ledger(Summary.of(F, y, C), GAMMA)
    A, W = before.summary.gram + GAMMA * np.eye(D), before.head()
    L = np.linalg.cholesky(A)
    gone = block(F, y, slice(0, 1))
    moments, grams = [], []
    for _ in range(400):
        rule = DeletionMask(0.1)
        server = Server(before.copy(), release=Chain([rule]))
        server.submit(Update.deleting(gone), "alice")
        gram, moment = rule.masked_totals(server.ledger)
        E_A = gram - A + gone.gram
        E_G = moment - (A @ W - gone.moment) - E_A @ W
        moments.append(np.linalg.solve(L, E_G).ravel())
        grams.append(np.linalg.solve(L, np.linalg.solve(L, E_A).T)[np.triu_indices(D, 1)])
    s, tau = rule.deletion_noise(D)
    for sample, size in ((np.concatenate(moments), s), (np.concatenate(grams), tau)):
        assert stats.kstest(sample / size, "norm").pvalue > 1e-4


def test_mu_is_the_distance_of_the_two_worlds():
    F, y = rows(200)
    rule = DeletionMask(0.1)
    before = Ledger(Summary.of(F, y, C), GAMMA)
    A, W = before.summary.gram + GAMMA * np.eye(D), before.head()
    server = Server(before.copy(), release=Chain([rule]))
    drop(server, F, y, slice(0, 1))
    s, tau = rule.deletion_noise(D)
    f, k = F[0], int(y[0])
    h = float(f @ np.linalg.solve(A, f))
    (made,) = rule.deletions
    assert made.mu == pytest.approx(math.sqrt(h * np.sum((np.eye(C)[k] - W.T @ f) ** 2) / s**2 + h**2 / (2 * tau**2)))
    assert made.total == made.mu
    assert 0 < made.figures()["advantage_run"] < 1


def test_no_number_of_heads_averages_the_mask_away():
    """Own additions, and own deletions without end, leave exactly one draw on the deletion of somebody else."""
    rule = DeletionMask(0.3, key=KEY)
    server, F, y = served(rule)
    drop(server, F, y, slice(0, 1))
    mine = block(*rows(2, 5), slice(None))
    means = []
    for _ in range(2):
        found = []
        for _ in range(200):
            server.submit(Update.adding(mine), "mallory")
            server.submit(Update.deleting(mine), "mallory")
            found.append(rule.masked_totals(server.ledger)[1])
        means.append(np.mean(found, axis=0))
    left = np.linalg.solve(server.ledger.summary.gram + GAMMA * np.eye(D), means[0]) - exact(server)
    again = np.linalg.norm(means[0] - means[1])
    # What is left is the same in both halves (own draws average out), and far from the truth (alice's does not).
    assert again < 0.5 * np.linalg.norm(means[0] - server.ledger.summary.moment)
    assert np.linalg.norm(left) > 0.05 * np.linalg.norm(exact(server))
    # One fold, when mallory came after alice; mallory's redraws tell of mallory's own deletions only.
    assert rule.deletions[0].later == 0.25
    assert rule.deletions[-2].later == 1.0


def test_an_identified_state_is_the_masked_one():
    """Algorithm 1 on exact heads finds the masked totals, which are far from the true ones."""
    rule = DeletionMask(0.2, key=KEY)
    server, F, y = served(rule)
    drop(server, F, y, slice(0, 3))
    A, G = rule.masked_totals(server.ledger)
    baseline = server.head()
    recorder = Recorder(baseline, "held_out")
    for seed in range(2 * D):
        extra = block(*rows(8, 20 + seed), slice(None))
        recorder.sent(extra)
        recorder.heard(server.submit(Update.adding(extra), "mallory").head)
    state = direct(recorder.transcript(baseline))
    np.testing.assert_allclose(state.A, A, rtol=1e-5)
    np.testing.assert_allclose(state.G, G, rtol=1e-5)
    true = Summary.of(F[3:], y[3:], C).gram + GAMMA * np.eye(D)
    assert np.linalg.norm(A - true) > 0.05 * np.linalg.norm(true)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 60)), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_the_masked_gram_stays_positive_whatever_is_deleted(steps):
    rule = DeletionMask(0.2, spread=0.75, key=KEY)
    server, F, y = served(rule, n=150)
    start = 0
    for client, n in steps:
        part = slice(start, min(start + n, 150))
        if part.start >= part.stop:
            break
        start = part.stop
        assert drop(server, F, y, part, f"client {client}").accepted
        masked = rule.masked_totals(server.ledger)[0]
        true = server.ledger.summary.gram + GAMMA * np.eye(D)
        assert np.linalg.eigvals(np.linalg.solve(true, masked)).real.min() > 0.04
        assert all(d.mu > 0 for d in rule.deletions)


def test_an_emptied_ledger_has_a_head_near_zero():
    rule = DeletionMask(0.2, key=KEY)
    server, F, y = served(rule, n=40)
    head = drop(server, F, y, slice(None)).head
    # As posterior noise has it: sigma times the root of A^-1, here 1 / gamma, in each of D C entries.
    assert np.linalg.norm(head.weights) < 2 * 0.2 * math.sqrt(D * C / GAMMA)
    assert rule.deletions[-1].mu == math.inf  # so large a deletion is not hidden, and the figure says so
    assert rule.deletions[-1].figures()["advantage_total"] == 1.0


@pytest.mark.parametrize("size", [1.0, 10.0, 1e3, 1e6])
def test_bringing_a_huge_block_in_and_out_uncovers_nothing(size):
    """The noise on an earlier deletion must not shrink when somebody's own block comes and goes."""
    spread = []
    for _ in range(60):
        rule = DeletionMask(0.3)
        server, F, y = served(rule, n=400)
        drop(server, F, y, slice(0, 1))
        own = block(np.sqrt(size) * F, y, slice(None))
        for _ in range(2):
            server.submit(Update.adding(own), "mallory")
            server.submit(Update.deleting(own), "mallory")
        L = np.linalg.cholesky(server.ledger.summary.gram + GAMMA * np.eye(D))
        gram, moment = rule.masked_totals(server.ledger)
        noise = moment - gram @ exact(server)  # what stands between the masked head and the true one
        spread.append(np.linalg.solve(L, noise))
    s, _ = rule.deletion_noise(D)
    # Alice's draw, faded by half at mallory's fold, and the draw of the fold: at least 1 + 1/4; mallory's on top.
    assert np.std(spread) > s * math.sqrt(1.25) * 0.9
    assert np.std(spread) < 4 * s  # and the head is not ruined
    assert rule.deletions[0].total < 2 * rule.deletions[0].mu
    assert rule.deletions[-1].mu == math.inf or size < 2


@pytest.mark.parametrize("size", [1.0, 10.0, 1e3])
def test_an_own_part_drawn_in_a_heavy_ledger_makes_nobody_else_fade(size):
    """Bring weight in, have an own part drawn in its measure, take the weight out: twenty times."""
    rule = DeletionMask(0.1, key=KEY)
    server, F, y = served(rule, n=400)
    drop(server, F, y, slice(0, 1))
    rng = np.random.default_rng(0)
    for _ in range(20):
        own = block(np.sqrt(size) * F[rng.permutation(400)], rng.permutation(y), slice(None))
        bit = block(*rows(2, int(rng.integers(1 << 30))), slice(None))
        server.submit(Update.adding(own), "mallory")
        server.submit(Update.adding(bit), "mallory")
        server.submit(Update.deleting(bit), "mallory")
        server.submit(Update.deleting(own), "mallory")
    # One fold tells a quarter; a fade or two at the edge of what fits tell at most one each.
    assert rule.deletions[0].later <= 2.25


def test_one_large_block_in_a_round_leaves_the_others_hidden():
    rule = DeletionMask(1.0, colluders=2, key=KEY)
    server, F, y = served(rule, n=400)
    # Bob's and mallory's blocks are each just small enough, together they are not: the larger one is not hidden.
    parts = {"alice": slice(0, 1), "bob": slice(1, 60), "mallory": slice(60, 125)}
    server.submit_round([(name, Update.deleting(block(F, y, part))) for name, part in parts.items()])
    found = {d.client: d.mu for d in rule.deletions}
    assert sorted(map(math.isinf, found.values())) == [False, False, True] and not math.isinf(found["alice"])


def test_a_block_that_moves_the_head_more_than_the_mask_does_is_large():
    """A light gram with a huge moment, taken out again, must not leave noise about the head that it made."""
    rule = DeletionMask(0.1, key=KEY)
    server, F, y = served(rule, n=400)
    base = block(F, y, slice(0, 20))
    poison = Summary(base.gram, 1e4 * base.moment)
    server.submit(Update.adding(poison), "mallory")
    head = server.submit(Update.deleting(poison), "mallory").head.weights
    assert rule.deletions[-1].mu == math.inf
    assert np.linalg.norm(head - exact(server)) < 0.5 * np.linalg.norm(exact(server))


def test_a_deletion_that_breaks_down_is_taken_back_whole_and_gets_its_draw_when_it_comes_again():
    class Broken(Heads):
        fails = False

        def release(self, head, occasion):
            if self.fails:
                raise RuntimeError("boom")
            return super().release(head, occasion)

    rule, broken = DeletionMask(0.1, key=KEY), Broken()
    F, y = rows(100)
    server = Server(Ledger(Summary.of(F, y, C), GAMMA), release=Chain([rule, broken]))
    server.head()
    broken.fails = True
    with pytest.raises(RuntimeError, match="boom"):
        drop(server, F, y, slice(0, 1))
    broken.fails = False
    assert len(rule.deletions) == 0
    assert server.ledger.summary == Summary.of(F, y, C)
    drop(server, F, y, slice(0, 1))
    assert len(rule.deletions) == 1
    head = server.submit(Update.adding(block(F, y, slice(2, 3))), "bob").head.weights
    assert not np.allclose(head, exact(server), rtol=1e-3)


def test_rules_behind_a_mask_never_see_the_true_ledger():
    """Fresh noise in the shape of the true gram would show that gram, given enough heads."""
    seen = []

    class Spy(PosteriorNoise):
        def release(self, head, occasion):
            seen.append(occasion.ledger.summary.gram)
            return super().release(head, occasion)

    rule = DeletionMask(0.2, key=KEY)
    F, y = rows(100)
    server = Server(Ledger(Summary.of(F, y, C), GAMMA), release=Chain([rule, Spy(0.1, KEY), Heads()]))
    server.head()
    drop(server, F, y, slice(0, 1))
    np.testing.assert_allclose(seen[-1] + GAMMA * np.eye(D), rule.masked_totals(server.ledger)[0])
    assert not np.allclose(seen[-1], server.ledger.summary.gram, rtol=1e-3)


def test_an_addition_that_no_rows_can_have_made_leaves_a_head_and_a_draw():
    """Without admission rules somebody can add a block and later add it negated: heads still go out, masked."""
    rule = DeletionMask(0.2, spread=0.75, key=KEY)
    server, F, y = served(rule, n=60)
    own = block(3 * F, y, slice(None))
    server.submit(Update.adding(own), "mallory")
    drop(server, F, y, slice(0, 1))
    negative = Summary(-own.gram, -own.moment)
    head = server.submit(Update.adding(negative), "mallory").head
    assert np.isfinite(head.weights).all()
    masked = rule.masked_totals(server.ledger)[0]
    assert np.linalg.eigvalsh(masked)[0] > 0
    assert server.submit(Update.adding(block(F, y, slice(2, 4))), "bob").accepted


def test_growth_is_the_long_run_size_of_the_mask():
    rule = DeletionMask(0.1, spread=1e-6, memory=0.5, key=KEY)
    server, F, y = served(rule, n=4000)
    sizes = []
    A = server.ledger.summary.gram + GAMMA * np.eye(D)
    for i in range(300):
        drop(server, F, y, slice(i, i + 1), f"client {i % 7}")
        common, own = rule._mask.common, rule._mask.own
        moment = own[0][1].moment + (0.0 if common is None else common.moment)
        sizes.append(float(np.sum(np.linalg.solve(np.linalg.cholesky(A), moment) ** 2)) / (D * C))
    # The ledger shrinks by 7%: sizes are relative to the first one. Draws are correlated over two or three folds.
    assert np.sqrt(np.mean(sizes[20:])) == pytest.approx(0.1, rel=0.1)
    assert mask_growth(0.5, 1) == pytest.approx(math.sqrt(1.25 / 0.75 + 1))
    assert mask_growth(0.0, 2) == pytest.approx(math.sqrt(3))


def test_a_round_of_several_deletions_has_a_draw_for_each():
    rule = DeletionMask(0.1, colluders=2, key=KEY)
    server, F, y = served(rule)
    gone = [(f"client {k}", Update.deleting(block(F, y, slice(k, k + 1)))) for k in range(3)]
    assert all(receipt.accepted for receipt in server.submit_round(gone))
    assert [d.client for d in rule.deletions] == ["client 0", "client 1", "client 2"]
    assert rule.deletions[0].later > 0


def test_withheld_heads_leave_no_gap_in_the_mask():
    from exhume.defence.release import EveryKChanges

    rule = DeletionMask(0.1, key=KEY)
    F, y = rows(100)
    server = Server(Ledger(Summary.of(F, y, C), GAMMA), release=Chain([EveryKChanges(3), rule]))
    server.head()
    assert drop(server, F, y, slice(0, 1)).head is None
    assert len(rule.deletions) == 1
    assert not np.allclose(rule.masked_totals(server.ledger)[1], server.ledger.summary.moment)


def test_a_saved_mask_goes_on_where_it_was():
    first = DeletionMask(0.1)
    server, F, y = served(first)
    for k in range(3):
        drop(server, F, y, slice(k, k + 1), f"client {k}")
    second = DeletionMask(0.1)
    second.load(first.save())
    twin = Server(server.ledger.copy(), release=Chain([second]))
    one, other = drop(server, F, y, slice(3, 4)).head, drop(twin, F, y, slice(3, 4)).head
    np.testing.assert_array_equal(one.weights, other.weights)
    assert first.deletions[:3] == second.deletions[:3]
    with pytest.raises(InputError, match="sigma"):
        DeletionMask(0.2).load(first.save())


def test_a_server_set_back_does_not_repeat_a_draw():
    """Two different deletions from one saved state: the same noise on both would give their difference away."""
    F, y = rows(200)
    changes = []
    for part in (slice(0, 1), slice(1, 2)):
        rule = DeletionMask(0.1, key=KEY)
        server = Server(Ledger(Summary.of(F, y, C), GAMMA), release=Chain([rule]))
        drop(server, F, y, part)
        changes.append(rule.masked_totals(server.ledger)[1] - server.ledger.summary.moment)
    assert np.linalg.norm(changes[0] - changes[1]) > 0.5 * np.linalg.norm(changes[0])


def test_its_place_and_its_arguments():
    with pytest.raises(InputError, match="order"):
        Chain([PosteriorNoise(0.1), DeletionMask(0.1)])
    with pytest.raises(InputError, match="at most one mask"):
        Chain([DeletionMask(0.1), DeletionMask(0.1)])
    Chain([DeletionMask(0.1), LowRank(2), PosteriorNoise(0.05), Heads()])
    for bad in ({"sigma": 0.0}, {"spread": 1.0}, {"spread": 0.0}, {"memory": -0.1}, {"memory": 1.0}, {"colluders": 0}):
        with pytest.raises(InputError, match=next(iter(bad))):
            DeletionMask(**{"sigma": 0.1, **bad})


def test_coarsening_beside_a_mask_is_refused():
    mask, accountant = Entry.of("deletion-mask", sigma=0.1), Entry.of("identification", margin=1, action="coarsen")
    with pytest.raises(InputError, match="coarsen"):
        build_defences(Config(release=(mask,), accountant=accountant), Ledger.zeros(D, C, GAMMA))


def test_rows_are_counted_from_the_totals():
    F, y = rows(500)
    with_constant = np.column_stack([F, np.ones(len(F))])
    assert rows_in(Ledger(Summary.of(with_constant, y, C), 1e-9)) in (499, 500)
    assert 0.8 * 500 < rows_in(Ledger(Summary.of(F, y, C), GAMMA)) <= 500
    assert rows_in(Ledger.zeros(D, C, GAMMA)) == 0


def test_but_for_the_noise_the_head_after_a_deletion_is_the_one_without_the_rows():
    rule = DeletionMask(1e-9, spread=1e-9)
    server, F, y = served(rule, n=12)
    for part in (slice(0, 1), slice(1, 4)):
        head = drop(server, F, y, part).head
        np.testing.assert_allclose(head.weights, exact(server), atol=1e-6)


def test_the_draws_of_a_key_outlive_the_rules_name():
    """The words in the seed are older than the rule's name: other words would give saved keys another mask."""
    rule = DeletionMask(0.1, key=KEY)
    server, F, y = served(rule)
    before = server.ledger.copy()
    drop(server, F, y, slice(0, 1))
    A = before.summary.gram + GAMMA * np.eye(D)
    masked, true = rule.masked_totals(server.ledger), server.ledger.summary
    M_A, M_G = masked[0] - true.gram - GAMMA * np.eye(D), masked[1] - true.moment
    white = np.linalg.solve(np.linalg.cholesky(A), M_G - M_A @ before.head()) / rule.deletion_noise(D)[0]
    state = Sticky(bytes.fromhex(KEY), "deletion_mask").digest(server.ledger)
    seeded = keyed_generator(bytes.fromhex(KEY), "deletion_mask", bytes(8) + state)
    np.testing.assert_allclose(white, seeded.standard_normal((D, C)), atol=1e-8)


def test_a_draw_that_does_not_fit_is_taken_again():
    """In one dimension one draw in a hundred or so leaves less than the floor of the true gram."""
    rng = np.random.default_rng(0)
    F, y = np.abs(rng.standard_normal((200, 1))) + 0.5, rng.integers(0, C, 200)
    redrawn = 0
    for number in range(400):
        rule = DeletionMask(0.1, spread=0.79, memory=0.0, key=f"{number:032x}")
        server = Server(Ledger(Summary.of(F, y, C), GAMMA), release=rule)
        drop(server, F, y, slice(0, 1))
        masked, true = rule.masked_totals(server.ledger)[0][0, 0], server.ledger.summary.gram[0, 0] + GAMMA
        assert masked > FLOOR * true
        assert math.isfinite(rule.deletions[0].mu)
        redrawn += rule.remembered().values["draws"] > 1
    # tau sqrt(2) = 0.79 / 2 of a normal draw must stay above -0.95: missed with a probability of 0.8%.
    assert 0 < redrawn < 20


def test_after_five_draws_that_do_not_fit_older_parts_fade(monkeypatch):
    def later(misfits):
        rule = DeletionMask(0.1, key=KEY)
        server, F, y = served(rule)
        drop(server, F, y, slice(0, 1))
        left = iter([False] * misfits)
        with monkeypatch.context() as patched:
            patched.setattr("exhume.defence.release.deletion_mask.fits", lambda *parts: next(left, True))
            drop(server, F, y, slice(1, 2), "bob")
        return rule.deletions[0].later

    plain = later(0)
    assert later(4) == plain
    assert later(5) == later(9) == plain + 0.25
    assert later(10) == plain + 0.5


def test_the_total_of_a_deletion_adds_what_was_told_later_in_squares():
    assert MaskedDeletion(1, "alice", 0.5, later=3.0).total == pytest.approx(1.0)
    assert MaskedDeletion(1, "alice", 0.5).total == 0.5
