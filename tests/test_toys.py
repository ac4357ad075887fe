"""One thing of every kind in a package outside the tree: found everywhere, played, and no file of ours knows it."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import exhume
from exhume.advise.defences import defences
from exhume.advise.run import Request, matrix_of, run_matrix
from exhume.cli._options import PLACES, completing
from exhume.cli.main import app
from exhume.errors import InputError
from tests.toys import BROUGHT, install, recipes, registries, renew

SOURCE = Path(exhume.__file__).parent
ELSEWHERE = {"exhume.paper", "exhume.decoders"}
"""Kinds that an audit does not name."""

RULES = {"exhume.admission", "exhume.release", "exhume.accountants"}


def command(folder, *words, cwd):
    """Run the command line as a user with the package installed would."""
    env = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "400", "EXHUME_HOME": str(cwd / "home")}
    done = subprocess.run(
        [sys.executable, "-c", "from exhume.cli.main import main; main()", *words],
        capture_output=True,
        text=True,
        env=env,
        cwd=cwd,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def help_of(*words):
    return CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"}).output


def test_there_is_a_recipe_for_every_kind():
    groups = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Registry":
                groups.add(ast.literal_eval(node.args[3]))
    assert groups == set(BROUGHT) == set(registries()) == set(recipes()[1])


@pytest.mark.parametrize("group", BROUGHT)
def test_a_toy_is_found_by_its_registry_and_by_completion(toys, group):
    name, registry = BROUGHT[group], registries()[group]
    assert registry.find(name).name == name and registry.find(name.replace("-", "_")) is registry[name]
    (what,) = [what for what, place in PLACES.items() if _is(place, registry)]
    assert f"digits,{name}" in completing(what)(f"digits,{name[:3]}")


def _is(place, registry):
    module, _, attribute = place.partition(":")
    return getattr(sys.modules[module], attribute) is registry


def test_toys_are_in_the_help(toys):
    audit, advise, paper = help_of("audit"), help_of("advise"), help_of("paper", "run")
    for group, name in BROUGHT.items():
        assert (name in audit) == (group not in ELSEWHERE), name
    for group in ("exhume.data_sets", "exhume.encoders", "exhume.attacks", *RULES):
        assert BROUGHT[group] in advise
    assert BROUGHT["exhume.paper"] in paper
    assert BROUGHT["exhume.decoders"] in help_of("decode", "train")
    assert "stripes" in help_of("data", "features") and "stripes" in CliRunner().invoke(app, ["data", "list"]).output


def test_help_knows_no_toy_without_the_package():
    assert not any(name in help_of("audit") for name in BROUGHT.values() if name != "unit")


def test_advise_plays_them(toys, tmp_path):
    rules = tuple(BROUGHT[group] for group in sorted(RULES))
    assert set(rules) <= set(defences()) and set(rules) <= set(Request().defences)
    assert "one-by-one" in Request().attacks
    request = Request(
        "stripes", "unit", None, trials=3, attacks=("one-by-one",), defences=("none", *rules), busy=(False,)
    )
    cells = {(c.attack, c.defence): c for c in run_matrix(matrix_of(request), tmp_path, jobs=1)}
    assert len(cells) == 8 and not any(cell.error for cell in cells.values())
    labels = {name: cells["one-by-one", name].score.labels for name in ("none", *rules)}
    assert labels["none"] == labels["few-messages"] == labels["counting"] == 3
    honest = {name: cells["honest traffic", name].honest for name in ("none", *rules)}
    assert honest["shifted-totals"].head_error > 0.01 > 1e-9 > honest["none"].head_error


SERVER = """
version = 1
[[admission]]
rule = "few-messages"
most = 500
[[release]]
rule = "shifted-totals"
by = 0.001
[accountant]
rule = "counting"
"""


def test_explain_names_them(toys, tmp_path):
    (tmp_path / "server.toml").write_text(SERVER)
    words = "audit --explain --data stripes --encoder unit --defence server.toml --attack one-by-one"
    toy = "--probe shuffled --estimator pseudo-inverse --recovery projected"
    told = command(toys, *words.split(), *toy.split(), cwd=tmp_path)
    for group, name in BROUGHT.items():
        assert (name in told) == (group not in ELSEWHERE)
    for words in ("rows in random order", "A by pseudo-inverse", "made positive semidefinite", "one at a time"):
        assert words in told
    assert "admission: few-messages (most 500)" in told


def test_a_toy_probe_audits_digits_end_to_end(toys, tmp_path):
    words = "audit --dim 32 --trials 4 --kind record --precision float64 --jobs 1 --no-remedy --json found.json"
    toy = "--probe shuffled --estimator pseudo-inverse --recovery projected,rank-one"
    said = command(toys, *words.split(), *toy.split(), cwd=tmp_path)
    assert said.startswith("Verdict: REPLAY.")
    found = json.loads((tmp_path / "found.json").read_text())
    assert {(f["probe"], f["recovery"], f["labels_correct"]) for f in found["findings"]} == {
        ("shuffled", "projected", 4),
        ("shuffled", "rank-one", 4),
    }
    assert found["settings"]["estimator"] == "pseudo-inverse"


def test_toy_rules_and_a_toy_attacker_are_audited(toys, tmp_path):
    (tmp_path / "server.toml").write_text(SERVER)
    words = (
        "audit --data stripes --encoder unit --clients 3 --trials 2 --kind record --probe shuffled --jobs 1 --no-remedy"
    )
    more = "--defence server.toml --attack one-by-one --json found.json"
    said = command(toys, *words.split(), *more.split(), cwd=tmp_path)
    assert "few-messages, shifted-totals, counting" in said
    found = json.loads((tmp_path / "found.json").read_text())["defence"]
    assert [rule["rule"] for rule in found["rules"]] == ["few-messages", "shifted-totals", "counting"]
    assert [siege["attack"] for siege in found["sieges"]] == ["one-by-one"]


def test_a_toy_decoder_is_trained(toys, tmp_path):
    told = json.loads(command(toys, *["decode", "train", "median", "--data", "digits", "--json"], cwd=tmp_path))
    assert told["decoder"] == "median" or told["name"] == "median"


def test_a_toy_table_is_run(toys, tmp_path):
    words = "paper run accuracies --data stripes --encoder unit --jobs 1 --json"
    (cell,) = json.loads(command(toys, *words.split(), cwd=tmp_path))
    assert (cell["table"], cell["row"], cell["column"]) == ("accuracies", "all rows", "accuracy")
    assert cell["measured"]["value"] > 0.9


@pytest.mark.parametrize("group", BROUGHT)
def test_a_taken_name_is_refused(tmp_path, monkeypatch, group):
    install(tmp_path, {group: {"one": (place := next(iter(recipes()[1][group].values()))), "two": place}})
    monkeypatch.syspath_prepend(str(tmp_path))
    renew()
    try:
        with pytest.raises(InputError, match=rf"^{group} must be entries of \w+ with names of their own"):
            len(registries()[group])
    finally:
        monkeypatch.undo()
        renew()
        for name in [name for name in sys.modules if name.split(".")[0] == "toy"]:
            del sys.modules[name]


def test_a_rule_may_not_take_the_name_of_a_combination(toys, monkeypatch):
    monkeypatch.setattr(registries()["exhume.admission"]["few-messages"], "name", "hardened")
    renew()
    with pytest.raises(InputError, match="defence must be rules with names of their own; got a second 'hardened'"):
        defences()
