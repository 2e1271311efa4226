"""What two packages share stands in `common`: no block of six lines or more is written in two of them."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from tests.training import REPOSITORY

PACKAGES = ("common", "ctc", "jasper", "fastpitch", "wav2vec2", "fastconformer", "trt", "scripts", "benchmarks")
LINES = 6
# What does not count: imports; manuals of commands (the docstrings of modules); options, which are each command's own
# schema and help (docs/architecture.md); signatures with their docstrings, which are alike where the same is asked.
ARGUED = {
    ("fastconformer/train.py", "jasper/train.py"): "each `main` shows the whole of its training on one page",
    ("fastpitch/train.py", "jasper/train.py"): "likewise",
    ("fastpitch/inference.py", "trt/speak.py"): "what a phrase says, handed to two methods of two packages",
}


def lines_that_count(source: str) -> list[tuple[int, str]]:
    """Lines of code by number, without indentation."""
    tree = ast.parse(source)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        parts = [node] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ClassDef):
            parts += [part for part in node.body if isinstance(part, ast.AnnAssign) or is_text(part)]
        if isinstance(node, ast.FunctionDef | ast.Module) and is_text(node.body[0] if body else None):
            parts.append(node.body[0])
        if isinstance(node, ast.FunctionDef):
            skipped.update(range(node.lineno, node.body[0].lineno))
        for part in parts:
            skipped.update(range(part.lineno, part.end_lineno + 1))
    numbered = ((number, line.strip()) for number, line in enumerate(source.splitlines(), 1))
    return [(n, line) for n, line in numbered if n not in skipped and line and not line.startswith("#")]


def is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def copies(files: dict[str, str], length: int = LINES) -> dict[tuple[str, str], str]:
    """Pairs of files of two packages that have a block of `length` lines in common: where the first one stands."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, source in sorted(files.items()):
        lines = lines_that_count(source)
        for i in range(len(lines) - length + 1):
            block = tuple(text for _, text in lines[i : i + length])
            places[block].append((name, lines[i][0]))
    found: dict[tuple[str, str], str] = {}
    for block, where in places.items():
        for name, line in where:
            for other, its_line in where:
                if name < other and Path(name).parts[0] != Path(other).parts[0]:
                    found.setdefault((name, other), f"{name}:{line} and {other}:{its_line}: {block[0]}")
    return found


def test_no_block_is_written_in_two_packages_but_those_argued_for():
    paths = [path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py")]
    found = copies({str(path.relative_to(REPOSITORY)): path.read_text() for path in paths})
    assert {pair: where for pair, where in found.items() if pair not in ARGUED} == {}
    assert ARGUED.keys() <= found.keys(), "an exception that is no longer needed"


CODE = "def work(x):\n    a = x + 1\n    b = a * 2\n    c = b - a\n    d = c / b\n    e = d**2\n    return e\n"


@pytest.mark.parametrize(
    ("name", "source", "is_copy"),
    [
        ("b/y.py", f"import os\n\n{CODE}", True),
        ("b/y.py", f"class Own:\n    {CODE.replace(chr(10), chr(10) + '    ')}", True),
        ("b/y.py", CODE.replace("d**2", "d**3"), False),
        ("a/y.py", CODE, False),
    ],
)
def test_a_copy_is_found_wherever_it_stands_in_another_package(name, source, is_copy):
    found = copies({"a/x.py": CODE, name: source})
    assert list(found) == ([("a/x.py", name)] if is_copy else [])


def test_imports_options_signatures_and_manuals_are_no_copies():
    source = '"""A\nmanual\nof\nsix\nlines\n"""\nimport a\nimport b\n'
    source += "class Options:\n" + "".join(f"    option_{i}: int = {i}\n    '''Help.'''\n" for i in range(6))
    source += "def work(\n    a,\n    b,\n    c,\n    d,\n    e,\n):\n    '''What it does.'''\n    return a\n"
    assert copies({"a/x.py": source, "b/x.py": source}) == {}


# Names that mean the same in every model, or in every runtime.
EVERYWHERE = {
    *("Config", "DataConfig", "LossConfig", "ModelConfig"),
    *("BenchmarkConfig", "EvaluationConfig", "InferenceConfig"),
    *("Loss", "Recognizer", "Run", "Step", "Synthesizer", "Vocoder"),
}


def test_a_public_class_name_means_one_thing():
    places = defaultdict(list)
    for package in (*PACKAGES, "speech"):
        for path in (REPOSITORY / package).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(REPOSITORY)))
    several = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in several.items() if name not in EVERYWHERE} == {}
    assert several.keys() >= EVERYWHERE, "a name that is excepted and occurs once"


def test_no_import_is_excepted_from_the_contracts():
    assert "ignore_imports" not in (REPOSITORY / "pyproject.toml").read_text()
