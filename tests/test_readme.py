"""The READMEs are true: the tree is the repository's, links lead somewhere, commands parse, and small ones are run."""

import ast
import importlib.util
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

from common import config
from common.audio import waveform
from common.data.manifest import Utterance, write_jsonl
from tests.jasper.tiny import run, save_tiny

REPOSITORY = Path(__file__).resolve().parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
PAGES = [
    *(
        "README.md",
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/new_language.md",
        "docs/bulk.md",
        "docs/data.md",
        "ctc/README.md",
    ),
    *("docs/multi_node.md", "docs/from_the_originals.md", "benchmarks/README.md", "trt/README.md"),
    *("jasper/README.md", "wav2vec2/README.md", "fastconformer/README.md"),
    *("fastpitch/README.md", "fastpitch/vocoders/README.md", "trt/serving/README.md"),
    *sorted(f"docs/checkpoints/{page.name}" for page in (REPOSITORY / "docs" / "checkpoints").glob("*.md")),
]
# Commands that read TOML files before their flags; all others have flags, and an options class of their name.
RUNS = {
    "jasper.train": "jasper.config.Config",
    "fastpitch.train": "fastpitch.acoustic.config.Config",
    "wav2vec2.pretrain": "wav2vec2.pretrain.PretrainConfig",
    "wav2vec2.finetune": "wav2vec2.finetune.FinetuneConfig",
    "wav2vec2.benchmark": "wav2vec2.benchmark.config.BenchmarkConfig",
    "fastconformer.train": "fastconformer.config.Config",
    "jasper.benchmark": "jasper.benchmark.BenchmarkConfig",
    "fastpitch.vocoders.benchmark": "fastpitch.vocoders.benchmark.BenchmarkConfig",
}


def blocks(page: str, language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [text for name, text in fenced if name == language]


def commands(page: str) -> list[list[str]]:
    """The words of every command in the page's bash blocks."""
    lines = "\n".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
    return [words for line in lines for words in [shlex.split(line, comments=True)] if words]


COMMANDS = [command for name in PAGES for command in commands((REPOSITORY / name).read_text(encoding="utf-8"))]
PYTHON = [command for command in COMMANDS if "-m" in command and "bash" not in command]


def sections(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)}


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def tree() -> list[str]:
    """The paths of the tree in docs/architecture.md; folders end in a slash."""
    paths, folder = [], ""
    for line in blocks(ARCHITECTURE, "")[-1].splitlines():
        name = line.strip().split()[0]
        if not line.startswith(" "):
            folder = name if name.endswith("/") else ""
            paths.append(name)
        else:
            paths.append(folder + name)
    return paths


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return listed.stdout.splitlines()


def test_everything_in_the_tree_exists_and_has_a_phrase():
    for path in tree():
        assert (REPOSITORY / path).exists(), f"docs/architecture.md: {path} is in the tree but not in the repository"
        assert (REPOSITORY / path).is_dir() == path.endswith("/"), path
    for line in blocks(ARCHITECTURE, "")[-1].splitlines():
        assert len(line.split()) > 1, f"docs/architecture.md: {line}: a phrase is missing"


def test_every_file_of_the_repository_has_its_place_in_the_tree():
    paths = tree()
    leaves = [path for path in paths if not any(other != path and other.startswith(path) for other in paths)]
    missing = [
        file
        for file in tracked()
        if not any(file == leaf or (leaf.endswith("/") and file.startswith(leaf)) for leaf in leaves)
    ]
    assert missing == [], "docs/architecture.md: not in the tree"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if not target.startswith("https://"):
            name, _, section = target.partition("#")
            there = (REPOSITORY / page).parent / name if name else REPOSITORY / page
            assert there.exists(), f"{page}: {target}"
            assert not section or section in sections(there), f"{page}: {target}"


def test_the_log_is_a_table_a_topic_the_newest_row_first():
    index = (REPOSITORY / "docs" / "log.md").read_text(encoding="utf-8")
    topics = sorted((REPOSITORY / "docs" / "log").glob("*.md"))
    assert sorted(re.findall(r"^- \[.+\]\(log/(.+?)\): ", index, re.MULTILINE)) == [topic.name for topic in topics]
    lines = 0
    for topic in topics:
        head, _, table = topic.read_text(encoding="utf-8").partition("|---|---|---|\n")
        assert head.startswith("# "), topic.name
        assert head.endswith("| date | tried | what came of it |\n"), topic.name
        rows = re.findall(r"^\| (\d{4}-\d\d-\d\d) \| [^|]+ \| \*\*.+ \|$", table, re.MULTILINE)
        assert len(rows) == len(table.splitlines()), f"{topic.name}: a row is date, name and verdict"
        assert rows == sorted(rows, reverse=True), topic.name
        lines += len(rows)
    assert lines < 1_200


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if "-m" in c and "bash" not in c], ids=lambda c: " ".join(c)[:60]
)
def test_commands_of_python_are_understood(command, monkeypatch):
    module, arguments = command[command.index("-m") + 1], command[command.index("-m") + 2 :]
    assert importlib.util.find_spec(module)
    monkeypatch.chdir(REPOSITORY)
    if module == "wav2vec2.train":  # only passes on what comes after the name of a training
        module, arguments = f"wav2vec2.{arguments[0]}", arguments[1:]
    if module in RUNS:
        owner, name = RUNS[module].rsplit(".", 1)
        config.command_line(getattr(importlib.import_module(owner), name), arguments, description="")
    elif module == "fastpitch.vocoders.train":
        config.command_line(importlib.import_module(module).schema(arguments), arguments, description="")
    elif module == "fastpitch.inference":
        importlib.import_module(module).command_line(arguments)
    elif module == "common.data.shards":
        commands_there = importlib.import_module(f"{module}.__main__").COMMANDS
        config.parse_flags(commands_there[arguments[0]][1], None, arguments[1:], description="")
    elif not module.startswith(("ctc.", "tests.")):  # those use argparse, and run when they are asked to parse
        owner = {"trt.export": "trt.export.command"}.get(module, module)
        options = getattr(importlib.import_module(owner), f"{module.rsplit('.', 1)[1].title().replace('_', '')}Config")
        config.parse_flags(options, None, arguments, description="")


def test_files_of_the_repository_that_commands_name_exist():
    named = [word for command in COMMANDS for word in command if re.match(r"(scripts|configs|benchmarks|tests)/", word)]
    assert len(named) > 10
    for path in named:
        assert (REPOSITORY / path).exists(), path


@pytest.mark.parametrize("command", [c for c in COMMANDS if "bash" in c], ids=lambda c: " ".join(c)[:60])
def test_scripts_exist_and_know_the_variables_that_are_set(command):
    script = REPOSITORY / command[command.index("bash") + 1]
    subprocess.run(["bash", "-n", script], check=True)
    beside = [*script.parent.glob("*.sh"), *script.parent.parent.glob("*.sh")]
    known = "".join(path.read_text(encoding="utf-8") for path in beside)
    for setting in command[: command.index("bash")]:
        if "=" not in setting:
            continue  # `srun`, and its flags
        assert re.search(rf"\b{setting.split('=')[0]}\b", known), f"{script.name} does not know {setting}"


def test_a_model_is_used_within_250_words():
    prose = re.sub(r"!\[[^]]*\]\([^)]*\)", "", README[: README.index("speech speak")])
    assert len(prose.split()) <= 250


@pytest.fixture
def workplace(tmp_path, monkeypatch) -> Path:
    """A folder with the files that the README's commands name: a tiny model, and a second of noise under every name."""
    monkeypatch.chdir(tmp_path)
    save_tiny(tmp_path / "nvidia_jasper_210205.pt")
    noise = (0.1 * np.random.default_rng(0).standard_normal(16000)).astype(np.float32)
    (tmp_path / "recordings").mkdir()
    for name in ("a.flac", "b.wav", "talk.wav", "recordings/c.wav"):
        waveform.write(tmp_path / name, noise, 16000)
    write_jsonl(tmp_path / "test.jsonl", [Utterance(id="c", audio=tmp_path / "b.wav", seconds=1.0, text="see")])
    return tmp_path


def test_the_commands_that_use_a_model_run(workplace, capsys):
    used = [command for command in commands(README) if {"jasper.inference", "jasper.evaluation"} & set(command)]
    assert len(used) == 4
    for command in used:
        small = ["--workers", "0"] if "jasper.evaluation" in command else []
        said = run(capsys, *command[2:], *small)
        assert said.status == 0, (command, said.err)
    assert (workplace / "words.jsonl").read_text().startswith('{"audio": ')
    assert (workplace / "subtitles" / "talk.srt").is_file()
    assert '"hypothesis"' in (workplace / "errors.jsonl").read_text()


@pytest.mark.usefixtures("workplace")
def test_the_python_interface_works_as_shown(capsys):
    (example,) = blocks(README, "python")
    exec(compile(example, "README.md", "exec"), {})
    assert "[('" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_what_examples_in_python_import_or_name_is_there(page):
    packages = {"common", "ctc", "jasper", "fastpitch", "wav2vec2", "fastconformer", "trt", "speech"}
    packages.add("transducer")  # as `fastconformer` was called
    examples = blocks((REPOSITORY / page).read_text(encoding="utf-8"), "python")
    for node in (node for example in examples for node in ast.walk(ast.parse(example))):
        match node:
            case ast.ImportFrom(module=str(owner), names=aliases):
                names = [alias.name for alias in aliases]
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                names = [name]
            case _:
                continue
        if owner.split(".")[0] in packages:
            found = importlib.import_module(owner)
            for name in names:
                assert hasattr(found, name) or importlib.util.find_spec(f"{owner}.{name}"), f"{owner}.{name}"
