"""Configuration, rounds, rates and tokens by themselves."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="the service needs the extra 'serve'")
pytest.importorskip("sqlalchemy", reason="the service needs the extra 'serve'")

from exhume.errors import InputError
from exhume.service import Gathering, load, template
from exhume.service.config import UNDEFENDED
from exhume.service.limits import Rates, body_limit, until_tick
from exhume.service.problems import ProblemError
from exhume.service.rounds import Rounds

pytestmark = pytest.mark.extras


@dataclass(frozen=True)
class One:
    client: str
    number: int


@given(
    clients=st.lists(st.sampled_from("abcd"), max_size=30),
    most=st.integers(1, 5),
    seconds=st.sampled_from([0.0, 5.0]),
)
def test_every_message_is_in_one_round_and_a_client_once_in_each(clients, most, seconds):
    rounds = Rounds(Gathering(seconds, most))
    sent = [One(client, i) for i, client in enumerate(clients)]
    for one in sent:
        rounds.add(one, now=0.0)
    found = [some for _ in range(len(sent)) for some in rounds.due(1, now=0.0, closing=True)]
    assert sorted(one.number for some in found for one in some) == list(range(len(sent)))
    for some in found:
        assert len({one.client for one in some}) == len(some) <= (most if seconds else 1)
    for client in "abcd":  # in the order in which each client sent them
        numbers = [one.number for some in found for one in some if one.client == client]
        assert numbers == sorted(numbers)
    assert len(rounds) == 0


def test_a_round_closes_by_time_or_by_clients():
    rounds = Rounds(Gathering(5.0, 2))
    assert rounds.wait(0.0) is None
    rounds.add(One("a", 0), now=0.0)
    rounds.add(One("a", 1), now=1.0)  # the same client again: its next message waits
    assert rounds.wait(1.0) == 4.0 and rounds.due(10, now=1.0) == []
    rounds.add(One("b", 2), now=2.0)
    assert rounds.wait(2.0) == 0.0
    assert [[one.number for one in some] for some in rounds.due(10, now=2.0)] == [[0, 2]]
    assert rounds.due(10, now=6.9) == []
    assert [[one.number for one in some] for some in rounds.due(10, now=7.0)] == [[1]]


def test_rates_fill_again():
    rates = Rates(60.0, 2)
    rates.take("a", 0.0)
    rates.take("a", 0.0)
    with pytest.raises(ProblemError) as told:
        rates.take("a", 0.0)
    assert told.value.headers["Retry-After"] == "1"
    rates.take("b", 0.0)
    rates.take("a", 1.0)


def test_the_limit_of_a_body_follows_from_sizes():
    # Two dense sides, two lots of shown rows with labels and counts, 64 KiB for the header.
    assert body_limit(10, 3, 5) == 2 * 8 * (100 + 30) + 2 * 8 * (5 * 11 + 3) + 65536


@pytest.fixture
def written(tmp_path):
    def write(text):
        (tmp_path / "service.toml").write_text(text)
        return tmp_path / "service.toml"

    return write


def test_the_template_is_a_hardened_service(written, tmp_path):
    config = load(written(template(16, 3, None)))
    assert [entry.rule for entry in config.defences.admission] == ["bounded-influence", "ownership"]
    assert config.defences.release[0].rule == "continual-noise"
    forgetting, gathering, limits = config.bounds_of
    assert (forgetting.seconds, gathering.seconds, limits.rows) == (30.0, 0.0, 100)
    assert config.url == str(tmp_path / "store.db")
    assert load(written(template(16, 3, 2.0**-10))).ledger.grid == 2.0**-10


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[ledger]\nd = 4\nc = 2\n", "defence must be a file of rules, or the bounds"),
        ('[ledger]\nd = 4\nc = 2\n[defence]\nundefended = "yes"\n', "word for word"),
        ("[ledger]\nd = 4\nc = 2\nsize = 3\n", "key of ledger"),
        ("[ledger]\nd = 0\nc = 2\n", "ledger.d"),
        ("[leger]\nd = 4\n", "did you mean 'ledger'"),
        ("[ledger]\nd = 4\nc = 2\n[forget]\nsecond = 4\n", "did you mean 'seconds'"),
        ("[ledger]\nd = 4\nc = 2\n[limits]\nqueue = 0\n", "limits.queue must be above 0"),
        ("[ledger]\nd = 4\nc = 2\n[limits]\npace = -1\n", "limits.pace must be 0 or above"),
        ("[ledger]\nd = 4\nc = 2\n[limits]\npace = 11\n", "limits.pace must be from 0 to 10 seconds"),
        ("[ledger]\nd = 4\nc = 2\n[limits]\nqueue = 1.5\n", "limits.queue must be a whole number"),
        ('[ledger]\nd = 4\nc = 2\n[listen]\ncertificate = "x"\n', "both certificate and private_key"),
        ("not toml", "a valid TOML file"),
    ],
)
def test_a_wrong_configuration_says_what_is_wrong(written, text, said):
    with pytest.raises(InputError, match=said):
        config = load(written(text))
        config.bounds_of  # noqa: B018
        config.defences  # noqa: B018


def test_no_defence_must_be_said_in_plain_words(written):
    config = load(written(f'[ledger]\nd = 4\nc = 2\n[defence]\nundefended = "{UNDEFENDED}"\n'))
    assert config.defences.admission == () and config.defences.release == ()


@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
def test_limits_are_finite_numbers_above_zero(tmp_path, value):
    text = template(4, 2, None).replace("per_minute = 6000", f"per_minute = {value}")
    (tmp_path / "service.toml").write_text(text)
    with pytest.raises(InputError, match="per_minute"):
        load(tmp_path / "service.toml").bounds_of  # noqa: B018


@given(took=st.integers(0, 500), pace=st.integers(1, 50))
def test_an_answer_waits_for_the_next_whole_multiple_and_no_longer(took, pace):
    step = 2.0**-10  # sums of such numbers are exact
    end = took + until_tick(took * step, pace * step) / step
    assert end % pace == 0 and took <= end < took + pace


def test_without_a_pace_nobody_waits():
    assert until_tick(0.3, 0.0) == 0.0
