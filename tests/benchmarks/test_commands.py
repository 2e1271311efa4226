"""Every benchmark is found on the page of benchmarks, and its --help says what it measures."""

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
COMMANDS = [path for path in sorted(FOLDER.glob("*.py")) if '__name__ == "__main__"' in path.read_text("utf-8")]


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_a_command_is_on_the_page_and_its_help_is_its_manual(path):
    source = path.read_text(encoding="utf-8")
    assert re.search(rf"\| `{path.stem}` \|", PAGE), f"benchmarks/README.md: {path.name} is not in its list of commands"
    assert re.search(r"description=__doc__\b", source), f"{path.name}: --help does not show what stands at its head"
    manual = ast.get_docstring(ast.parse(source)) or ""
    assert re.search(rf"python (benchmarks/{path.stem}\.py|-m benchmarks\.{path.stem})", manual), path.name


def test_the_page_lists_no_command_that_is_not_there():
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(listed) == [path.stem for path in COMMANDS]
