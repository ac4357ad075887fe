"""Continual noise: the factorisation, the figure per event, what is saved, epochs, and the cap."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import toeplitz

from exhume import Ledger, Server, Summary, Update
from exhume.defence import Bounds, Config, Entry, build, hardened_config, load_server, save_server
from exhume.defence.admission import Ownership
from exhume.defence.default import OUTLIER
from exhume.defence.release import Chain, ContinualNoise, Heads, PosteriorNoise
from exhume.defence.release._cuts import Records
from exhume.defence.release._epoch import Draws, Epoch, EpochMeasure
from exhume.defence.release._factorisation import Factorisation, square_root
from exhume.defence.release._noisy_head import FLOOR, RIDGE, solve
from exhume.defence.release._packed import add_products, diagonal, identity, packed, unpacked, whole
from exhume.defence.release._told import noise_of_history
from exhume.errors import InputError, RefusedError
from exhume.protocol import Batch, itemise

D, C, GAMMA, KEY = 6, 3, 1e-2, "42" * 16


def lower(column):
    """Return the dense lower triangular Toeplitz matrix of a first column."""
    return toeplitz(column, np.zeros(len(column)))


def rows(n, seed=0, d=D):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, C, n)
    centres = np.random.default_rng(99).normal(size=(C, d))
    return np.maximum(rng.normal(size=(n, d)) + 1.5 * centres[y], 0.0) + 1e-3, y


def ledger(n=300, seed=0):
    return Ledger(Summary.of(*rows(n, seed), C), GAMMA)


def one(seed):
    return Summary.of(*rows(1, seed + 1000), C)


def server_of(rule, start=None):
    return Server(start or ledger(), release=Chain([rule, Heads()]))


class TestFactorisation:
    @pytest.mark.parametrize("n", [2, 17, 200])
    def test_the_square_root_squared_is_the_prefix_sum_matrix(self, n):
        np.testing.assert_allclose(square_root(4), [1, 1 / 2, 3 / 8, 5 / 16])
        root = lower(square_root(n))
        np.testing.assert_allclose(root @ root, np.tril(np.ones((n, n))), atol=1e-12)

    @pytest.mark.parametrize("n", [2, 17, 200, 1000])
    def test_both_factors_multiply_to_prefix_sums(self, n):
        f = Factorisation.of(n)
        B, ones = lower(f.decoder(n)), np.tril(np.ones((n, n)))
        encoder = np.linalg.solve(B, ones)
        np.testing.assert_allclose(f.encoder(n), encoder[:, 0], atol=1e-11)
        assert f.sensitivity == pytest.approx(np.linalg.norm(encoder, axis=0).max(), rel=1e-10)
        assert f.largest == pytest.approx(np.linalg.norm(B, axis=1).max(), rel=1e-12)

    @pytest.mark.parametrize(("n", "more"), [(10, 1.02), (100, 1.02), (1000, 1.02), (10_000, 1.02), (100_000, 1.04)])
    def test_few_powers_come_close_to_the_square_root(self, n, more):
        f, best = Factorisation.of(n), float(np.sum(square_root(n) ** 2))
        assert f.sensitivity * f.largest <= more * best

    @pytest.mark.parametrize("n", [10, 1000, 10_000])
    def test_what_one_life_moves_is_at_most_the_root_of_two_events(self, n):
        """Columns of C have no negative product: all entries are positive."""
        assert Factorisation.of(n).encoder(n).min() > 0

    @pytest.mark.extras
    @pytest.mark.parametrize("n", [2, 17, 1000])
    def test_jax_privacy_has_the_same_factors_and_the_same_account(self, n):
        jax = pytest.importorskip("jax", reason="the 'oracle' extra is not installed")
        toeplitz = pytest.importorskip(
            "jax_privacy.matrix_factorization.toeplitz", reason="the 'oracle' extra is not installed"
        )
        buffered = pytest.importorskip("jax_privacy.matrix_factorization.buffered_toeplitz")
        f = Factorisation.of(n)
        with jax.enable_x64(True):
            np.testing.assert_allclose(toeplitz.optimal_max_error_strategy_coefs(n), square_root(n), rtol=1e-12)
            encoder = np.cumsum(toeplitz.inverse_coef(f.decoder(n)))
            np.testing.assert_allclose(encoder, f.encoder(n), rtol=1e-10)
            assert float(toeplitz.sensitivity_squared(f.encoder(n))) == pytest.approx(f.sensitivity**2, rel=1e-10)
            error = float(np.max(toeplitz.per_query_error(strategy_coef=f.encoder(n))))
            assert error == pytest.approx(f.largest**2, rel=1e-10)
            ours = buffered.BufferedToeplitz.build(f.decays, f.weights * f.decays)
            np.testing.assert_allclose(ours.toeplitz_coefs(n), f.decoder(n), rtol=1e-10)
            root = toeplitz.optimal_max_error_strategy_coefs(n)
            best = float(toeplitz.sensitivity_squared(root) * np.max(toeplitz.per_query_error(strategy_coef=root)))
        assert best * (1 - 1e-12) <= (f.sensitivity * f.largest) ** 2 <= 1.04 * best

    def test_a_horizon_of_nothing_is_refused(self):
        with pytest.raises(InputError, match="horizon"):
            Factorisation.of(1)


class TestPacked:
    @pytest.mark.parametrize("d", [1, 2, 3, 6, 7])
    def test_a_triangle_is_the_matrix(self, d):
        made = np.arange(1.0, d * d + 1).reshape(d, d)
        made = made + made.T
        triangle = packed(made)
        np.testing.assert_array_equal(triangle[diagonal(d)], np.diag(made))
        np.testing.assert_array_equal(np.tril(unpacked(triangle, d)), np.tril(made))
        np.testing.assert_array_equal(whole(triangle, d), made)
        np.testing.assert_array_equal(whole(identity(d), d), np.eye(d))
        columns = np.asfortranarray(np.ones((d, 2)) * [1.0, 3.0])
        add_products(triangle, columns, -0.5)
        np.testing.assert_allclose(whole(triangle, d), made - 5.0)


class TestBlocks:
    @pytest.mark.parametrize("n", [1, 2, 5, 6, 40])
    def test_a_block_is_its_rows_or_its_gram_in_the_measures_coordinates(self, n):
        d = 48
        F, y = rows(200, 3, d)
        measure = EpochMeasure.of(F.T @ F + np.eye(d), F.T @ np.eye(C)[y])
        block = Summary.of(*rows(n, 4, d), C)
        event = measure.event(block)
        assert (event.rows is not None) is (n <= d // 8) and event.single is (n == 1)
        inverse = np.linalg.inv(np.tril(measure.factor))
        made = packed(np.zeros((d, d)))
        event.add_to(made, -1.0)
        np.testing.assert_allclose(whole(made, d), -inverse @ block.gram @ inverse.T, atol=1e-10)
        np.testing.assert_allclose(event.moment, inverse @ (block.moment - block.gram @ measure.head), atol=1e-10)
        assert event.sizes[0] == pytest.approx(np.linalg.norm(inverse @ block.gram @ inverse.T))

    @pytest.mark.parametrize("n", [1, 5, 24, 25])
    def test_a_block_whose_rows_are_known_is_the_same_block(self, n):
        d = 48
        F, y = rows(200, 3, d)
        measure = EpochMeasure.of(F.T @ F + np.eye(d), F.T @ np.eye(C)[y])
        block, batch = Summary.of(*rows(n, 4, d), C), Batch(*rows(n, 4, d))
        told, summed = Records.of(measure, block, batch).event(np.ones(n)), measure.event(block)
        assert (told.dense is None) is (n <= d // 2)
        grams = [packed(np.zeros((d, d))) for _ in range(2)]
        told.add_to(grams[0], 0.5)
        summed.add_to(grams[1], 0.5)
        np.testing.assert_allclose(*grams, atol=1e-10)
        np.testing.assert_allclose(told.moment, summed.moment, atol=1e-10)
        np.testing.assert_allclose(told.sizes, summed.sizes, rtol=1e-9)

    def test_what_is_no_gram_is_not_taken_for_a_record(self):
        F, y = rows(200, 3)
        measure = EpochMeasure.of(F.T @ F + np.eye(D), F.T @ np.eye(C)[y])
        odd = np.outer(F[0], F[0])
        odd[0, 1] = odd[1, 0] = odd[0, 1] + 1.0
        assert measure.event(Summary(odd, np.zeros((D, C)))).rows is None


class TestDraws:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(1, 400), st.integers(0, 2**31))
    def test_running_sums_are_the_dense_product(self, events, seed):
        f, rng = Factorisation.of(1000), np.random.default_rng(seed)
        draws, z = Draws(f, 1, 1), rng.normal(size=(events, 2))
        for row in z[:-1]:
            draws.add(row)
        ahead = draws.noise(z[-1])
        draws.add(z[-1])
        expected = lower(f.decoder(events)) @ z
        np.testing.assert_allclose(draws.noise(), expected[-1], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ahead, draws.noise(), rtol=1e-9, atol=1e-9)

    def test_the_noise_on_a_gram_is_symmetric_with_twice_the_variance_on_the_diagonal(self):
        draws, rng = Draws(Factorisation.of(10), 4, 1), np.random.default_rng(0)
        made = [whole(draws.parts(rng.normal(size=14), 2.0, 0.5)[0], 4) for _ in range(20_000)]
        spread = np.var(made, axis=0)
        np.testing.assert_allclose(np.diag(spread), 2 * 0.25, rtol=0.05)
        np.testing.assert_allclose(spread[np.tril_indices(4, -1)], 0.25, rtol=0.05)

    @pytest.mark.parametrize(
        ("least", "ridge"),
        [(1.0, 0.0), (FLOOR, 0.0), (0.99 * FLOOR, RIDGE), (0.2, 2 * RIDGE), (-0.2, 4 * RIDGE), (-5.0, 32 * RIDGE)],
    )
    def test_a_gram_with_a_pivot_below_the_floor_gets_the_first_ridge_that_suffices(self, least, ridge):
        rng = np.random.default_rng(0)
        gram, moment = np.diag([2.0, least, 3.0]), rng.normal(size=(3, 2))
        gram[2, 0] = gram[0, 2] = 0.3
        solved, lifted = solve(packed(gram), moment, lambda: packed(gram))
        expected = gram + ridge * np.eye(3)
        np.testing.assert_allclose(expected @ solved, moment, rtol=1e-12)
        assert (lifted is None) is (ridge == 0.0)
        if lifted is not None:
            np.testing.assert_allclose(lifted, expected, rtol=1e-12)

    def test_what_is_not_a_number_is_an_error_and_no_endless_search(self):
        gram = np.full((3, 3), np.nan)
        with pytest.raises(np.linalg.LinAlgError, match="no ridge"):
            solve(packed(gram), np.ones((3, 1)), lambda: packed(gram))

    def test_noise_about_the_measure_itself_leaves_no_pivot_below_the_floor(self):
        d, rng = 96, np.random.default_rng(1)
        for _ in range(40):
            noise = rng.normal(size=(d, d))
            gram = np.eye(d) + 0.7 / (2 * math.sqrt(d)) * (noise + noise.T) / math.sqrt(2)
            assert np.linalg.cholesky(gram).diagonal().min() ** 2 > FLOOR


def played(rule, updates, start=None):
    """Return all noisy totals of a server's history, those at the start first."""
    server = server_of(rule, start)
    server.head()
    found = [rule.masked_totals(server.ledger)]
    for client, update in updates:
        assert server.submit(update, client).accepted
        found.append(rule.masked_totals(server.ledger))
    return server, found


def test_heads_are_those_of_the_noisy_totals():
    rule = ContinualNoise(0.1, key=KEY)
    server, found = played(rule, [("a", Update.adding(one(1))), ("b", Update.deleting(one(1)))])
    A, G = found[-1]
    np.testing.assert_allclose(server.head().weights, np.linalg.solve(A, G), rtol=1e-9)
    exact = server.ledger.head()
    assert 1e-4 < np.linalg.norm(server.head().weights - exact) / np.linalg.norm(exact) < 0.5


@pytest.mark.parametrize("block", [one(3), Summary.of(*rows(4, 7), C)])
def test_the_figure_of_an_event_is_that_of_the_best_test_in_two_thousand_draws(block):
    """An observer of every total, before and after: its optimal statistic is mu apart in units of its own noise."""
    horizon, events, at = 12, 6, 1
    f = Factorisation.of(horizon)
    C_ = lower(f.encoder(events))
    start = ledger()
    measure = EpochMeasure.of(start.summary.gram + GAMMA * np.eye(D), start.summary.moment)
    s, tau = ContinualNoise(0.3, horizon=horizon, key=KEY).event_noise(D)
    direction = measure.event(block)
    gram = direction.dense if direction.rows is None else direction.rows @ direction.rows.T
    statistics = []
    for trial in range(2000):
        rule = ContinualNoise(0.3, horizon=horizon, key=trial.to_bytes(16, "little"))
        deleted = trial % 2 == 1
        updates = [("x", Update.adding(Summary.zeros(D, C)))] * events
        if deleted:
            updates[at] = ("x", Update.deleting(block))
        _, found = played(rule, updates, start.copy())
        whites = [_white(measure, A, G) for A, G in found[1:]]
        seen = np.array([np.concatenate([T.ravel() / (math.sqrt(2) * tau), R.ravel() / s]) for T, R in whites])
        first = _white(measure, *found[0])
        # The opening draw is in all totals with a known share; leave it out, as an observer can who saw the first head.
        opening = np.concatenate([(first[0] - np.eye(D)).ravel() / (math.sqrt(2) * tau), first[1].ravel() / s])
        seen -= f.decoder(events + 1)[1:, None] * opening
        seen[:, : D * D] -= np.eye(D).ravel() / (math.sqrt(2) * tau)
        white = np.linalg.solve(lower(f.decoder(events)), seen)
        v = -np.concatenate([gram.ravel() / (math.sqrt(2) * tau), direction.moment.ravel() / s])
        filtered = np.outer(C_[:, at], v)
        statistics.append((deleted, float(np.sum(white * filtered) / np.linalg.norm(filtered))))
    yes = np.array([x for d, x in statistics if d])
    no = np.array([x for d, x in statistics if not d])
    mu = np.linalg.norm(C_[:, at]) * math.hypot(
        np.linalg.norm(gram) / (math.sqrt(2) * tau), np.linalg.norm(direction.moment) / s
    )
    told = ContinualNoise(0.3, horizon=horizon, key=KEY).mu(direction)
    # The figure is for an event with all of the horizon still to come.
    assert told == pytest.approx(mu * f.sensitivity / np.linalg.norm(C_[:, at]), rel=1e-9)
    # Each mean of 1,000 has a standard error of 1/sqrt(1000): the difference is within 4 of them, of sqrt(2) each.
    assert yes.mean() - no.mean() == pytest.approx(mu, abs=4 * math.sqrt(2 / 1000))
    for side in (yes, no):
        assert side.std() == pytest.approx(1.0, abs=4 / math.sqrt(2000))


def _white(measure, A, G):
    inverse = np.linalg.inv(np.tril(measure.factor))
    return inverse @ A @ inverse.T, inverse @ (G - A @ measure.head)


def test_an_event_that_comes_and_goes_costs_the_same_and_a_life_the_root_of_two():
    rule = ContinualNoise(0.1, key=KEY)
    played(rule, [("a", Update.adding(one(1))), ("a", Update.deleting(one(1)))])
    came, went = rule.accounts
    assert (came.deleted, went.deleted) == (False, True)
    assert came.mu == pytest.approx(went.mu, rel=1e-12)
    assert came.life == pytest.approx(math.hypot(came.mu, went.mu))
    assert rule.quote(one(1)) == pytest.approx(came.life)
    assert rule.deletions == (went,) and went.figures()["mu_total"] == went.mu


def test_the_cap_cuts_records_and_sums_and_takes_the_same_share_out_again():
    free = ContinualNoise(0.1, key=KEY)
    played(free, [("a", Update.adding(one(1)))])
    cap = 0.5 * free.accounts[0].mu
    rule = ContinualNoise(0.1, cap=cap, key=KEY)
    server, _ = played(rule, [("a", Update.adding(one(1)))])
    assert rule.accounts[0].mu == pytest.approx(cap) and rule.quote(one(1)) == pytest.approx(math.sqrt(2) * cap)
    exact, epoch = server.ledger.summary, rule._epoch
    rule.masked_totals(server.ledger)
    whole = np.linalg.norm(epoch.measure.event(one(1)).moment)
    assert np.linalg.norm(epoch.totals.moment) == pytest.approx(0.5 * whole)  # half of the record is in the totals
    server.submit(Update.deleting(one(1)), "a")
    rule.masked_totals(server.ledger)
    np.testing.assert_allclose(epoch.totals.gram, identity(D), atol=1e-12)
    np.testing.assert_allclose(server.ledger.summary.gram, exact.gram - one(1).gram, rtol=1e-12)  # the ledger has all
    block = Summary.of(*rows(5, 7), C)
    server.submit(Update.adding(block), "a")
    rule.masked_totals(server.ledger)
    account = rule.accounts[-1]
    assert rule.quote(block) == pytest.approx(math.sqrt(2) * account.mu) and account.mu > cap > 0.01 * account.mu
    moved, whole = np.linalg.norm(epoch.totals.moment), np.linalg.norm(epoch.measure.event(block).moment)
    assert 0 < moved < 0.9 * whole  # as no record in it may have more, the block is cut as one
    server.submit(Update.deleting(block), "a")
    rule.masked_totals(server.ledger)
    np.testing.assert_allclose(epoch.totals.gram, identity(D), atol=1e-12)
    assert rule._cuts == {}


def test_a_restart_in_the_middle_changes_nothing(tmp_path):
    config = Config(release=(Entry.of("continual-noise", sigma=0.1, horizon=4, key=KEY), Entry.of("heads")))
    updates = [("a", Update.adding(one(i))) for i in range(12)] + [("b", Update.deleting(one(i))) for i in range(4)]
    steady, restarted = (build(config, ledger()).server(ledger()) for _ in range(2))
    for i, (client, update) in enumerate(updates):
        if i % 5 == 2:
            save_server(restarted, tmp_path / "s", replace=True)
            restarted = load_server(config, tmp_path / "s")
        heads = [server.submit(update, client).head for server in (steady, restarted)]
        np.testing.assert_array_equal(heads[0].weights, heads[1].weights)
    one_, two = (server.release.rules[0] for server in (steady, restarted))
    assert one_.accounts == two.accounts and one_.epochs == two.epochs == 3
    for left, right in zip(one_.masked_totals(steady.ledger), two.masked_totals(restarted.ledger), strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_server_set_back_draws_other_noise_for_another_event():
    rule = ContinualNoise(0.1, key=KEY)
    server, _ = played(rule, [])
    state = rule.save()
    draws = []
    for seed in (1, 2, 1):
        rule.load(state)
        before = rule.masked_totals(server.ledger)[1]
        twin = Server(ledger(), release=rule)
        twin.submit(Update.adding(one(seed)), "a")
        draws.append(rule.masked_totals(twin.ledger)[1] - before - one(seed).moment)
    np.testing.assert_allclose(draws[0], draws[2], atol=1e-9)
    assert np.linalg.norm(draws[0] - draws[1]) > 0.1 * np.linalg.norm(draws[0])


def test_epochs_end_at_the_horizon_and_when_the_totals_have_grown_and_noise_stays():
    rule = ContinualNoise(0.1, horizon=4, key=KEY)
    _, found = played(rule, [("a", Update.adding(one(i))) for i in range(13)])
    assert rule.epochs == 3  # of 4, 8 and 16 events
    steps = [np.linalg.norm(b[0] - a[0] - one(i).gram) for i, (a, b) in enumerate(pairwise(found))]
    assert max(steps) < 4 * np.median(steps)  # no jump where one epoch ends and the next begins
    grown = ContinualNoise(0.1, horizon=1000, key=KEY)
    far = np.zeros((1, D))
    far[0, 0] = 100.0  # the totals double in one direction; in others the noisy gram is below the measure
    played(grown, [("a", Update.adding(Summary.of(far, [0], C)))])
    first = grown._epoch.measure
    assert grown.epochs == 2
    before = EpochMeasure.of(ledger().summary.gram + GAMMA * np.eye(D), ledger().summary.moment)
    gap = first.factor @ first.factor.T - np.tril(before.factor) @ np.tril(before.factor).T
    assert np.linalg.eigvalsh(gap).min() > -1e-8  # no record weighs more in the next measure


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=12), st.integers(2, 9))
def test_without_noise_the_heads_are_the_ledgers_own(script, horizon):
    """Noise of almost nothing: what is left is the algebra of coordinates, epochs and blocks."""
    rule = ContinualNoise(1e-11, spread=1e-11, horizon=horizon, key=KEY)
    server = server_of(rule)
    for seed, n in script:
        block = Summary.of(*rows(n, seed), C)
        for update in (Update.adding(block), Update(one(seed), block)):
            weights = server.submit(update, "a").head.weights
            np.testing.assert_allclose(weights, server.ledger.head(), rtol=1e-6, atol=1e-7)
    A, G = rule.masked_totals(server.ledger)
    np.testing.assert_allclose(A, server.ledger.summary.gram + GAMMA * np.eye(D), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(G, server.ledger.summary.moment, rtol=1e-6, atol=1e-6)


def test_no_head_goes_out_before_the_founders_are_in():
    rule = ContinualNoise(0.1, founding=3, key=KEY)
    server = server_of(rule, Ledger.zeros(D, C, GAMMA))
    with pytest.raises(RefusedError):
        server.head()
    block = Summary.of(*rows(60), C)
    heads = [server.submit(Update.adding(block), f"client {i}").head for i in range(4)]
    assert [head is None for head in heads] == [True, True, False, False]
    assert len(rule.accounts) == 1  # founders are in the measure
    with pytest.raises(InputError, match="measure"):
        ContinualNoise(0.1).quote(block)


def test_with_public_rows_every_addition_is_in_the_account():
    public = Summary.of(*rows(300, 5), C)
    rule = ContinualNoise(0.05, spread=0.2, public=public, key=KEY)
    server = server_of(rule, Ledger.zeros(D, C, GAMMA))
    for i in range(5):
        server.submit(Update.adding(Summary.of(*rows(60, i), C)), "a")
    assert len(rule.accounts) == 5
    exact = server.ledger.head()
    assert np.linalg.norm(server.head().weights - exact) < 0.5 * np.linalg.norm(exact)
    again = ContinualNoise(0.05, spread=0.2)
    again.load(rule.save())
    assert again.quote(one(1)) == rule.quote(one(1))


@pytest.mark.parametrize("founding", [0, 1, 4])
@pytest.mark.parametrize("asked", [False, True])
def test_with_public_rows_the_first_message_is_an_event_like_any_other(founding, asked):
    """Cut, accounted and taken out again as it came, whether or not somebody asked for a head before it."""
    public = Summary.of(*rows(300, 5), C)
    rule = ContinualNoise(0.05, public=public, founding=founding, cap=1.0, by_rows=True, grows=False, key=KEY)
    server = Server(Ledger(Summary.of(*rows(40, 6), C), GAMMA), release=Chain([rule, Heads()]))
    if asked and not founding:
        server.head()
    start = Ledger(Summary.of(*rows(40, 6), C), GAMMA).summary
    long = (40.0 * rows(2, 7)[0], rows(2, 7)[1])
    for n, side in enumerate(("add", "delete", "add", "delete"), 1):
        receipt = server.submit(itemise(C, **{side: long}), "mallory")
        assert (receipt.head is None) is (n < founding)
        assert len(rule.accounts) == n and rule.accounts[-1].mu == pytest.approx(1.0)
    rule.told()
    totals, measure = rule._epoch.totals, rule._epoch.measure
    expected = measure.gram(start.gram + GAMMA * np.eye(D))
    # The first message is taken out of the ledger's sums: roundoff of its size is left.
    size = measure.event(Summary.of(*long, C)).sizes[0]
    np.testing.assert_allclose(whole(totals.gram, D), expected, atol=100 * D * np.finfo(float).eps * size)
    assert rule.quote(Batch(*long)) == pytest.approx(math.sqrt(2.0)) and rule._cuts == {}


def test_a_measure_that_does_not_grow_stays_as_it_is_whatever_stands_when_an_epoch_ends():
    rule = ContinualNoise(0.1, horizon=4, grows=False, key=KEY)
    server, _ = played(rule, [("a", Update.adding(one(1)))])
    rule.told()
    measure = rule._epoch.measure
    flood = Summary.of(30.0 * rows(50, 8)[0], rows(50, 8)[1], C)
    for i in range(40):
        server.submit(Update.adding(flood) if i % 5 == 0 else Update.adding(one(i)), "mallory")
    rule.told()
    assert rule.epochs > 3 and rule._epoch.measure is measure


def test_a_small_record_leaves_nothing_behind_in_the_company_of_large_ones():
    """Of each turn a share of the company's size once stayed: sums of many rows dropped what was small beside them."""
    rule = ContinualNoise(0.1, by_rows=True, cap=2.0, grows=False, key=KEY)
    server = server_of(rule, Ledger(Summary.of(*rows(300), C), GAMMA))
    server.head()
    totals = rule._epoch.totals
    gram = totals.gram.copy()
    small, large = 1e-6 * rows(1, 3)[0], 1e4 * rows(D, 4)[0]
    turns = 25
    for _ in range(turns):
        server.submit(itemise(C, add=(np.vstack([small, large]), [0] * (D + 1))), "a")
        server.submit(itemise(C, delete=(small, [0])), "a")
        server.submit(itemise(C, delete=(large, [0] * D)), "a")
    rule.told()
    # Heads are shown at most a mu of 2 of each: nothing is larger than what that makes of the gram.
    _, tau = rule.event_noise(D)
    shown = D * 2.0 * math.sqrt(2.0) * tau / rule._present.sensitivity
    np.testing.assert_allclose(totals.gram, gram, atol=3 * turns * D * np.finfo(float).eps * (1.0 + shown))


def test_rules_behind_it_see_the_noisy_ledger():
    class Spy(PosteriorNoise):
        seen = None

        def release(self, head, occasion):
            Spy.seen = occasion.ledger
            return super().release(head, occasion)

    rule = ContinualNoise(0.1, key=KEY)
    server = Server(ledger(), release=Chain([rule, Spy(1e-9), Heads()]))
    server.submit(Update.deleting(Summary.of(rows(300)[0][:1], rows(300)[1][:1], C)), "a")
    A, G = rule.masked_totals(server.ledger)
    np.testing.assert_allclose(Spy.seen.summary.gram + GAMMA * np.eye(D), A, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(Spy.seen.head(), np.linalg.solve(A, G), rtol=1e-6, atol=1e-8)


def test_a_ledger_that_shrinks_below_its_noise_still_has_a_head():
    F, y = rows(300)
    rule = ContinualNoise(0.1, key=KEY)
    server, _ = played(rule, [])
    for start in range(0, 299, 13):
        assert server.submit(Update.deleting(Summary.of(F[start : start + 13], y[start : start + 13], C)), "a").accepted
    assert np.isfinite(server.head().weights).all()


@pytest.mark.parametrize(
    "bad", [{"sigma": 0}, {"spread": 0.8}, {"spread": 0}, {"horizon": 1}, {"cap": 0}, {"founding": -1}]
)
def test_wrong_options_are_named(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        ContinualNoise(**{"sigma": 0.1, **bad})


def test_told_every_total_the_best_combination_is_that_of_dense_least_squares():
    """Plain NumPy on the noisy totals themselves: undo B, weigh by C, and what is left is the noise that we say."""
    rule, n = ContinualNoise(0.3, horizon=50, key=KEY), 12
    server = server_of(rule)
    server.submit(Update.adding(one(0)), "a")
    start, states, noises = rule.told(), [], []
    factor, tau = np.tril(start.measure.factor), start.tau
    states.append(start)

    def noise():
        A, _ = rule.masked_totals(server.ledger)
        exact = server.ledger.summary.gram + GAMMA * np.eye(D)
        half = np.linalg.solve(factor, A - exact)
        return np.linalg.solve(factor, half.T) / tau

    before = noise()
    for i in range(1, n + 1):
        server.submit(Update.adding(one(i)) if i % 2 else Update.deleting(one(i - 1)), "a")
        states.append(rule.told())
        noises.append(noise())
    f = Factorisation.of(50)
    z = np.linalg.solve(lower(f.decoder(n + 1)), np.array([before, *noises]).reshape(n + 1, -1))[1:]
    c = f.encoder(n)
    gram, moment, size = noise_of_history(states)
    np.testing.assert_allclose(gram / tau, (c @ z).reshape(D, D) / (c @ c), atol=1e-8)
    assert size == pytest.approx(1 / np.sqrt(c @ c)) and moment.shape == (D, C)
    assert noise_of_history(states[:1]) is None


def test_who_spends_events_turns_few_epochs_and_a_record_stays_at_its_mu():
    rule = ContinualNoise(0.1, horizon=10, key=KEY)
    server = server_of(rule)
    server.submit(Update.adding(one(0)), "a")
    event = rule.shown(one(1))
    first, noise = rule.mu(event), rule.event_noise(D)
    for i in range(1, 300):
        server.submit(Update.adding(one(1)) if i % 2 else Update.deleting(one(1)), "mallory")
    assert rule.epochs == 5  # 10 + 20 + 40 + 80 events are gone, the fifth has 160
    assert rule.mu(event) == pytest.approx(first, rel=1e-12)
    more = Factorisation.of(160).sensitivity / Factorisation.of(10).sensitivity
    np.testing.assert_allclose(rule.event_noise(D), np.array(noise) * more)
    # The spread that the epochs so far have left, each at its end: that of the first is 0.7.
    lasted = [(Factorisation.of(n), n) for n in (10, 20, 40, 80)]
    base = Factorisation.of(10).sensitivity * Factorisation.of(10).largest / 0.7
    left = sum((f.sensitivity * f.growth(n) / base) ** 2 for f, n in lasted)
    assert rule._epoch.left == pytest.approx(left, rel=1e-9)


def test_a_gram_that_many_epochs_have_spread_is_drawn_towards_the_measure():
    epoch = Epoch(EpochMeasure(np.eye(D), np.zeros((D, C))), None, None, left=0.51)
    gram = packed(np.diag(np.arange(D, dtype=float)))
    share = 0.7 / math.sqrt(0.51 + 0.49)
    np.testing.assert_allclose(whole(epoch.steadied(gram, 0.7), D), np.diag(share * np.arange(D) + 1 - share))
    assert replace(epoch, left=0.0).steadied(gram, 0.75) is gram
    assert replace(epoch, left=0.1).steadied(gram, 0.5) is gram  # 0.59 all in all


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("singly", ["in", "out", "both"])
def test_whatever_company_a_cut_record_comes_and_goes_in_nothing_of_it_stays(singly, epochs):
    """A client that added outliers one by one and took them out together once took more out of everybody's heads."""
    free = ContinualNoise(0.1, key=KEY)
    played(free, [("a", Update.adding(one(1)))])
    rule = ContinualNoise(0.1, horizon=1000 if epochs == 1 else 3, cap=0.2 * free.accounts[0].mu, by_rows=True, key=KEY)
    server = Server(ledger(), admission=[Ownership(D, C, show_rows=True)], release=Chain([rule, Heads()]))
    server.submit(Update.adding(Summary.zeros(D, C)), "a")
    F, y = rows(2, 1001)

    def sides(apart):
        return [(F[[i]], y[[i]]) for i in range(2)] if apart else [(F, y)]

    rule.masked_totals(server.ledger)
    before = rule.masked_totals(server.ledger)[0] - noise_on(rule)
    for _ in range(5):
        for side in sides(singly in ("in", "both")):
            assert server.submit(itemise(C, add=side), "mallory").accepted
        for side in sides(singly in ("out", "both")):
            assert server.submit(itemise(C, delete=side), "mallory").accepted
    rule.masked_totals(server.ledger)  # takes the last step in
    assert rule.epochs >= epochs and not rule._cuts
    if epochs == 1:
        after = rule.masked_totals(server.ledger)[0] - noise_on(rule)
        np.testing.assert_allclose(after, before, atol=1e-9 * np.abs(before).max())
    restored = ContinualNoise(0.1, horizon=rule.horizon, cap=rule.cap, by_rows=True, key=KEY)
    server.submit(itemise(C, add=(F, y)), "mallory")
    restored.load(rule.save())
    assert restored._cuts == rule._cuts and len(rule._cuts) == 2


def noise_on(rule):
    """Return the noise of the present epoch on the gram."""
    told = rule.told()
    gram, _ = told.draws.parts(told.draws.noise(), told.s, told.tau)
    factor = np.tril(told.measure.factor)
    return factor @ whole(gram, D) @ factor.T


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 50), st.integers(1, 6), st.floats(1.0, 30.0))
def test_what_is_quoted_holds_in_every_later_epoch(seed, horizon, longer):
    """The measure never shrinks and moments stay about the first head: no figure is above the one quoted at first."""
    rule = ContinualNoise(0.1, horizon=horizon + 1, grows=False, key=KEY)
    server = server_of(rule)
    server.submit(Update.adding(one(seed)), "a")
    records = [one(seed + i) for i in range(1, 6)]
    quoted = [rule.quote(record) for record in records]
    for record in records:
        server.submit(Update.adding(record), "a")
    features, labels = rows(40, seed + 7)
    for i in range(20):  # others move the totals and their head, by more than they were
        server.submit(Update.adding(Summary.of(longer * features[i::20], (labels[i::20] + 1) % C, C)), "b")
    assert rule.epochs > 2
    for record, known in zip(records, quoted, strict=True):
        server.submit(Update.deleting(record), "a")
        assert rule.deletions[-1].mu <= known / math.sqrt(2.0) * (1.0 + 1e-9)  # the quote is of coming and going


def test_a_measure_that_grows_is_about_the_head_of_its_own_epoch():
    """There a record can tell more when it goes than was quoted: the account says how much, the quote does not."""
    found = {}
    for grows in (False, True):
        rule = ContinualNoise(0.1, horizon=3, grows=grows, key=KEY)
        server = server_of(rule)
        server.submit(Update.adding(one(0)), "a")
        first = rule._epoch.measure.head
        features, labels = rows(40, 7)
        for i in range(20):
            server.submit(Update.adding(Summary.of(features[i::20], (labels[i::20] + 1) % C, C)), "b")
        found[grows] = np.abs(rule._epoch.measure.head - first).max()
    assert found[False] == 0.0 < 1e-3 < found[True]


class TestOutliers:
    def test_rows_in_a_measure_are_the_squared_length_of_the_constants_projection(self):
        features, labels = rows(300)
        measure = EpochMeasure.of(features.T @ features + 1e-9 * np.eye(D), features.T @ np.eye(C)[labels])
        fitted = features @ np.linalg.lstsq(features, np.ones(300), rcond=None)[0]
        assert measure.rows == pytest.approx(fitted @ fitted, rel=1e-6) and measure.rows < 300

    @pytest.mark.parametrize(("times", "cap"), [(4.0, 1e9), (4.0, 1.0), (0.5, 1e9)])
    def test_the_limit_is_so_many_average_records_and_at_most_the_cap(self, times, cap):
        rule = ContinualNoise(0.1, cap=cap, outlier=times, by_rows=True, grows=False, key=KEY)
        server = server_of(rule)
        server.head()
        s, tau = rule.event_noise(D)
        leverage = D / rule._epoch.measure.rows
        average = Factorisation.of(1000).sensitivity * math.sqrt(leverage**2 / (2 * tau**2) + leverage / s**2)
        far = np.full((1, D), 1e3)
        server.submit(itemise(C, add=(far, [0])), "a")
        assert rule.accounts[-1].mu == pytest.approx(min(cap, times * average), rel=1e-9)
        server.submit(itemise(C, delete=(far, [0])), "a")
        assert rule.deletions[-1].mu == pytest.approx(min(cap, times * average), rel=1e-9)
        np.testing.assert_allclose(rule._epoch.totals.gram, identity(D), atol=1e-9)  # what came has gone

    def test_a_record_within_the_limit_counts_whole_and_is_quoted_so(self):
        plain, limited = (ContinualNoise(0.1, cap=32.0, outlier=times, by_rows=True, key=KEY) for times in (None, 4.0))
        features, labels = rows(1, 5)
        for rule in (plain, limited):
            server_of(rule).head()
        far = Batch(1e3 * features, labels)
        assert limited.quote(Batch(features, labels)) == plain.quote(Batch(features, labels))
        assert limited.quote(far) < plain.quote(far) == pytest.approx(32.0 * math.sqrt(2.0))

    @pytest.mark.parametrize(("n", "length"), [(1, 0.5), (3, 1.0), (40, 1.0)])
    def test_sums_are_held_to_average_records_as_many_as_their_trace_may_be_of(self, n, length):
        """By the figure that bounds all records in them, and by the leverage alone, whichever is less."""
        longest = 40.0
        rule = ContinualNoise(0.1, cap=1.0, outlier=4.0, longest=longest, grows=False, key=KEY)
        server = server_of(rule)
        server.head()
        measure, (s, tau) = rule._epoch.measure, rule.event_noise(D)
        rule.told()
        block = Summary(n * (length * longest) ** 2 / D * np.eye(D), np.zeros((D, C)))
        count = n * length**2
        usual = (min(count, 1.0) * D + C * count) / measure.rows

        def mu(leverage, predicted):
            moment = math.sqrt(leverage) * (1 + math.sqrt(predicted))
            return Factorisation.of(1000).sensitivity * math.hypot(leverage / (math.sqrt(2) * tau), moment / s)

        white = np.linalg.solve(np.tril(measure.factor), np.eye(D)) * math.sqrt(block.gram[0, 0])
        leverage = np.linalg.eigvalsh(white @ white.T)[-1]
        largest = mu(leverage, np.linalg.eigvalsh(measure.head.T @ block.gram @ measure.head)[-1])
        limit = 4.0 * min(mu(usual, 1.0 + count), largest * usual / leverage)
        assert limit < 0.5 * largest
        server.submit(Update.adding(block), "a")
        rule.told()
        shown = np.linalg.norm(whole(rule._epoch.totals.gram, D) - np.eye(D)) / np.linalg.norm(white @ white.T)
        assert shown == pytest.approx(limit / largest, rel=1e-9)
        assert rule.accounts[-1].block == pytest.approx(shown * rule.mu(rule.shown(block)), rel=1e-9)
        server.submit(Update.deleting(block), "a")
        rule.told()
        np.testing.assert_allclose(rule._epoch.totals.gram, identity(D), atol=1e-9)

    def test_many_small_messages_of_sums_move_heads_no_more_than_few_large_ones(self):
        """Multiples of the identity, as much as a client may have, in up to ten messages a row."""
        longest, client = 40.0, 60
        found = {}
        for messages in (1, 60, 600):
            rule = ContinualNoise(0.1, cap=1.0, outlier=4.0, longest=longest, grows=False, key=KEY)
            server = server_of(rule, ledger(3000))
            server.head()
            block = Summary(client * longest**2 / D / messages * np.eye(D), np.zeros((D, C)))
            for i in range(messages):
                server.submit(Update.adding(Summary((1 + 1e-6 * i) * block.gram, block.moment)), "a")
            rule.told()
            shown = whole(rule._epoch.totals.gram, D) - np.eye(D)
            found[messages] = np.linalg.eigvalsh(shown)[-1]
            uncut = np.linalg.eigvalsh(client * longest**2 / D * np.linalg.inv(np.tril(rule._epoch.measure.factor)))[-1]
        # Each has at most outlier times the leverage of its share: together that of the client's rows.
        allowed = 4.0 * client * (D + C) / rule._epoch.measure.rows
        assert max(found.values()) <= allowed * 1.01 < 0.2 * uncut

    def test_honest_sums_count_whole(self):
        longest = 1.25 * np.linalg.norm(rows(2000)[0], axis=1).max()
        rule = ContinualNoise(0.1, cap=1e-6, outlier=4.0, longest=longest, grows=False, key=KEY)
        server = server_of(rule, ledger(2000))
        server.head()
        for n in (2, 10, 100, 600):
            block = Summary.of(*rows(n, 77 + n), C)
            server.submit(Update.adding(block), "a")
            account = rule.accounts[-1]
            assert account.together == pytest.approx(rule.mu(rule.shown(block)), rel=1e-9)

    def test_it_needs_a_cap_and_is_in_the_configuration_only_where_it_is_set(self):
        with pytest.raises(InputError, match="no cap"):
            ContinualNoise(0.1, outlier=4.0)
        with pytest.raises(InputError, match="no outlier"):
            ContinualNoise(0.1, cap=3.0, longest=4.0)
        with pytest.raises(InputError, match="longest"):
            ContinualNoise(0.1, cap=3.0, outlier=4.0, longest=0.0)
        assert "outlier" not in ContinualNoise(0.1, cap=3.0).configuration()
        assert ContinualNoise(0.1, cap=3.0, outlier=2.0).configuration()["outlier"] == 2.0

    def test_the_default_server_has_it_and_one_that_keeps_totals_has_not(self):
        assert hardened_config(D, rows=400).release[0].options["outlier"] == OUTLIER == 4.0
        assert "outlier" not in hardened_config(D, rows=400, show_rows=False, keep_totals=True).release[0].options
        assert "outlier" not in hardened_config(D, rows=400, outlier=None).release[0].options

    @pytest.mark.parametrize("options", [{}, {"show_rows": False}, {"show_rows": False, "keep_totals": True}])
    def test_only_a_server_that_takes_whole_messages_is_told_how_long_rows_may_be(self, options):
        bounds = Bounds(7.0, 10, 20)
        found = hardened_config(D, rows=400, bounds=bounds, **options).release[0].options
        assert found.get("longest") == (7.0 if options == {"show_rows": False} else None)
