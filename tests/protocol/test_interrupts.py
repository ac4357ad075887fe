"""Ctrl-C in the middle of a step: it counts whole or not at all, wherever the signal comes."""

import signal
import sys
import threading

import numpy as np
import pytest

from exhume import Ledger, Server, Update
from exhume.defence import Bounds, hardened
from exhume.protocol import itemise
from exhume.protocol.interrupts import HeldBack

D, C = 4, 3
RNG = np.random.default_rng(0)
F, Y = np.abs(RNG.normal(size=(40, D))), RNG.integers(0, C, 40)


def made(mode):
    if mode == "bare":
        return Server(Ledger.zeros(D, C, 1e-3))
    options = {"show_rows": mode == "rows", "public": (F, Y), "key": "42" * 16, "horizon": 3, "outlier": 0.5}
    return hardened(Ledger.zeros(D, C, 1e-3), bounds=Bounds.measure(F, client_rows=9), rows=40, **options)


def state(server):
    """Return everything that a step changes."""
    with server.paused():
        rules = [
            rule for rule in (*server.admission, *getattr(server.release, "rules", ())) if hasattr(rule, "remembered")
        ]
        kept = [rule.remembered() for rule in rules]
        total = server.ledger.summary
        values = [{name: value for name, value in memory.values.items() if name != "seed"} for memory in kept]
        arrays = [{name: a.tobytes() for name, a in memory.arrays.items() if a.size} for memory in kept]
        return server.counts, total.gram.tobytes(), total.moment.tobytes(), values, arrays


def messages(mode):
    for side, part in (("add", slice(0, 3)), ("delete", slice(0, 1) if mode == "rows" else slice(0, 3))):
        update = itemise(C, **{side: (2.0 * F[part], Y[part])})
        yield update if mode == "rows" else Update(update.add, update.delete)


def interrupted(call, after):
    """Run a call that Ctrl-C meets after so many lines of ours; say whether it did."""
    lines = 0

    def trace(frame, event, arg):
        nonlocal lines
        if (
            "exhume" not in frame.f_code.co_filename
            or frame.f_code.co_filename == HeldBack.__enter__.__code__.co_filename
        ):
            return None if event == "call" else trace
        if event == "line":
            lines += 1
            if lines == after:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
        return None
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("mode", ["bare", "rows", "messages"])
def test_wherever_an_interrupt_comes_a_step_counts_whole_or_not_at_all(mode):
    undone = counted = 0
    for number, update in enumerate(messages(mode)):
        for after in range(1 + number, 5000, 11):
            server = made(mode)
            server.head()
            for earlier in list(messages(mode))[:number]:
                server.submit(earlier, "alice")
            before = state(server)
            if interrupted(lambda server=server, update=update: server.submit(update, "alice"), after) is None:
                break
            found = state(server)
            if found == before:
                undone += 1
                assert server.submit(update, "alice").accepted  # the same message can be sent again
                found = state(server)
            else:
                counted += 1
            server = made(mode)
            server.head()
            for whole in list(messages(mode))[: number + 1]:
                server.submit(whole, "alice")
            assert found == state(server)
        else:
            raise AssertionError("a step has no end")
    assert undone > 20 and (counted or mode == "bare")


def test_a_signal_comes_after_the_block_or_where_it_is_let_through():
    done = []
    with pytest.raises(KeyboardInterrupt), HeldBack():
        signal.raise_signal(signal.SIGINT)
        done.append("after the signal")
    with pytest.raises(KeyboardInterrupt), HeldBack() as signals:
        signal.raise_signal(signal.SIGINT)
        signals.let_through()
        done.append("never")
    assert done == ["after the signal"]
    with pytest.raises(KeyboardInterrupt):  # and handlers are as they were
        signal.raise_signal(signal.SIGINT)


def test_an_error_of_the_block_comes_out_and_the_signal_with_it():
    with pytest.raises(KeyboardInterrupt) as caught, HeldBack():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("first")
    assert isinstance(caught.value.__context__, ValueError)


def test_other_threads_and_signals_that_are_ignored_are_left_alone():
    kept = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with HeldBack() as signals:
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            signals.let_through()
    finally:
        signal.signal(signal.SIGINT, kept)
    seen = []

    def work():
        with HeldBack():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [kept]


def test_half_a_memory_of_rows_can_be_taken_back():
    """An interrupt between two rows of a message once left a deletion that nobody could ask for again."""
    from collections import Counter

    from exhume.defence.admission._standing import StandingBlocks

    class Stops(dict):
        def items(self):
            yield from list(super().items())[:2]
            raise KeyboardInterrupt

    held = StandingBlocks()
    held.note("a", Counter({b"1": 1, b"2": 2, b"3": 1}))
    before = held.remembered()
    for act in (held.note, held.retire):
        undo = held.mark()
        with pytest.raises(KeyboardInterrupt):
            act("a", Stops({b"2": 1, b"1": 1, b"3": 1}))
        assert held.remembered() != before
        undo()
        assert held.remembered() == before
    undo = held.mark()
    held.retire("a", Counter({b"2": 2}))
    held.note("a", Counter({b"2": 1}))  # the same row goes and comes
    undo()
    assert held.remembered() == before
