"""What pages say can be done: commands, options, defences and configuration files that are there."""

import csv
import re
import tomllib
from pathlib import Path

import pytest
import typer

from exhume.advise.defences import defences
from exhume.audit.accepted import Risk
from exhume.audit.settings import make_settings
from exhume.cli.main import app
from exhume.defence.config import parse
from exhume.simulate.attackers import REGISTRY as ATTACKS

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / "docs").glob("*.yml"),
]
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
COMMANDS = typer.main.get_command(app)


def flags(words):
    """Return the options of the command that some words begin with."""
    command, depth = COMMANDS, 0
    while hasattr(command, "commands") and depth < len(words) and words[depth] in command.commands:
        command, depth = command.commands[words[depth]], depth + 1
    return {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)} | {"--help"}


def spoken():
    """Yield every command of ours in code on a page."""
    for page, text in TEXTS.items():
        code = [
            *re.findall(r"`([^`\n]+)`", text),
            *(line for block in re.findall(r"```.*?```", text, re.S) for line in block.splitlines()),
        ]
        for line in code:
            for said in re.findall(r"\bexhume ((?:audit|advise|data|paper)\b[^#;]*)", line):
                yield page, said


def hidden(words):
    command = COMMANDS.commands[words[0]]
    return {flag for option in command.params if getattr(option, "hidden", False) for flag in option.opts}


def test_every_option_of_a_command_on_a_page_is_there():
    said = list(spoken())
    assert len(said) > 20
    for page, command in said:
        words = command.split()
        known = flags(words) - (hidden(words) if words[0] in COMMANDS.commands else set())
        unknown = {word.split("=")[0] for word in words if re.match(r"--[a-z]", word)} - known
        assert not unknown, (page, command, unknown)


def test_every_option_of_a_benchmark_on_a_page_is_there():
    found = [(page, *m) for page, text in TEXTS.items() for m in re.findall(r"benchmarks/(\w+)\.py([^`#|;]*)", text)]
    assert found
    for page, script, words in found:
        source = (ROOT / "benchmarks" / f"{script}.py").read_text(encoding="utf-8")
        for option in re.findall(r"--[a-z-]+", words):
            assert f'"{option}"' in source, (page, script, option)


@pytest.mark.parametrize("page", ["docs/audit.md", "docs/advise.md"])
def test_the_table_of_options_is_true(page):
    known = flags([Path(page).stem])
    told = re.findall(r"^\| (`--.*?) \|", TEXTS[page], flags=re.MULTILINE)
    options = {word for cell in told for word in re.findall(r"--[a-z-]+", cell)}
    assert len(options) > 10 and options <= known


def test_the_matrix_names_defences_that_are_there():
    rows = re.findall(r"^\| ([\w+.-]+) \| (?:\d+|-?0\.\d\d) \|", TEXTS["docs/advise.md"], flags=re.MULTILINE)
    for path in sorted((ROOT / "docs" / "results").glob("advise-earlier-*.csv")):
        title, *lines = path.read_text(encoding="utf-8").splitlines()
        rows += [line.split(",")[0] for line in lines]
        assert all(line.count(",") == title.count(",") for line in lines)
    with (ROOT / "docs" / "results" / "advise-digits-matrix.csv").open(encoding="utf-8") as text:
        cells = list(csv.DictReader(text))
    assert {cell["defence"] for cell in cells} <= set(defences()) and {cell["attack"] for cell in cells} <= set(ATTACKS)
    # The page says that these rows are of an earlier hardened server.
    assert len(rows) > 90 and set(rows) - set(ATTACKS) <= {*defences(), "hardened+rows"}


def test_the_table_of_attacks_has_every_attack_and_no_other():
    table = TEXTS["docs/advise.md"].split("| attack | what it does |")[1].split("\n\n")[0]
    named = [name for cell in re.findall(r"^\| ([a-z][a-z, -]*) \|", table, re.M) for name in cell.split(", ")]
    ours = {name for name, attack in ATTACKS.items() if attack.learn.__module__.startswith("exhume.")}
    assert len(named) == len(set(named)) and set(named) == ours


def test_no_table_has_more_columns_than_a_person_can_follow():
    for page, text in TEXTS.items():
        for line in re.findall(r"^ *\|[-:| ]+\|$", text, flags=re.MULTILINE):
            assert line.count("|") - 1 <= 12, (page, "draw it, and put the numbers beside it as CSV")


def test_every_toml_on_a_page_is_read():
    read = 0
    for page, text in TEXTS.items():
        for block in re.findall(r"```toml\n(.*?)```", text, re.S):
            content = tomllib.loads(block)
            if "project" in content:
                continue
            read += 1
            if "risk" in content:
                assert all(Risk.model_validate(entry) for entry in content["risk"]), page
            elif "version" in content:
                assert parse(content), page
            else:
                assert make_settings(content), page
    assert read >= 3


def test_links_between_pages_lead_somewhere():
    for page, text in TEXTS.items():
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" not in link:
                assert ((ROOT / page).parent / link).exists(), (page, link)


def test_the_readme_works_on_a_package_index():
    """Its links and its picture are absolute, and lead to files that are here."""
    own = ("https://github.com/exhume/exhume/blob/main/", "https://raw.githubusercontent.com/exhume/exhume/main/")
    links = re.findall(r"\]\(([^)\s]+)\)", TEXTS["README.md"])
    assert len(links) > 8
    for link in links:
        assert link.startswith("https://"), link
        for place in own:
            if link.startswith(place):
                assert (ROOT / link.removeprefix(place).partition("#")[0]).exists(), link
