import math
import sys
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Annotated, Literal

import pytest
from tyro.conf import arg

from common import config
from common.config import ConfigError


@dataclass(frozen=True, kw_only=True)
class Inner:
    lr: float = 0.1
    """Peak learning rate."""
    kind: Literal["polynomial", "noam"] = "noam"


@dataclass(frozen=True, kw_only=True)
class Block:
    filters: int


@dataclass(frozen=True, kw_only=True)
class Outer:
    optim: Inner = field(default_factory=Inner)
    blocks: tuple[Block, ...] = ()
    names: tuple[str, ...] = ("a",)
    folder: Path | None = None
    fast: bool = False

    def __post_init__(self) -> None:
        if self.fast and self.optim.lr > 1:
            raise ValueError("fast needs lr <= 1")


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_holds_only_what_differs_from_the_file_it_extends(tmp_path):
    write(tmp_path, "base.toml", "names = ['x', 'y']\n[optim]\nlr = 1\nkind = 'polynomial'\n")
    file = write(tmp_path, "run.toml", "extends = 'base.toml'\n[optim]\nlr = 2\n[[blocks]]\nfilters = 3\n")
    loaded = config.load(Outer, file)
    assert loaded == Outer(optim=Inner(lr=2.0, kind="polynomial"), names=("x", "y"), blocks=(Block(filters=3),))


def test_flags_come_over_files_and_files_over_defaults(tmp_path):
    file = write(tmp_path, "run.toml", "[optim]\nlr = 2\nkind = 'polynomial'\n")
    flags = [str(file), "--optim.lr", "0.5", "--names", "p", "q", "--folder", "/d"]
    loaded = config.command_line(Outer, flags, description="")
    assert loaded == Outer(optim=Inner(lr=0.5, kind="polynomial"), names=("p", "q"), folder=Path("/d"))


@dataclass(frozen=True, kw_only=True)
class Particular:
    optim: Inner = Inner(lr=3.0, kind="polynomial")


def test_a_table_holds_only_what_differs_from_the_default_of_its_field(tmp_path):
    file = write(tmp_path, "run.toml", "[optim]\nlr = 2\n")
    assert config.load(Particular, file).optim == Inner(lr=2.0, kind="polynomial")


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[optim]\nlrr = 1", "run.toml: unknown key optim.lrr; did you mean optim.lr?"),
        ("zzz = 1", "run.toml: unknown key zzz; known: blocks, fast, folder, names, optim"),
        ("[optim]\nlr = 'x'", "run.toml: optim.lr = 'x': expected float, found str"),
        (f"[optim]\nlr = {10**309}", "run.toml: optim.lr: expected a number below 1e308, found one of many digits"),
        ("fast = 1", "run.toml: fast = 1: expected bool, found int"),
        ("[optim]\nlr = true", "run.toml: optim.lr = True: expected float, found bool"),
        ("[optim]\nkind = 'noa'", "optim.kind = 'noa': expected one of 'polynomial', 'noam'; did you mean 'noam'?"),
        ("[[blocks]]\nfilters = 1\n[[blocks]]\nfilter = 1", "unknown key blocks[1].filter"),
        ("[[blocks]]\n", "missing 1 required keyword-only argument: 'filters'"),
        ("optim = 3", "run.toml: optim = 3: expected Inner, found int"),
        ("a = = 1", "run.toml: not valid TOML: Invalid value (at line 1, column 5)"),
        ("extends = 3", "extends = 3: expected the path of one TOML file"),
        ("extends = 'run.toml'", "run.toml: extends itself"),
        ("extends = 'rum.toml'", "rum.toml: no such file; did you mean"),
        ("fast = true\noptim.lr = 2", "run.toml: Outer: fast needs lr <= 1"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_key(tmp_path, toml, message):
    with pytest.raises(ConfigError) as error:
        config.load(Outer, write(tmp_path, "run.toml", toml))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    (tmp_path / "run.toml").mkdir()
    with pytest.raises(ConfigError, match="run.toml: cannot be read: "):
        config.load(Outer, tmp_path / "run.toml")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--optim.lrr", "3"], "--optim.lrr"),
        (["--optim.lr", "x"], "Error parsing --optim.lr: could not convert string to float: 'x'"),
        (["--optim.kind", "c"], "invalid choice 'c' for argument '--optim.kind'"),
        (["--fast", "true", "--optim.lr", "2"], "fast needs lr <= 1"),
        (["missing.toml"], "missing.toml: no such file"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line_and_exit_status_2(flags, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        config.command_line(Outer, flags, description="")
    said = capsys.readouterr().err
    assert exit_.value.code == 2
    assert message in said
    assert said.startswith("error: ")
    assert said.count("\n") == 1


def test_help_is_the_manual(capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("outer.train", None))
    with pytest.raises(SystemExit) as exit_:
        config.command_line(Outer, ["--help"], description="Trains a thing.\n\nShapes: B things.\n")
    said = capsys.readouterr().out
    assert exit_.value.code == 0
    assert said.startswith("usage: python -m outer.train [CONFIG.toml ...] [--OPTION VALUE ...]")
    assert "Trains a thing." in said
    assert "Shapes" not in said
    assert "Peak learning rate" in said
    assert "File of settings" in said


def test_a_resolved_configuration_survives_toml_and_dict(tmp_path):
    original = Outer(blocks=(Block(filters=1), Block(filters=2)), names=("a", 'quo"te'), folder=Path("/x"))
    assert config.load(Outer, write(tmp_path, "c.toml", config.to_toml(original))) == original
    assert config.build(Outer, config.to_dict(original), "dict") == original


@pytest.mark.parametrize("name", ["configs/jasper/toy.toml", "jasper/toy.toml", "jasper/toy"])
def test_configurations_that_come_with_the_packages_are_found_from_anywhere(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert config.find(name) == config.packaged() / "jasper" / "toy.toml"
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("")
    assert config.find(name) == Path(name), "a file that is there comes first"


def test_a_name_that_is_no_configuration_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config.find("jasper/toi") == Path("jasper/toi")
    assert config.find("/jasper/toy.toml") == Path("/jasper/toy.toml")
    with pytest.raises(
        ConfigError, match=r"configs/jasper/toi.toml: no such file; did you mean configs/jasper/toy.toml\?"
    ):
        config.load(Outer, "configs/jasper/toi.toml")


def test_a_command_takes_a_configuration_by_its_name(tmp_path, monkeypatch):
    write(tmp_path, "named.toml", "fast = true\noptim.lr = 0.5")
    monkeypatch.setattr(config, "packaged", lambda: tmp_path)
    assert config.command_line(Outer, ["named"], description="").fast


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 5000, r"run.toml: not valid TOML: it is nested too deeply"),
        ("a = " + "7" * 5000, r"run.toml: not valid TOML: Exceeds the limit"),
        ('extends = "a\\u0000b"', r"run.toml: extends = 'a.*b': expected the path of one TOML file"),
    ],
)
def test_what_python_itself_cannot_read_is_one_line(tmp_path, text, message):
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        config.read_toml(tmp_path / "run.toml")


def test_yes_or_no_flags_may_stand_alone():
    @dataclass(frozen=True, kw_only=True)
    class Switches:
        web: bool = False
        name: str = ""
        deep_blue: bool = True

    def parsed(*arguments):
        return config.parse_flags(Switches, None, arguments, description="")

    assert parsed("--web") == Switches(web=True)
    assert parsed("--web", "--name", "a") == Switches(web=True, name="a")
    assert parsed("--web", "false", "--deep-blue") == Switches(deep_blue=True)

    @dataclass(frozen=True, kw_only=True)
    class Grouped:
        switches: Annotated[Switches, arg(name="")] = field(default_factory=Switches)
        own: bool = False

    found = config.parse_flags(Grouped, None, ["--web", "--own", "--name", "a"], description="")
    assert found == Grouped(switches=Switches(web=True, name="a"), own=True)


@dataclass(frozen=True, kw_only=True)
class Limits:
    longest: float = 1.0

    def __post_init__(self) -> None:
        config.check_positive(self, "longest", or_infinite=True)


def test_a_limit_may_be_infinite_and_no_other_setting_is():
    assert config.build(Limits, {"longest": math.inf}, "a.toml").longest == math.inf
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match=f"longest = {bad}: expected a number above 0"):
            Limits(longest=bad)
    with pytest.raises(ValueError, match="longest = inf: expected a number above 0"):
        config.check_positive(Limits(longest=math.inf), "longest")


def test_an_expected_error_without_a_text_is_no_traceback(capsys):
    with pytest.raises(SystemExit, match="2"), config.reported(OSError):
        raise OSError
    assert capsys.readouterr().err == "error: \n"
