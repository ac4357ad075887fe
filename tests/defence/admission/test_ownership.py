"""Who may delete what: strict by message, strict by row, and by algebra."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume import Ledger, Server, Summary, Update
from exhume.attack.probes import moment_update
from exhume.defence.admission import AlgebraicOwnership, Ownership
from exhume.protocol import count, itemise
from tests.defence.admission.test_attacks import C, D, block, reason, rows, server


class TestOwnership:
    def test_refuses_burning_and_other_clients_blocks(self):
        made = server(Ownership(D, C, seed=1), own=(1,))
        assert made.submit(Update.adding(block(2)), "alice").accepted
        assert "no sum" in reason(made, Update.deleting(block(2)))
        assert "no sum" in reason(made, Update.deleting(block(3, 5)))
        assert reason(made, Update.deleting(block(1))) is None
        assert "no sum" in reason(made, Update.deleting(block(1)))

    def test_refuses_fabricated_pairs(self):
        made = server(Ownership(D, C, seed=1), own=(1,))
        assert "ownership" in reason(made, moment_update(np.ones((D, C))))

    def test_the_row_ledger_serves_single_rows_and_refuses_strangers(self):
        made = server(Ownership(D, C, seed=1, show_rows=True))
        features, labels = rows(1)
        assert reason(made, itemise(C, add=(features, labels))) is None
        assert reason(made, itemise(C, delete=(features[3:4], labels[3:4]))) is None
        assert "1 deleted rows" in reason(made, itemise(C, delete=(features[3:4], labels[3:4])))
        assert "not 'alice's own" in reason(made, itemise(C, delete=(features[4:5], labels[4:5])), "alice")
        assert "asks for the rows" in reason(made, Update.deleting(Summary.of(features[5:6], labels[5:6], C)))

    def test_rows_must_make_the_summaries(self):
        made = itemise(C, add=rows(1))
        assert "do not make" in Ownership(D, C, seed=1).refuse(replace(made, add=block(2)), "mallory")

    def test_does_not_stop_additions(self):
        made = server(Ownership(D, C, seed=1))
        assert reason(made, Update.adding(Summary.of(1e3 * np.eye(D), np.zeros(D, dtype=int), C))) is None


class TestSlack:
    def test_a_client_without_data_can_delete_nothing(self):
        rule = AlgebraicOwnership(1.0)
        for update in (
            Update.deleting(block(1, 1)),
            moment_update(np.ones((D, C))),
            moment_update(1e-3 * np.ones((D, C))),
        ):
            assert "algebraic-ownership" in reason(server(rule), update)

    def test_refuses_burning(self):
        assert "positive semidefinite" in reason(
            server(AlgebraicOwnership(0.5), own=(1,)), Update.deleting(block(2, 40))
        )

    @settings(max_examples=30)
    @given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
    def test_standing_probes_are_bounded_by_the_clients_own_slack(self, seed, scale):
        rng = np.random.default_rng(seed)
        rule = AlgebraicOwnership(AlgebraicOwnership.measure(rows(1)[0]))
        made = server(rule, own=(1,))
        for _ in range(4):
            reason(made, moment_update(scale * rng.normal(size=(D, C))))
        total = rule.standing("mallory", D, C).total
        white = np.linalg.solve(np.linalg.cholesky(total.gram), total.moment)
        allowed = np.trace(total.gram) / rule.least_norm**2 + 0.5
        assert np.linalg.norm(white, 2) ** 2 <= allowed * (1 + 1e-6)

    def test_loud_probes_are_refused_and_small_ones_pass(self):
        made = server(AlgebraicOwnership(AlgebraicOwnership.measure(rows(1)[0])), own=(1,))
        assert "algebraic-ownership" in reason(made, moment_update(100 * np.ones((D, C))))
        assert reason(made, moment_update(1e-2 * np.ones((D, C)))) is None

    def test_an_addition_in_the_same_message_does_not_pay_for_a_deletion(self):
        giant = Summary.of(1e6 * np.eye(D), np.zeros(D, dtype=int), C)
        assert "after this deletion" in reason(server(AlgebraicOwnership(0.5), own=(1,)), Update(giant, block(2, 40)))

    def test_declared_counts_are_held_against_the_block(self):
        features, labels = rows(1)
        rule = AlgebraicOwnership(AlgebraicOwnership.measure(features, 1.0))
        add = Update.adding(Summary.of(features, labels, C))
        assert "trace allows" in rule.refuse(count(add, added=[10**6, 0, 0]), "x")
        assert "beyond its declared" in rule.refuse(count(add, added=[1, 0, 0]), "x")
        assert rule.refuse(count(add, added=np.bincount(labels, minlength=C)), "x") is None

    def test_declared_counts_are_tighter_than_the_trace(self):
        features, labels = np.tile(np.eye(D), (2, 1)), np.arange(2 * D) % 2
        # It deletes a label that it never had.
        swap = Update(Summary.of(features[:1], [1], C), Summary.of(features[:1], [2], C))
        for declared, refused in ((False, False), (True, True)):
            made = Server(Ledger(block(0, 60), 0.1), admission=[AlgebraicOwnership(0.5)])
            add = Update.adding(Summary.of(features, labels, C))
            dressed = (count(add, [D, D, 0]), count(swap, [0, 1, 0], [0, 0, 1])) if declared else (add, swap)
            assert made.submit(dressed[0], "mallory").accepted
            assert (made.submit(dressed[1], "mallory").reason is not None) == refused


class TestLimits:
    """Rows of length 1 and a least length of 1: the trace counts rows exactly."""

    def unit_rows(self, n):
        return np.eye(D)[np.arange(n) % D], np.arange(n) % C

    def test_no_more_rows_may_be_declared_than_the_trace_allows(self):
        rule, (features, labels) = AlgebraicOwnership(1.0), self.unit_rows(10)
        add, true = Update.adding(Summary.of(features, labels, C)), np.bincount(labels, minlength=C)
        assert rule.refuse(count(add, added=true), "x") is None
        assert "declares 11 rows; its trace allows 10.0" in rule.refuse(
            count(add, added=true + np.eye(C, dtype=int)[0]), "x"
        )

    def test_half_a_row_of_room_and_no_more(self):
        f, one = np.eye(D)[:1], np.array([0])
        for declared in (False, True):
            for factor, passes in ((1.0, True), (1.2, True), (1.3, False), (2.0, False)):
                # A row's moment times a factor takes factor squared rows; there is one, and half a row of room.
                made = Summary.of(f, one, C)
                add = Update.adding(made.with_moment(factor * made.moment))
                reason = AlgebraicOwnership(1.0).refuse(count(add, added=[1, 0, 0]) if declared else add, "x")
                assert (reason is None) == passes, (declared, factor)

    def test_declared_rows_that_were_deleted_are_gone(self):
        rule, (features, labels) = AlgebraicOwnership(1.0), self.unit_rows(6)
        add = count(Update.adding(Summary.of(features, labels, C)), np.bincount(labels, minlength=C))
        rule.record(add, "x")
        rule.record(count(Update.deleting(Summary.of(features[:3], labels[:3], C)), [0, 0, 0], [1, 1, 1]), "x")
        np.testing.assert_array_equal(rule.standing("x", D, C).counts, [1, 1, 1])

    def test_a_deletion_leaves_nothing_standing(self):
        rule = Ownership(D, C, seed=1, size=4)
        for number in (1, 2, 3):
            rule.record(Update.adding(block(number)), "x")
        for number in range(4, 12):
            rule.record(Update.adding(block(number)), "x")
            rule.record(Update.deleting(block(number)), "x")
        assert len(rule.remembered().values["owners"]) == 3
        # Sums of standing messages are only found among no more than the sketch's size of them.
        assert rule.refuse(Update.deleting(block(1) + block(3)), "x") is None
