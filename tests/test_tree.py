"""The whole tree: one name for one thing, one home for one constant, no way into another room that is private."""

import ast
import tomllib
from collections import defaultdict
from pathlib import Path

import exhume
from exhume import numerics

ROOT = Path(__file__).parents[1]
SOURCE = Path(exhume.__file__).parent
TREES = {path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def places(defined):
    """Return the names that are defined in more than one place."""
    found = defaultdict(list)
    for path, tree in TREES.items():
        for name in defined(tree):
            found[name].append(str(path))
    return found


def classes(tree):
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def top_level(tree):
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_no_class_name_stands_for_two_things():
    assert {name: where for name, where in places(classes).items() if len(where) > 1} == {}


def test_numbers_have_one_home():
    found = places(top_level)
    # `symmetric` is also the estimator of that name, which is a module and its function.
    names = set(numerics.__all__) - {"symmetric"}
    assert names >= {"Matrix", "relative", "RANK_TOLERANCE"}
    assert {name: found[name] for name in names} == {name: ["numerics.py"] for name in names}


def imported(tree):
    """Yield every import of ours as the path of the thing that is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("exhume"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("exhume."))


def test_nobody_imports_what_is_private_to_another_room():
    taken = []
    for path, tree in TREES.items():
        assert not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree)), path
        for name in imported(tree):
            parts = name.split(".")[1:]
            # The modules beside the rooms belong to all of them; a name with two underscores is no secret.
            hidden = [part.startswith("_") and not part.startswith("__") for part in parts]
            if any(hidden[1:]) and parts[0] != path.parts[0]:
                taken.append(f"{path}: {name}")
    assert taken == []


def test_no_function_may_be_complex():
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "C901" in lint["select"] and lint["mccabe"]["max-complexity"] <= 15
    assert "C901" not in str([lint["ignore"], lint["per-file-ignores"]])
    assert [str(path) for path in TREES if "C901" in (SOURCE / path).read_text(encoding="utf-8")] == []


def test_tests_mirror_the_tree():
    folders = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    assert [str(folder) for folder in sorted(folders) if not (SOURCE / folder).is_dir()] == []
    rooms = {path.parts[0] for path in TREES if len(path.parts) > 1}
    assert rooms <= {str(folder) for folder in folders}
