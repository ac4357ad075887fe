"""Every theorem, lemma and proposition in exact rationals, and our float64 functions against the exact values."""

import math

import numpy as np
import pytest
from flint import fmpq
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from exhume import Head
from exhume.attack import recover
from exhume.attack.block import Block
from exhume.attack.estimate import direct
from exhume.attack.probes import MomentProbe, designed, label_swap, moment_update, own_data
from exhume.attack.probes.label_swap import LabelSwapProbe
from exhume.attack.state import Diagnostics, State
from exhume.attack.theory import ambiguity, bounds
from exhume.errors import InputError, NotIdentifiedError
from tests.attack import exact as ex
from tests.attack.worlds import (
    EPS,
    batches,
    deficient_totals,
    dyadic,
    estimate_roundoff,
    full_totals,
    gammas,
    low,
    norm,
    probe_run,
    roundoff,
    servers,
    sizes,
    transcript_of,
)

modes = st.sampled_from(["cumulative", "restored"])
few = settings(max_examples=60)


def tolerance_of(played, transcript):
    """Return bounds on the float64 errors of A and H as identified from correctly rounded heads."""
    A, H = ex.floats(played.start.A), ex.floats(played.start.A.inv())
    heads = [ex.floats(h) for h in played.heads] + [ex.floats(played.start.head)] * len(played.heads)
    grams = [ex.floats(P) for P in played.grams]
    error_A = estimate_roundoff(A, grams, heads, transcript.X, transcript.Z)
    moved = norm(np.hstack(heads)) * (1 + norm(H) * max(norm(P) for P in grams)) + norm(transcript.X)
    error_H = roundoff(moved + norm(H) * norm(transcript.Z), size=sum(transcript.X.shape)) / low(transcript.Z)
    return error_A, error_H


# Theorem 1


@few
@given(st.data(), sizes(), modes)
def test_a_full_stack_of_moment_probes_gives_the_state_exactly(data, size, mode):
    server = data.draw(servers(*size))
    totals = data.draw(full_totals(*size))
    played = ex.play(server, MomentProbe("planned", totals, mode))
    assert played.moments == [ex.exact(total) for total in totals]
    assert all(gram == gram * 0 for gram in played.grams)
    Q, R = ex.hstack(played.moments), played.X
    assert played.Z == Q
    assert Q.rank() == R.rank() == server.d
    assert Q * ex.pinv(R) == server.A
    assert R * ex.pinv(Q) == server.A.inv()
    assert server.A * server.head == server.G
    assert (played.end.A, played.end.G) == (server.A, server.G)


@few
@given(st.data(), sizes(), modes)
def test_identify_agrees_with_the_exact_state(data, size, mode):
    server = data.draw(servers(*size))
    played = ex.play(server, MomentProbe("planned", data.draw(full_totals(*size)), mode))
    transcript = transcript_of(played)
    state = direct(transcript)
    A, H, G = ex.floats(server.A), ex.floats(server.A.inv()), ex.floats(server.G)
    error_A, error_H = tolerance_of(played, transcript)
    W = transcript.baseline.weights
    assert norm(state.A - A) <= error_A
    assert norm(state.H - H) <= error_H
    assert norm(state.G - G) <= error_A * norm(W) + roundoff(norm(A) * norm(W), size=state.d)
    assert transcript.moment_only
    assert state.diagnostics.rank_X == state.diagnostics.rank_Z == state.d


@few
@given(st.data(), sizes(), modes, st.sampled_from([fmpq(1, 8), fmpq(3), fmpq(1000)]))
def test_a_deficient_stack_leaves_another_state_with_the_same_observations(data, size, mode, epsilon):
    server = data.draw(servers(*size))
    probe = MomentProbe("planned", data.draw(deficient_totals(*size)), mode)
    played = ex.play(server, probe)
    v = ex.left_null_vector(played.X)
    assert v.transpose() * played.X == ex.zeros(1, played.X.ncols())
    A = server.A + v * v.transpose() * epsilon
    other = ex.Ridge(A, A * server.head, server.gamma)
    assert other.A != server.A
    assert ex.is_psd(other.S)
    assert other.head == server.head
    assert ex.play(other, probe).heads == played.heads


@few
@given(st.data(), sizes(), modes, st.sampled_from([0.5, 1.0, 100.0]))
def test_identify_refuses_a_deficient_stack_and_other_state_shows_why(data, size, mode, change):
    server = data.draw(servers(*size))
    played = ex.play(server, MomentProbe("planned", data.draw(deficient_totals(*size)), mode))
    transcript = transcript_of(played)
    with pytest.raises(NotIdentifiedError, match="rank deficient") as failed:
        direct(transcript)
    assert failed.value.diagnostics.rank_X < server.d
    A = ex.floats(server.A)
    other, moment = ambiguity.other_state(A, transcript, size=change)
    gap = np.linalg.eigvalsh(other - A)
    scale = change * np.linalg.norm(A, 2)
    slack = roundoff(norm(A) + scale, size=server.d)
    assert abs(gap[-1] - scale) <= slack and np.abs(gap[:-1]).max(initial=0.0) <= slack
    W = transcript.baseline.weights
    assert norm(moment - other @ W) <= roundoff(norm(other) * norm(W), size=server.d)
    lost = roundoff((norm(A) + scale) * (norm(W) + norm(transcript.X)), size=sum(transcript.X.shape))
    assert norm(other @ transcript.X - transcript.Z) <= lost


@few
@given(st.data(), sizes())
def test_other_state_refuses_a_full_stack(data, size):
    server = data.draw(servers(*size))
    played = ex.play(server, MomentProbe("planned", data.draw(full_totals(*size))))
    with pytest.raises(InputError, match="rank deficient"):
        ambiguity.other_state(ex.floats(server.A), transcript_of(played))


@few
@given(st.data(), sizes())
def test_an_unknown_gamma_stays_unknown(data, size):
    server = data.draw(servers(*size))
    played = ex.play(server, MomentProbe("planned", data.draw(full_totals(*size))))
    other = ex.Ridge(server.A, server.G, server.gamma / 2)
    assert ex.is_psd(other.S) and other.S != server.S
    assert ex.play(other, MomentProbe("planned", [ex.floats(Q) for Q in played.moments])).heads == played.heads


# Corollary 1


@pytest.mark.parametrize("scale", [0.5, 1.0, 8192.0])
@pytest.mark.parametrize("c", [1, 2, 3, 7])
@pytest.mark.parametrize("d", [1, 2, 5, 6])
def test_the_designed_probe_is_full_and_perfectly_conditioned_with_the_fewest_responses(d, c, scale):
    probe = designed(d, c, scale=scale)
    Q = ex.hstack([ex.exact(total) for total in probe.totals])
    assert probe.responses == math.ceil(d / c)
    assert Q.ncols() == probe.responses * c
    assert Q * Q.transpose() == ex.eye(d) * ex.number(scale) ** 2
    if probe.responses > 1:
        assert ex.hstack([ex.exact(total) for total in probe.totals[:-1]]).rank() < d


@few
@given(st.data(), sizes(most_c=2), modes)
def test_fewer_responses_than_the_lower_bound_are_always_deficient(data, size, mode):
    d, c = size
    m = math.ceil(d / c) - 1
    assume(m > 0)
    server = data.draw(servers(d, c))
    played = ex.play(server, MomentProbe("planned", [data.draw(dyadic(d, c)) for _ in range(m)], mode))
    assert played.X.rank() == ex.hstack(played.moments).rank() <= m * c < d
    with pytest.raises(NotIdentifiedError):
        direct(transcript_of(played))


# Known gram and moment probes


@st.composite
def data_probes(draw, d, c, least=1, most=10):
    features, labels = draw(batches(d, c, least, most))
    m = draw(st.integers(1, len(features)))
    return own_data(features, labels, c, responses=m, rng=np.random.default_rng(draw(st.integers(0, 99))))


@few
@given(st.data(), sizes(most_d=4))
def test_additions_of_rows_identify_exactly_where_the_stack_is_full_and_not_where_it_is_not(data, size):
    server = data.draw(servers(*size))
    probe = data.draw(data_probes(*size))
    played = ex.play(server, probe)
    X, Z = played.X, played.Z
    assert server.A * X == Z
    assert X.rank() == Z.rank() <= ex.exact(probe.features).rank()
    assert (played.end.A, played.end.G) == (server.A, server.G)
    event(f"full: {X.rank() == server.d}")
    if X.rank() == server.d:
        assert Z * ex.pinv(X) == server.A
        return
    v = ex.left_null_vector(X)
    A = server.A + v * v.transpose()
    other = ex.play(ex.Ridge(A, A * server.head, server.gamma), probe)
    assert other.heads == played.heads and other.start.head == server.head and A != server.A


@few
@given(st.data(), sizes(most_d=4))
def test_the_right_hand_side_of_additions_is_the_residual_of_the_rows(data, size):
    server = data.draw(servers(*size))
    probe = data.draw(data_probes(*size))
    played = ex.play(server, probe)
    rows = np.array([], dtype=np.intp)
    blocks = []
    for batch, head in zip(probe.batches, played.heads, strict=True):
        rows = np.concatenate([rows, batch])
        F, Y = ex.exact(probe.features[rows]), ex.exact(np.eye(size[1])[probe.labels[rows]])
        blocks.append(F.transpose() * (Y - F * head))
    assert ex.hstack(blocks) == played.Z


@few
@given(st.data(), sizes(most_d=4))
def test_identify_agrees_with_the_exact_state_for_additions(data, size):
    server = data.draw(servers(*size))
    played = ex.play(server, data.draw(data_probes(*size, least=size[0], most=12)))
    transcript = transcript_of(played)
    assume(played.X.rank() == server.d and low(transcript.X) > 1e-6 * norm(transcript.X))
    assume(low(transcript.Z) > 1e-6 * norm(transcript.Z))
    state = direct(transcript)
    error_A, error_H = tolerance_of(played, transcript)
    assert not transcript.moment_only
    assert norm(state.A - ex.floats(server.A)) <= error_A
    assert norm(state.H - ex.floats(server.A.inv())) <= error_H


@few
@given(st.data(), sizes(most_d=4))
def test_the_recorder_keeps_the_stacks_of_the_exact_run(data, size):
    server = data.draw(servers(*size))
    played = ex.play(server, data.draw(data_probes(*size)))
    transcript = transcript_of(played)
    heads = np.hstack([ex.floats(h) for h in played.heads])
    W = ex.floats(server.head)
    assert norm(transcript.X - ex.floats(played.X)) <= 2 * EPS * (norm(heads) + len(played.heads) * norm(W))
    terms = sum(
        norm(ex.floats(Q)) + norm(ex.floats(P)) * norm(heads) for P, Q in zip(played.grams, played.moments, strict=True)
    )
    assert norm(transcript.Z - ex.floats(played.Z)) <= roundoff(terms, size=server.d)
    assert transcript.responses == len(played.heads)


# Lemmas 1 and 2


@few
@given(st.data(), sizes())
def test_lemma_1_pairs_realise_any_moment_with_no_gram(data, size):
    d, c = size
    Q = data.draw(dyadic(d, c))
    update = moment_update(Q)
    U = ex.exact(Q) * fmpq(1, 2)
    assert ex.exact(update.add.moment) == U
    assert ex.exact(update.delete.moment) == -U
    assert ex.exact(update.add.gram) == ex.exact(update.delete.gram) == U * U.transpose()
    assert ex.is_psd(ex.exact(update.add.gram))
    assert ex.exact(update.net.moment) == ex.exact(Q)
    assert update.net.gram_is_zero and not update.net.gram.any()
    assert update.pairs == max(int(np.any(Q, axis=0).sum()), 1)


@few
@given(st.data(), sizes(least_c=2), st.integers(1, 4))
def test_lemma_2_swaps_realise_moments_that_sum_to_zero_with_no_gram(data, size, m):
    d, c = size
    features, _ = data.draw(batches(d, c))
    probe = label_swap(features, c, responses=m)
    for step, rows in zip(probe.steps(), probe.rows, strict=True):
        U = ex.exact(features[rows].T)
        last = U * ex.exact(-np.ones(c - 1))
        net = step.update.net
        assert ex.exact(net.moment) == ex.hstack([U, last])
        assert ex.exact(net.moment) * ex.exact(np.ones(c)) == ex.zeros(d, 1)
        assert net.gram_is_zero
        assert ex.exact(step.update.add.gram) == ex.exact(step.update.delete.gram) == U * U.transpose()
    assert label_swap(features, c).responses == math.ceil(d / (c - 1))


@few
@given(st.data(), sizes(least_c=2))
def test_lemma_2_converse_every_moment_that_sums_to_zero_is_a_swap(data, size):
    d, c = size
    free = data.draw(dyadic(d, c - 1))
    Q = np.hstack([free, -free.sum(axis=1, keepdims=True)])
    probe = LabelSwapProbe("label-swap", np.ascontiguousarray(Q[:, :-1].T), np.arange(c - 1)[None])
    (step,) = probe.steps()
    assert ex.exact(step.update.net.moment) == ex.exact(Q)
    server = data.draw(servers(d, c))
    played = ex.play(server, probe)
    assert (played.end.A, played.end.G) == (server.A, server.G)


# Proposition 1 and response rounding


def rounded(played, bits):
    """Return exact stacks, error stack and baseline error of a run whose heads are released with few bits."""
    transcript = transcript_of(played, f"{bits}bits")
    W0 = ex.exact(transcript.baseline.weights)
    N0 = W0 - played.start.head
    seen = ex.exact(transcript.X)
    heads = [ex.exact(transcript.X[:, j : j + N0.ncols()]) + W0 for j in range(0, seen.ncols(), N0.ncols())]
    return transcript, seen, [W - V for W, V in zip(heads, played.heads, strict=True)], N0


def agree(pair, exact_value, tolerance):
    want = ex.floats(exact_value)
    for side in pair:
        assert norm(side - want) <= tolerance


@few
@given(st.data(), sizes(most_d=4), modes, st.integers(8, 14))
def test_proposition_1_identities_and_bounds(data, size, mode, bits):
    server = data.draw(servers(*size))
    played = ex.play(server, MomentProbe("planned", data.draw(full_totals(*size)), mode))
    transcript, R, N, N0 = rounded(played, bits)
    assume(R.rank() == server.d and low(transcript.X) > 1e-4 * norm(transcript.X))
    Q, E = ex.hstack(played.moments), ex.hstack([N_j - N0 for N_j in N])
    assert R == played.X + E
    A_error, H_error = Q * ex.pinv(R) - server.A, R * ex.pinv(Q) - server.A.inv()
    assert A_error == -server.A * E * ex.pinv(R)
    assert H_error == E * ex.pinv(Q)
    assert ex.bound_holds(A_error, server.A, E, R)
    assert ex.bound_holds(H_error, ex.eye(server.d), E, Q)
    assert ex.square(ex.symmetric(A_error)) <= ex.square(A_error)

    run = probe_run(played, transcript)
    A, H = ex.floats(server.A), ex.floats(server.A.inv())
    observed = norm(transcript.X) + norm(run.baseline) * len(N)
    spread = norm(A) * observed + norm(transcript.Z)
    slack_A = roundoff(spread, size=20) * norm(transcript.X) / low(transcript.X) ** 2
    spread = observed + norm(H) * norm(transcript.Z)
    slack_H = roundoff(spread, size=20) * norm(transcript.Z) / low(transcript.Z) ** 2
    slack_H += roundoff(norm(A) * norm(H) ** 2, size=server.d)
    agree(bounds.direct_A_identity(run), A_error, slack_A)
    agree(bounds.direct_H_identity(run), H_error, slack_H)
    size_E = norm(ex.floats(E))
    for sides, left, right, slack in (
        (bounds.direct_A_bound(run), A_error, np.linalg.norm(A, 2) * size_E / low(transcript.X), slack_A),
        (bounds.direct_H_bound(run), H_error, size_E / low(transcript.Z), slack_H),
    ):
        assert abs(sides.left - norm(ex.floats(left))) <= slack
        assert abs(sides.right - right) <= slack
        assert sides.left <= sides.right + slack


@few
@given(st.data(), sizes(most_d=3), st.integers(10, 16))
def test_rounding_error_of_additions_is_B_times_the_pseudo_inverse(data, size, bits):
    server = data.draw(servers(*size))
    played = ex.play(server, data.draw(data_probes(*size, least=size[0] + 1, most=9)))
    transcript, X, N, N0 = rounded(played, bits)
    assume(X.rank() == server.d and low(transcript.X) > 1e-3 * norm(transcript.X))
    assume(low(transcript.Z) > 1e-6 * norm(transcript.Z))
    W0 = ex.exact(transcript.baseline.weights)
    c = size[1]
    heads = [W0 + ex.exact(transcript.X[:, j : j + c]) for j in range(0, X.ncols(), c)]
    Z = ex.hstack([Q - P * W for P, Q, W in zip(played.grams, played.moments, heads, strict=True)])
    B = ex.hstack([-(server.A + P) * N_j + server.A * N0 for P, N_j in zip(played.grams, N, strict=True)])
    error = Z * ex.pinv(X) - server.A
    assert Z - server.A * X == B
    assert error == B * ex.pinv(X)
    assert ex.bound_holds(error, ex.eye(server.d), B, X)

    run = probe_run(played, transcript)
    A = ex.floats(server.A)
    largest = norm(A) + max(norm(P) for P in run.grams)
    spread = largest * (norm(transcript.X) + norm(run.baseline) * len(N)) + norm(transcript.Z)
    slack = roundoff(spread, size=20) * norm(transcript.X) / low(transcript.X) ** 2
    agree(bounds.additions_identity(run), error, slack)
    assert norm(run.B - ex.floats(B)) <= roundoff(spread, size=20)
    sides = bounds.additions_bound(run)
    assert abs(sides.right - norm(ex.floats(B)) / low(transcript.X)) <= slack
    assert sides.left <= sides.right + slack


# Proposition 2 and its error identities


@st.composite
def deletions(draw, most_d=4):
    """Two exact states around the deletion of some rows, and the rows' exact summary."""
    d, c = draw(sizes(most_d))
    gamma = draw(gammas)
    kept, gone = draw(batches(d, c)), draw(batches(d, c, most=3))
    rows = np.vstack([kept[0], gone[0]]), np.concatenate([kept[1], gone[1]])
    before, after = ex.Ridge.of(*rows, c, gamma), ex.Ridge.of(*kept, c, gamma)
    F, Y = ex.exact(gone[0]), ex.exact(np.eye(c)[gone[1]])
    return before, after, F.transpose() * F, F.transpose() * Y, gone


def state(A, W):
    """Return an identified state with the given estimate and observed baseline; its diagnostics do not matter."""
    d = len(A)
    return State(A, np.linalg.inv(A), A @ W, Head(W), Diagnostics(d, 1, d, d, 1.0, 1.0, 1.0, 1.0, 1e-10))


@few
@given(deletions())
def test_proposition_2_recovers_the_deletion_and_replays_it_exactly(case):
    before, after, S, G, _ = case
    assert before.A - after.A == S
    assert before.A * before.head - after.A * after.head == G
    replayed = after.plus(before.A - after.A, before.A * before.head - after.A * after.head)
    assert (replayed.A, replayed.G, replayed.head) == (before.A, before.G, before.head)


@few
@given(deletions(), st.sampled_from([fmpq(1, 4), fmpq(2)]))
def test_a_change_of_gamma_contaminates_the_gram_and_nothing_else(case, change):
    before, after, S, G, _ = case
    later = ex.Ridge(after.A + ex.eye(after.d) * change, after.G, after.gamma + change)
    assert S - ex.eye(after.d) * change == before.A - later.A
    assert before.A * before.head - later.A * later.head == G


@few
@given(deletions())
def test_difference_agrees_with_the_exact_deletion(case):
    before, after, S, G, _ = case
    found = recover.difference(
        state(ex.floats(before.A), ex.floats(before.head)), state(ex.floats(after.A), ex.floats(after.head))
    ).block
    A_pre, W_pre, W_post = ex.floats(before.A), ex.floats(before.head), ex.floats(after.head)
    assert norm(found.gram - ex.floats(S)) <= roundoff(norm(A_pre), size=1)
    assert norm(found.moment - ex.floats(G)) <= roundoff(norm(A_pre) * (norm(W_pre) + norm(W_post)), size=before.d)


def test_difference_of_unlike_states_is_refused():
    with pytest.raises(InputError, match="d = 3, c = 2"):
        recover.difference(state(np.eye(3), np.ones((3, 2))), state(np.eye(3), np.ones((3, 1))))


@st.composite
def estimated_deletions(draw):
    """A deletion with wrong but symmetric estimates of both states and wrong baselines, all of them dyadic."""
    before, after, S, G, _ = draw(deletions())
    d, c = before.d, before.G.ncols()
    E_pre, E_post = (e + e.T for e in (draw(dyadic(d, d)) / 64, draw(dyadic(d, d)) / 64))
    seen_pre, seen_post = (
        np.round(ex.floats(W) * 256) / 256 + draw(dyadic(d, c)) / 128 for W in (before.head, after.head)
    )
    return before, after, S, G, ex.exact(E_pre), ex.exact(E_post), ex.exact(seen_pre), ex.exact(seen_post)


def deletion_run(before, after, E_pre, E_post, seen_pre, seen_post):
    return bounds.DeletionRun(
        A_pre=ex.floats(before.A),
        A_post=ex.floats(after.A),
        W_pre=ex.floats(before.head),
        W_post=ex.floats(after.head),
        before=state(ex.floats(before.A + E_pre), ex.floats(seen_pre)),
        after=state(ex.floats(after.A + E_post), ex.floats(seen_post)),
    )


@few
@given(estimated_deletions())
def test_error_identities_of_the_recovered_deletion(case):
    before, after, S, G, E_pre, E_post, seen_pre, seen_post = case
    N_pre, N_post = seen_pre - before.head, seen_post - after.head
    A_pre, A_post = before.A + E_pre, after.A + E_post
    assert (A_pre - A_post) - S == E_pre - E_post
    error = (A_pre * seen_pre - A_post * seen_post) - G
    assert error == E_pre * before.head - E_post * after.head + A_pre * N_pre - A_post * N_post

    run = deletion_run(before, after, E_pre, E_post, seen_pre, seen_post)
    largest = norm(run.before.A) + norm(run.A_pre) + norm(run.after.A) + norm(run.A_post)
    heads = norm(run.W_pre) + norm(run.W_post) + norm(ex.floats(seen_pre)) + norm(ex.floats(seen_post))
    agree(bounds.moment_identity(run), error, roundoff(largest * heads, size=before.d))
    if ex.square(S) != 0:
        sides = bounds.amplification_bound(run)
        size = norm(ex.floats(S))
        slack = roundoff(largest, size=1) / size
        assert abs(sides.left - norm(ex.floats(E_pre - E_post)) / size) <= slack
        assert abs(sides.right - (norm(ex.floats(E_pre)) + norm(ex.floats(E_post))) / size) <= slack
        assert sides.left <= sides.right + slack


@few
@given(estimated_deletions())
def test_replay_error_identity_and_bound(case):
    before, after, _, _, E_pre, E_post, seen_pre, seen_post = case
    N_pre, N_post = seen_pre - before.head, seen_post - after.head
    A_pre, A_post = before.A + E_pre, after.A + E_post
    leading = before.A + E_pre - E_post
    assume(ex.is_pd(leading))
    replayed = after.plus(A_pre - A_post, A_pre * seen_pre - A_post * seen_post)
    numerator = E_post * (before.head - after.head) + A_pre * N_pre - A_post * N_post
    error = replayed.head - before.head
    assert leading == replayed.A
    assert error == leading.solve(numerator)
    clean = after.plus(A_pre - A_post, A_pre * before.head - A_post * after.head)
    assert clean.head - before.head == leading.solve(E_post * (before.head - after.head))
    assert ex.bound_holds(clean.head - before.head, E_post, before.head - after.head, leading)

    run = deletion_run(before, after, E_pre, E_post, seen_pre, seen_post)
    floor = low(ex.floats(leading))
    condition = norm(ex.floats(leading)) / floor
    assume(condition < 1e6)
    largest = norm(run.before.A) + norm(run.A_pre) + norm(run.after.A) + norm(run.A_post)
    heads = norm(run.W_pre) + norm(run.W_post) + norm(ex.floats(seen_pre)) + norm(ex.floats(seen_post))
    slack = roundoff(largest * heads * condition / floor, size=before.d)
    agree(bounds.replay_identity(run, ex.floats(replayed.head)), error, slack)
    sides = bounds.replay_bound(run, ex.floats(replayed.head))
    spread = np.linalg.norm(ex.floats(E_post), 2) * norm(run.W_pre - run.W_post)
    right = (spread + norm(ex.floats(A_pre * N_pre - A_post * N_post))) / floor
    assert abs(sides.left - norm(ex.floats(error))) <= slack
    assert abs(sides.right - right) <= slack
    assert sides.left <= sides.right + slack


@few
@given(st.data(), sizes(), modes)
def test_error_of_the_moment_follows_from_the_errors_of_state_and_baseline(data, size, mode):
    server = data.draw(servers(*size))
    E, N = ex.exact(data.draw(dyadic(server.d, server.d))), ex.exact(data.draw(dyadic(*size)))
    estimate = server.A + E
    assert estimate * (server.head + N) - server.G == E * server.head + estimate * N


# What cannot be told apart


@few
@given(st.data(), deletions())
def test_passive_heads_fit_any_deletion(data, case):
    before, after, S, _, _ = case
    W_pre, W_post = before.head, after.head
    F = ex.exact(data.draw(dyadic(2, before.d)))
    D = S + F.transpose() * F
    pre, post = ex.Ridge(after.A + D, (after.A + D) * W_pre, after.gamma), after
    assert ex.is_psd(D) and (pre.head, post.head) == (W_pre, W_post)

    found = ambiguity.other_deletion(*(ex.floats(m) for m in (W_pre, W_post, after.A, D)))
    slack = roundoff(norm(ex.floats(pre.A)) * (norm(ex.floats(W_pre)) + norm(ex.floats(W_post))), size=before.d)
    assert norm(found.A_pre - ex.floats(pre.A)) <= roundoff(norm(ex.floats(pre.A)), size=1)
    assert norm(found.G_pre - ex.floats(pre.G)) <= slack
    assert norm(found.moment - ex.floats(pre.G - post.G)) <= slack
    assert np.array_equal(found.gram, ex.floats(D))


@few
@given(st.data(), sizes())
def test_lemma_4_another_state_has_the_same_head(data, size):
    server = data.draw(servers(*size))
    F = data.draw(dyadic(2, server.d))
    assume(F.any())
    C = ex.exact(F.T @ F)
    W = server.head
    other = server.plus(C, C * W)
    assert ex.is_psd(other.S) and other.A != server.A and other.head == W

    A, G = ambiguity.same_head(*(ex.floats(m) for m in (server.A, server.G, W, C)))
    assert norm(A - ex.floats(other.A)) <= roundoff(norm(A), size=1)
    products = norm(ex.floats(server.G)) + norm(ex.floats(C)) * norm(ex.floats(W))
    assert norm(G - ex.floats(other.G)) <= roundoff(products, size=server.d)


def test_lemma_4_needs_a_symmetric_change():
    with pytest.raises(InputError, match="symmetric"):
        ambiguity.same_head(np.eye(2), np.ones((2, 1)), np.ones((2, 1)), np.array([[0.0, 1.0], [0.0, 0.0]]))


# One sample


@st.composite
def samples(draw):
    d, c = draw(sizes())
    f = draw(dyadic(d, 1))[:, 0]
    assume(f.any())
    return f, draw(st.integers(0, c - 1)), c


@few
@given(st.data(), samples())
def test_proposition_3_label_and_feature_within_the_margin(data, sample):
    f, k, c = sample
    E = data.draw(dyadic(len(f), c)) / data.draw(st.sampled_from([1, 2, 8]))
    found = Block(np.outer(f, f), ex.floats(ex.exact(f) * ex.unit(c, k).transpose() + ex.exact(E)))
    sides = bounds.sample_margin(found, f, k)
    columns = np.linalg.norm(E, axis=0)
    assert math.isclose(sides.left, columns[k] + np.delete(columns, k).max(initial=0.0), rel_tol=8 * EPS, abs_tol=0)
    assert math.isclose(sides.right, norm(f), rel_tol=8 * EPS)
    read = found.as_sample()
    norms = np.linalg.norm(found.moment, axis=0)
    assert norms[read.label] == norms.max()
    assert np.array_equal(read.feature, found.moment[:, read.label])
    runner_up = np.delete(norms, read.label).max(initial=0.0)
    assert math.isclose(read.margin, 1 - runner_up / norms.max() if norms.any() else 0.0, abs_tol=8 * EPS)
    half = 4 * ex.square(ex.exact(E)) < ex.square(ex.exact(f))
    if half:
        assert sides.left < sides.right
    event(f"safe: {sides.left < sides.right}, right: {read.label == k}")
    if sides.left < sides.right * (1 - 8 * EPS):
        label, feature = read
        assert label == k
        assert np.array_equal(feature - f, E[:, k])
        error = bounds.feature_bound(found, f, k)
        assert math.isclose(error.left, norm(E[:, k]) / norm(f), rel_tol=8 * EPS, abs_tol=0)
        assert math.isclose(error.right, norm(E) / norm(f), rel_tol=8 * EPS, abs_tol=0)
        assert error.holds


@few
@given(samples())
def test_proposition_3_exact_block(sample):
    f, k, c = sample
    block = Block.of_sample(k, f, c)
    assert ex.exact(block.gram) == ex.exact(f) * ex.exact(f).transpose()
    assert ex.exact(block.moment) == ex.exact(f) * ex.unit(c, k).transpose()
    label, feature = block.as_sample()
    assert label == k and np.array_equal(feature, f) and block.as_sample().margin == 1.0


@few
@given(st.data(), samples())
def test_lemma_3_a_rank_one_gram_gives_the_feature_up_to_sign(data, sample):
    f = ex.exact(sample[0])
    S = f * f.transpose()
    i = next(i for i in range(S.nrows()) if S[i, i] != 0)
    g = ex.column(S, i) * (1 / S[i, i].sqrt())
    assert g in (f, -f)
    h = ex.exact(data.draw(dyadic(S.nrows(), 1)))
    assert (h * h.transpose() == S) == (h in (f, -f))


@few
@given(st.data(), samples())
def test_the_change_of_the_head_is_rank_one_in_the_deleted_feature(data, sample):
    f, k, c = ex.exact(sample[0]), sample[1], sample[2]
    after = data.draw(servers(f.nrows(), c))
    before = after.plus(f * f.transpose(), f * ex.unit(c, k).transpose())
    residual = ex.unit(c, k) - after.head.transpose() * f
    assert before.A * (before.head - after.head) == f * residual.transpose()
