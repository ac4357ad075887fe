import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from exhume import Ledger, Server, Summary, Update
from exhume.defence import privacy
from exhume.defence.release import Chain, PosteriorNoise, PrivacyBudget
from exhume.errors import InputError

D, C, GAMMA = 6, 3, 0.5


def rows(seed, n):
    rng = np.random.default_rng(seed)
    return np.abs(rng.normal(size=(n, D))), rng.integers(0, C, n)


def both_states(seed, deleted, n=40):
    """Return gram + gamma I and head with and without the first rows."""
    F, y = rows(seed, n)
    states = []
    for kept in (slice(None), slice(deleted, None)):
        s = Summary.of(F[kept], y[kept], C)
        A = s.gram + GAMMA * np.eye(D)
        states.append((A, np.linalg.solve(A, s.moment)))
    return states, Ledger(Summary.of(F[deleted:], y[deleted:], C), GAMMA), Summary.of(F[:deleted], y[:deleted], C), F, y


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_the_shift_is_the_whitened_difference_of_the_two_heads(seed, deleted):
    ((A, W), (A_less, W_less)), ledger, block, _, _ = both_states(seed, deleted)
    found = privacy.shift_of_deletion(ledger, block)
    direct = np.linalg.norm(np.linalg.cholesky(A).T @ (W - W_less))
    assert found.mean == pytest.approx(direct, rel=1e-8)
    eigenvalues = np.linalg.eigvals(np.linalg.solve(A_less, block.gram)).real.clip(0)
    assert found.covariance == pytest.approx(np.sqrt(C / 2 * (np.log1p(eigenvalues) ** 2).sum()), rel=1e-6)


@given(st.integers(0, 10**6))
def test_one_record_has_the_closed_form(seed):
    ((A, _), (_, W_less)), ledger, block, F, y = both_states(seed, 1)
    f = F[0]
    form = math.sqrt(f @ np.linalg.solve(A, f)) * np.linalg.norm(np.eye(C)[y[0]] - W_less.T @ f)
    assert privacy.shift_of_deletion(ledger, block).mean == pytest.approx(form, rel=1e-9)
    assert privacy.shift_of_deletion(ledger, block).mu(0.2) >= form / 0.2


def log_density(x, A, W, sigma):
    """Log density, up to a constant, of releases (n x d x c) around W with covariance sigma^2 A^-1."""
    white = np.einsum("ji,njc->nic", np.linalg.cholesky(A), x - W) / sigma
    return -0.5 * (white**2).sum(axis=(1, 2)) + 0.5 * C * np.linalg.slogdet(A)[1]


def releases(rng, n, A, W, sigma):
    L = np.linalg.cholesky(A)
    return W + sigma * np.linalg.solve(L.T, rng.standard_normal((n, D, C)))


@pytest.mark.parametrize("sigma", [0.1, 0.3, 1.0])
def test_no_likelihood_ratio_test_does_better_and_it_does_as_well(sigma):
    ((A, W), (A_less, W_less)), ledger, block, _, _ = both_states(3, 1, n=60)
    shift = privacy.shift_of_deletion(ledger, block)
    rng, n = np.random.default_rng(0), 20_000
    # Two binomial shares of n each: standard error at most (2 * 0.25 / n)^1/2; five of them.
    room = 5 * math.sqrt(0.5 / n)

    def tested(A_other):
        out = []
        for state in ((A, W), (A_other, W_less)):
            x = releases(rng, n, *state, sigma)
            out.append((log_density(x, A, W, sigma) > log_density(x, A_other, W_less, sigma)).mean())
        return out[0] - out[1]

    assert tested(A) == pytest.approx(privacy.advantage(shift.mean / sigma), abs=room)  # exact: common covariance
    # With each side's own covariance: a second-order term of at most the squared leverage beside the sampling error.
    leverage = math.expm1(shift.covariance / math.sqrt(C / 2))
    assert tested(A_less) == pytest.approx(privacy.advantage(shift.mu(sigma)), abs=room + leverage**2)


def test_releases_compose_in_squares_against_the_joint_test():
    mus = [0.3, 0.5, 0.1, 0.4]
    rng, n = np.random.default_rng(1), 100_000
    total = privacy.compose(mus)
    assert total == pytest.approx(math.sqrt(0.09 + 0.25 + 0.01 + 0.16))
    shares = [((rng.standard_normal((n, 4)) + side * np.array(mus)) @ mus > total**2 / 2).mean() for side in (1, 0)]
    assert shares[0] - shares[1] == pytest.approx(privacy.advantage(total), abs=5 * math.sqrt(0.5 / n))


@given(st.floats(0.01, 6.0))
@settings(max_examples=25)
def test_advantage_is_the_total_variation_of_two_normals(mu):
    overlap = integrate.quad(lambda x: min(stats.norm.pdf(x), stats.norm.pdf(x, mu)), -12, mu + 12, points=[mu / 2])[0]
    assert privacy.advantage(mu) == pytest.approx(1 - overlap, abs=1e-6)
    assert privacy.mu_of_advantage(privacy.advantage(mu)) == pytest.approx(mu, rel=1e-6)


@given(st.floats(0.05, 4.0), st.floats(0.0, 6.0))
@settings(max_examples=25)
def test_delta_is_the_hockey_stick_divergence(mu, epsilon):
    start = epsilon / mu + mu / 2  # where the densities' ratio passes e^epsilon
    gap = integrate.quad(lambda x: stats.norm.pdf(x, mu) - math.exp(epsilon) * stats.norm.pdf(x), start, start + 40)[0]
    assert privacy.delta_of(mu, epsilon) == pytest.approx(max(gap, 0.0), abs=1e-7)


@given(st.floats(0.01, 8.0), st.sampled_from([1e-8, 1e-5, 1e-2]))
def test_epsilon_inverts_delta(mu, delta):
    epsilon = privacy.epsilon_of(mu, delta)
    assert privacy.delta_of(mu, epsilon) <= delta * (1 + 1e-6)
    if epsilon > 1e-6:
        assert privacy.delta_of(mu, epsilon * 0.999) > delta


def test_averages_on_both_sides_gain_what_the_harmonic_mean_says():
    assert privacy.averaged(0.4, 100, 100) == pytest.approx(0.4 * math.sqrt(50))
    assert privacy.averaged(0.4, 1, 10**9) == pytest.approx(0.4)
    assert privacy.averaged(0.4, 0, 5) == 0.0


@pytest.mark.parametrize("sigma", [0.2, 1.0, 4.0])
def test_no_label_reader_passes_the_bound_even_if_it_knows_everything_but_the_label(sigma):
    rng = np.random.default_rng(2)
    F, y = rows(4, 60)
    f, trials = F[0], 20_000
    rest = Summary.of(F[1:], y[1:], C)
    A = rest.gram + np.outer(f, f) + GAMMA * np.eye(D)
    L, f_white = np.linalg.cholesky(A), np.linalg.solve(np.linalg.cholesky(A), f)
    labels = rng.integers(0, C, trials)
    # One head before the deletion, seen by somebody who knows all other rows and f.
    heads = np.stack([np.linalg.solve(A, rest.moment + np.outer(f, np.eye(C)[k])) for k in range(C)])
    x = heads[labels] + sigma * np.linalg.solve(L.T, rng.standard_normal((trials, D, C)))
    guess = np.einsum("i,ji,njc->nc", f_white, L, x - np.linalg.solve(A, rest.moment)).argmax(axis=1)
    shifts = [
        privacy.shift_of_deletion(Ledger(rest, GAMMA), Summary.of(f[None], np.array([k]), C)).mu(sigma)
        for k in range(C)
    ]
    bound = privacy.label_bound(max(shifts), C)
    assert (guess == labels).mean() <= bound + 5 * math.sqrt(0.25 / trials)


def budget_server(budget, sigma=0.2):
    F, y = rows(0, 60)
    return Server(Ledger(Summary.of(F, y, C), GAMMA), release=Chain([PosteriorNoise(sigma, "11" * 16), budget])), F, y


def add(server, client, seed):
    return server.submit(Update.adding(Summary.of(*rows(seed, 2), C)), client).head is not None


def test_a_budget_ends_a_quiet_run_and_a_change_of_somebody_else_opens_it_again():
    budget = PrivacyBudget(0.2, 1.0)
    server, F, y = budget_server(budget)
    server.submit(Update.deleting(Summary.of(F[:1], y[:1], C)), "alice")
    (deletion,) = budget.deletions
    affordable = max(int((1.0 / deletion.mu) ** 2), 1)
    assert [add(server, "mallory", i + 1) for i in range(affordable + 3)] == [True] * (affordable - 1) + [False] * 4
    assert budget.deletions[0].in_run <= max(1.0, deletion.mu)
    assert add(server, "bob", 90) and add(server, "mallory", 91)
    assert budget.deletions[0].closed and budget.deletions[0].total > budget.deletions[0].in_run


def test_always_is_for_good_and_the_deleting_client_opens_a_run():
    forever = PrivacyBudget(0.2, 1e-3, scope="always")
    server, F, y = budget_server(forever)
    assert server.submit(Update.deleting(Summary.of(F[:1], y[:1], C)), "alice").head is not None
    assert not any(add(server, name, i + 1) for i, name in enumerate(("bob", "alice", "carol")))
    run = PrivacyBudget(0.2, 1e-3, colluders=2)
    server, F, y = budget_server(run)
    server.submit(Update.deleting(Summary.of(F[:1], y[:1], C)), "alice")
    assert [add(server, name, i + 1) for i, name in enumerate(("bob", "carol", "bob", "alice"))] == [0, 0, 0, 1]


def test_a_strict_budget_withholds_even_the_first_head():
    strict = PrivacyBudget(0.2, 1e-3, serve_first=False)
    server, F, y = budget_server(strict)
    server.head()
    assert server.submit(Update.deleting(Summary.of(F[:1], y[:1], C)), "alice").head is None


def test_the_same_head_again_is_not_charged():
    budget = PrivacyBudget(0.2, 5.0)
    server, F, y = budget_server(budget)
    server.submit(Update.deleting(Summary.of(F[:1], y[:1], C)), "alice")
    for _ in range(5):
        server.submit(Update.adding(Summary.zeros(D, C)), "mallory")
    assert budget.deletions[0].releases == 1


def test_figures_and_saved_deletions():
    budget = PrivacyBudget(0.2, 5.0)
    server, F, y = budget_server(budget)
    server.submit(Update.deleting(Summary.of(F[:1], y[:1], C)), "alice")
    add(server, "mallory", 1)
    figures = budget.deletions[0].figures()
    assert figures["mu_run"] == pytest.approx(figures["mu_release"] * math.sqrt(2))
    assert figures["advantage_total"] == pytest.approx(2 * stats.norm.cdf(figures["mu_total"] / 2) - 1)
    again = PrivacyBudget(0.2, 5.0)
    again.load(budget.save())
    assert again.deletions == budget.deletions
    with pytest.raises(InputError, match="scope must be 'always'; got 'run'"):
        PrivacyBudget(0.2, 5.0, scope="always").load(budget.save())


@pytest.mark.parametrize(
    "call",
    [
        lambda: privacy.advantage(-1.0),
        lambda: privacy.mu_of_advantage(1.0),
        lambda: privacy.epsilon_of(1.0, 0.0),
        lambda: privacy.delta_of(float("nan"), 1.0),
    ],
)
def test_bad_figures_are_refused(call):
    with pytest.raises(InputError):
        call()
