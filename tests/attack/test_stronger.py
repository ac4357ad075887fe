"""Recovery past the paper: each estimator against a state that the test knows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume import Head
from exhume.attack import probes
from exhume.attack import recover
from exhume.attack.recover import average_head
from exhume.attack.strategies import burn
from exhume.attack.recover import passive
from exhume.attack.estimate import gram_guess
from exhume.attack.strategies import conditioned
from exhume.attack.state import State
from exhume.attack.estimate import direct
from exhume.attack.estimate import partial
from exhume.attack.recover.fit import fit_scale
from exhume.attack.recover import rank_one
from exhume.attack.estimate import symmetric
from exhume.attack.strategies import zoom
from exhume.attack.recover import zoomed
from exhume.errors import InputError, NotIdentifiedError
from tests.attack.federation import Federation, gap


def own_probe(fed, responses=24, seed=0):
    rng = np.random.default_rng(seed)
    return probes.own_data(fed.F[fed.own], fed.y[fed.own], fed.c, responses=responses, rng=rng)


def exact_state(fed):
    W = fed.true_head()
    return State(fed.A, np.linalg.inv(fed.A), fed.A @ W.weights, W, None)


class TestRankOne:
    @settings(max_examples=30)
    @given(st.integers(150, 599), st.integers(0, 50))
    def test_from_an_exact_state_it_is_exact(self, row, seed):
        fed = Federation(seed=seed)
        found = rank_one(exact_state(fed), fed.head_after(row))
        assert found.label == fed.y[row]
        assert gap(found.feature, fed.F[row]) < 1e-6
        assert found.second < 1e-6 and found.residual < 1e-6
        assert found.known
        block = found.block(fed.c)
        truth = fed.block(row)
        assert gap(block.gram, truth.gram) < 1e-5 and gap(block.moment, truth.moment) < 1e-5

    def test_the_label_is_not_simply_the_largest_entry_of_the_right_vector(self):
        fed = Federation(seed=3)
        wrong = 0
        for row in fed.others[:100]:
            after = fed.head_after(row)
            right = np.linalg.svd(fed.A @ (fed.true_head().weights - after.weights))[2][0]
            wrong += int(np.abs(right).argmax() != fed.y[row])
        assert wrong > 0

    @pytest.mark.parametrize("heads", ["float32", "20bits"])
    def test_from_rounded_heads_of_attacker_data(self, heads):
        fed = Federation(heads=heads)
        state = symmetric(fed.attack.run(own_probe(fed)))
        rows = fed.others[:60]
        found = [rank_one(state, fed.head_after(r), nonnegative=True) for r in rows]
        right = np.array([f.label == fed.y[r] for f, r in zip(found, rows, strict=True)])
        assert right.mean() >= 0.99
        assert all(ok for f, ok in zip(found, right, strict=True) if f.known)

    def test_it_says_when_it_does_not_know(self):
        fed = Federation(heads="8bits")
        rows = fed.others[:60]
        found = [rank_one(exact_state(fed), fed.head_after(r)) for r in rows]
        wrong = [f for f, r in zip(found, rows, strict=True) if f.label != fed.y[r]]
        assert len(wrong) > 10
        assert sum(f.known for f in wrong) <= 0.1 * len(wrong)

    def test_two_deleted_records_are_not_taken_for_one(self):
        fed = Federation()
        a, b = (
            fed.others[np.flatnonzero(fed.y[fed.others] == 0)[0]],
            fed.others[np.flatnonzero(fed.y[fed.others] == 1)[0]],
        )
        assert rank_one(exact_state(fed), fed.head_after([a, b])).second > 1e-3

    def test_sizes_must_match(self):
        fed = Federation()
        with pytest.raises(InputError, match="after must be of d = 24, c = 4"):
            rank_one(exact_state(fed), Head(np.zeros((24, 5))))


@settings(max_examples=50)
@given(st.integers(0, 3), st.floats(0.1, 20), st.integers(0, 2**32 - 1))
def test_fit_scale_finds_the_length_that_made_the_right_vector(k, t, seed):
    scores = np.random.default_rng(seed).normal(size=4) / (2 * t)
    right = -t * t * scores
    right[k] += t
    found, misfit = fit_scale(right, scores)
    assert misfit[k] <= 1e-9 * np.linalg.norm(right)
    assert misfit.argmin() == k or np.sort(misfit)[1] < 1e-9 * np.linalg.norm(right)
    assert abs(found[k] - t) <= 1e-6 * t or abs(right + found[k] ** 2 * scores - found[k] * np.eye(4)[k]).max() < 1e-8


class TestSymmetricIdentification:
    @pytest.mark.parametrize("seed", range(4))
    def test_beats_the_direct_estimate_on_rounded_attacker_data(self, seed):
        fed = Federation(heads="float32", seed=seed)
        transcript = fed.attack.run(own_probe(fed, seed=seed))
        assert gap(symmetric(transcript).A, fed.A) < gap(direct(transcript).A, fed.A)

    def test_agrees_with_the_direct_estimate_on_exact_heads(self):
        fed = Federation()
        transcript = fed.attack.run(own_probe(fed))
        assert gap(symmetric(transcript).A, direct(transcript).A) < 1e-8

    def test_is_the_least_squares_solution_over_symmetric_matrices(self):
        fed = Federation(d=6, c=2, heads="16bits")
        transcript = fed.attack.run(probes.designed(6, 2))
        X, Z, d = transcript.X, transcript.Z, 6
        basis = [(i, j) for i in range(d) for j in range(i, d)]
        columns = []
        for i, j in basis:
            E = np.zeros((d, d))
            E[i, j] = E[j, i] = 1.0
            columns.append((E @ Z).ravel())
        best = np.linalg.lstsq(np.array(columns).T, X.ravel(), rcond=None)[0]
        H = np.zeros((d, d))
        for (i, j), value in zip(basis, best, strict=True):
            H[i, j] = H[j, i] = value
        np.testing.assert_allclose(symmetric(transcript).H, H, rtol=1e-8, atol=1e-10 * np.abs(H).max())

    def test_too_coarse_heads_fail_with_a_reason_or_are_clipped_in_a_metric(self):
        fed = Federation(d=48, own=300, heads="5bits")
        transcript = fed.attack.run(own_probe(fed, 48))
        with pytest.raises(NotIdentifiedError, match="smallest eigenvalue of H"):
            symmetric(transcript)
        state = symmetric(transcript, metric=gram_guess(fed.F[fed.own]))
        assert np.linalg.eigvalsh(state.A)[0] > 0

    def test_random_halves_beat_cumulative_batches_at_the_same_number_of_responses(self):
        gains = []
        for seed in range(5):
            fed = Federation(heads="float32", seed=seed)
            errors = []
            for mode in ("halves", "cumulative"):
                own = (fed.F[fed.own], fed.y[fed.own], fed.c)
                probe = probes.own_data(*own, responses=24, rng=np.random.default_rng(seed), mode=mode)
                start = fed.server.ledger.summary
                errors.append(gap(symmetric(fed.attack.run(probe)).A, fed.A))
                assert gap(fed.server.ledger.summary.gram, start.gram) < 1e-14
            gains.append(errors[1] / errors[0])
        assert np.median(gains) > 1.5

    def test_rank_deficiency_fails(self):
        fed = Federation()
        with pytest.raises(NotIdentifiedError, match="rank deficient"):
            symmetric(fed.attack.run(probes.random(24, 4, rng=fed.rng, responses=5)))


def test_an_averaged_head_is_closer_than_its_own_precision():
    fed = Federation(heads="12bits")
    transcript = fed.attack.run(own_probe(fed, 100))
    truth = np.linalg.solve(fed.A, fed.total.moment)
    single = np.linalg.norm(transcript.baseline.weights - truth)
    assert np.linalg.norm(average_head(fed.A, transcript).weights - truth) < 0.35 * single


def test_averaging_after_the_deletion_buys_labels():
    fed = Federation(heads="11bits")
    state = exact_state(fed)
    state = State(state.A, state.H, state.G, average_head(fed.A, fed.attack.run(own_probe(fed, 100))), None)
    rows = fed.others[:40]
    one, many = 0, 0
    for r in rows:
        _, attack = fed.after(r)
        run = attack.run(own_probe(fed, 100))
        one += rank_one(state, run.baseline, nonnegative=True).label == fed.y[r]
        many += recover.rank_one_averaged(state, run, nonnegative=True).label == fed.y[r]
    assert many > one


class TestAnyPrecision:
    @pytest.mark.parametrize("heads", ["float32", "bfloat16", "12bits"])
    def test_conditioned_probes_and_zoom_recover_the_record_to_the_ledgers_precision(self, heads):
        fed = Federation(heads=heads)
        state = conditioned(fed.attack, gram_guess(fed.F[fed.own], len(fed.F)), rounds=2)
        before = zoom(fed.attack, state.A, responses=10)
        assert before.converged
        assert gap(before.G, fed.total.moment) < 1e-10
        for row in fed.others[:5]:
            _, attack = fed.after(row)
            after = zoom(attack, state.A, start=before.G, responses=8)
            sample = zoomed(before, after, state.A).as_sample()
            assert sample.label == fed.y[row]
            assert gap(sample.feature, fed.F[row]) < 1e-6

    def test_conditioned_beats_designed_at_the_same_number_of_responses(self):
        fed = Federation(heads="bfloat16")
        plain = fed.attack.run(probes.designed(24, 4))
        paper = gap(symmetric(plain, metric=np.eye(24)).A, fed.A)
        ours = gap(conditioned(fed.attack, gram_guess(fed.F[fed.own]), rounds=1).A, fed.A)
        assert ours < paper

    def test_everything_submitted_is_taken_back(self):
        fed = Federation(heads="bfloat16")
        start = fed.server.ledger.summary
        state = conditioned(fed.attack, gram_guess(fed.F[fed.own], len(fed.F)))
        zoom(fed.attack, state.A)
        assert np.array_equal(fed.server.ledger.summary.gram, start.gram)
        assert gap(fed.server.ledger.summary.moment, start.moment) < 1e-9

    def test_a_wrong_state_does_not_converge_and_says_so(self):
        fed = Federation()
        assert not zoom(fed.attack, 3.0 * fed.A, responses=5).converged

    def test_bad_calls(self):
        fed = Federation()
        with pytest.raises(InputError, match="responses must be at least 1"):
            zoom(fed.attack, fed.A, responses=0)
        with pytest.raises(InputError, match="rounds must be at least 1"):
            conditioned(fed.attack, fed.A, rounds=0)


class TestSequence:
    def test_fifty_deletions_from_one_identification_without_a_probe(self):
        fed = Federation(heads="float32")
        state = symmetric(fed.attack.run(own_probe(fed)))
        spent = fed.attack.cost
        rows = fed.others[:50]
        heads = [fed.head_after(rows[: i + 1]) for i in range(50)]
        followed = recover.sequence(state, heads, nonnegative=True)
        assert [f.found.label for f in followed] == fed.y[rows].tolist()
        assert fed.attack.cost == spent
        left = fed.A - fed.block(rows).gram
        assert gap(followed[-1].state.A, left) < 1e-3
        assert gap(followed[-1].state.H, np.linalg.inv(left)) < 1e-2

    def test_reidentification_only_where_the_self_check_asks_for_it(self):
        fed = Federation()
        pair, single = fed.others[:2], fed.others[2]
        assert fed.y[pair[0]] != fed.y[pair[1]]
        heads = [fed.head_after(pair), fed.head_after([*pair, single])]
        calls = []

        def again():
            calls.append(1)
            _, attack = fed.after(pair)
            return attack.identify(probes.designed(24, 4))

        first, second = recover.sequence(exact_state(fed), heads, reidentify=again)
        assert first.reidentified and len(calls) == 1
        assert not second.reidentified
        assert second.found.label == fed.y[single]
        assert gap(second.found.feature, fed.F[single]) < 1e-5


class TestLowRank:
    def pick(self, fed, labels):
        pools = {k: list(fed.others[fed.y[fed.others] == k]) for k in range(fed.c)}
        return np.array([pools[k].pop() for k in labels])

    def test_several_records_of_one_class(self):
        fed = Federation(c=6)
        rows = self.pick(fed, [2, 2, 2])
        found = recover.low_rank(exact_state(fed), fed.head_after(rows))
        assert found.records == 3 and found.present == (2,)
        assert found.counts.tolist() == [0, 0, 3, 0, 0, 0]
        assert gap(found.block.gram, fed.block(rows).gram) < 1e-5
        assert gap(found.block.moment, fed.block(rows).moment) < 1e-5
        assert found.samples == () and "mixed" in found.undetermined

    def test_a_record_alone_in_its_class_is_itself(self):
        fed = Federation(c=6)
        rows = self.pick(fed, [1, 1, 4])
        found = recover.low_rank(exact_state(fed), fed.head_after(rows))
        assert set(found.present) == {1, 4}
        assert found.counts.tolist() == [0, 2, 0, 0, 1, 0]
        (sample,) = found.samples
        assert sample.label == 4 and gap(sample.feature, fed.F[rows[2]]) < 1e-4

    @pytest.mark.parametrize("labels", [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]])
    def test_records_of_different_classes_are_recovered_one_by_one(self, labels):
        fed = Federation(c=6)
        rows = self.pick(fed, labels)
        found = recover.low_rank(exact_state(fed), fed.head_after(rows))
        assert [s.label for s in found.samples] == labels
        for sample, row in zip(found.samples, rows, strict=True):
            assert gap(sample.feature, fed.F[row]) < 1e-3

    def test_the_span_is_determined_even_where_the_records_are_not(self):
        fed = Federation(c=6)
        rows = self.pick(fed, [0, 0, 1, 1, 2])
        found = recover.low_rank(exact_state(fed), fed.head_after(rows))
        F = fed.F[rows].T
        assert np.linalg.norm(F - found.basis @ (found.basis.T @ F)) < 1e-5 * np.linalg.norm(F)
        assert found.block is None and "too few absent classes" in found.undetermined

    @settings(max_examples=25)
    @given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(0, 1000))
    def test_class_counts_follow_from_gram_and_moment(self, labels, seed):
        rng = np.random.default_rng(seed)
        F = rng.normal(size=(len(labels), 16))
        block = recover.Block(F.T @ F, F.T @ np.eye(4)[labels])
        counts = recover.class_counts(block, len(labels))
        np.testing.assert_allclose(counts, np.bincount(labels, minlength=4), atol=1e-6)


class TestPartial:
    def test_what_is_determined_is_right_and_the_rest_is_marked(self):
        fed = Federation()
        transcript = fed.attack.run(probes.random(24, 4, rng=fed.rng, responses=4))
        partial = partial(transcript)
        assert partial.rank == 16
        U = partial.basis
        assert gap(partial.image, fed.A @ U) < 1e-8
        A = partial.completed()
        V = np.linalg.svd(np.eye(24) - U @ U.T)[0][:, :8]
        assert gap(U.T @ A @ U, U.T @ fed.A @ U) < 1e-8 and gap(V.T @ A @ U, V.T @ fed.A @ U) < 1e-8
        assert np.abs(V.T @ A @ V).max() < 1e-8 * np.abs(A).max()
        assert gap(partial.completed(fed.A), fed.A) < 1e-8
        assert partial.known_share == pytest.approx(1 - 8 * 9 / (24 * 25))

    def test_a_record_as_far_as_the_span_allows(self):
        fed = Federation()
        partial = partial(fed.attack.run(probes.random(24, 4, rng=fed.rng, responses=4)))
        row = fed.others[0]
        found = recover.partial_sample(partial, fed.head_after(row))
        inside = partial.basis.T @ fed.F[row]
        cosine = abs(found.inside @ inside) / np.linalg.norm(found.inside) / np.linalg.norm(inside)
        assert cosine > 1 - 1e-9
        assert 0 < found.outside_share < 1
        whole = recover.partial_sample(partial, fed.head_after(row), corner=fed.A)
        cosine = abs(whole.direction @ fed.F[row]) / np.linalg.norm(whole.direction) / np.linalg.norm(fed.F[row])
        assert cosine > 1 - 1e-9

    def test_full_rank_knows_everything(self):
        fed = Federation()
        partial = partial(fed.attack.run(probes.designed(24, 4)))
        assert partial.known_share == 1.0
        assert gap(partial.completed(), fed.A) < 1e-9


class TestBaselines:
    def test_passive_finds_some_labels_with_a_public_sample_and_all_with_the_truth(self):
        fed = Federation(rows=1200, own=600)
        rows = fed.others[:40]
        public = [passive(fed.true_head(), fed.head_after(r), fed.F[fed.own], len(fed.F)) for r in rows]
        hits = sum(p.label == fed.y[r] for p, r in zip(public, rows, strict=True))
        assert hits > 0.5 * len(rows)
        whole = [passive(fed.true_head(), fed.head_after(r), fed.F, len(fed.F)) for r in rows]
        assert all(p.label == fed.y[r] for p, r in zip(whole, rows, strict=True))
        with pytest.raises(InputError, match="public"):
            passive(fed.true_head(), fed.true_head(), fed.F[:0], 10)

    def test_burn_costs_accuracy(self):
        fed = Federation()
        before = fed.server.head().accuracy(fed.F, fed.y)
        zeros = fed.own[fed.y[fed.own] == 0]
        after = burn(fed.attack, fed.F[zeros], fed.y[zeros], 4, times=2.5).accuracy(fed.F, fed.y)
        assert after < before
