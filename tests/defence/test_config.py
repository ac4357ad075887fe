import tomllib

import pytest

from exhume import Ledger, Server
from exhume.defence import (
    Chain,
    Config,
    Entry,
    IdentificationAccountant,
    build,
    build_server,
    dump,
    hardened_config,
    load,
)
from exhume.errors import InputError

FILE = """
version = 1

[[release]]
rule = "every-k-changes"
changes = 2

[[release]]
rule = "columns"
keep = [0, 1]

[[release]]
rule = "posterior-noise"
sigma = 0.25
key = "00112233445566778899aabbccddeeff"

[[release]]
rule = "privacy-budget"
sigma = 0.25
mu = 2
scope = "run"

[[release]]
rule = "heads"
precision = "float32"

[accountant]
rule = "identification"
margin = 2
colluders = 2
"""


def write(tmp_path, text):
    path = tmp_path / "defence.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_makes_the_rules_that_it_names(tmp_path):
    made = build(load(write(tmp_path, FILE)), Ledger.zeros(8, 3, 0.5))
    assert repr(made.release) == (
        "Chain([EveryKChanges(changes=2), Columns(keep=[0, 1]), PosteriorNoise(sigma=0.25), "
        "PrivacyBudget(sigma=0.25, mu=2.0, scope='run', colluders=1, serve_first=True), Heads('float32')])"
    )
    assert isinstance(made.accountant, IdentificationAccountant) and made.accountant.colluders == 2
    server = build_server(Ledger.zeros(8, 3, 0.5), write(tmp_path, FILE))
    assert isinstance(server, Server) and server.head().precision == "float32"


@pytest.mark.parametrize("config", [Config(), hardened_config(64), hardened_config(64, key="ab" * 32, colluders=3)])
def test_what_is_dumped_is_loaded_again(tmp_path, config):
    path = tmp_path / "out.toml"
    text = dump(config, path)
    assert tomllib.loads(text)["version"] == 1
    assert load(path) == config
    odd = Config(
        release=(Entry.of("every-k-changes", changes=3),), admission=(Entry.of("norm-limit", thresholds={"1": 2.0}),)
    )
    assert tomllib.loads(dump(odd))["admission"] == [{"rule": "norm-limit", "thresholds": {"1": 2.0}}]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (("[accountant]", "[acountant]"), "did you mean 'accountant'"),
        (("changes = 2", "change = 2"), "option of release\\[0\\] \\(every-k-changes\\).*did you mean 'changes'"),
        (('rule = "every-k-changes"', 'rule = "every-changes"'), "release rule.*did you mean 'every-k-changes'"),
        (('"identification"', '"identificaton"'), "did you mean 'identification'"),
        (("changes = 2", ""), "release\\[0\\] \\(every-k-changes\\).changes must be given"),
        (("changes = 2", 'changes = "two"'), "release\\[0\\] \\(every-k-changes\\).changes must be a valid integer"),
        (("sigma = 0.25\nmu", "sigma = 0.5\nmu"), "the same in the noise and in its budget"),
        (("version = 1", "version = 2"), "version must be 1"),
        (("version = 1", "version = "), "a valid TOML file"),
        (('rule = "every-k-changes"', ""), "release.0.rule"),
        (("margin = 2", "margin = 8"), "below d = 8"),
        (("[[release]]\nrule = \"every-k-changes\"", "[[admission]]\nrule = \"every-k-changes\""), "admission rule"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_its_place(tmp_path, change, match):
    assert change[0] in FILE
    path = write(tmp_path, FILE.replace(*change, 1))
    with pytest.raises(InputError, match=match):
        build_server(Ledger.zeros(8, 3, 0.5), path).head()


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(InputError, match="can be read"):
        load(tmp_path / "nowhere.toml")


def test_defences_are_saved_and_refused_as_a_whole():
    ledger = Ledger.zeros(8, 3, 0.5)
    config = hardened_config(8).model_copy(update={"admission": ()})
    made, again = build(config, ledger), build(config, ledger)
    head = made.server(ledger.copy()).head()
    again.load(made.save())
    assert again.server(ledger.copy()).head() == head
    assert isinstance(again.release, Chain)
    other = build(hardened_config(8, sigma=0.3).model_copy(update={"admission": ()}), ledger)
    with pytest.raises(InputError, match="release"):
        other.load(made.save())
