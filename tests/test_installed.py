"""The packages as a user installs them, in an empty environment outside of the repository.

What is installed comes from a copy of the files that git knows. pip builds it with the setuptools that is here, and
the environment sees the other packages that are here, torch among them, only where a test says so.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from ctc.native import find_compiler

REPOSITORY = Path(__file__).parents[1]
SITE_PACKAGES = Path(importlib.util.find_spec("setuptools").origin).parents[1]  # type: ignore[union-attr, arg-type]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler"),
    pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="no git repository"),
]


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "NATIVE_BUILD")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=variables | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository of the files that git knows here, as they are now."""
    folder = tmp_path_factory.mktemp("sources")
    names = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=REPOSITORY).stdout.splitlines()
    for name in names:
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
    run("git", "init", "-q", cwd=folder)
    run("git", "add", "-A", cwd=folder)
    run("git", "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-qm", "copy", cwd=folder)
    return folder


class Environment:
    """An empty virtual environment, and how pip fills it from here."""

    def __init__(self, folder: Path) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        (self.site_packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        self.build_tools = folder / "build_tools"
        self.build_tools.mkdir()
        for pattern in ("setuptools", "_distutils_hack", "setuptools-*.dist-info"):
            for path in SITE_PACKAGES.glob(pattern):
                (self.build_tools / path.name).symlink_to(path)

    def install(self, what: str | Path, **environment: str) -> None:
        """Installs without dependencies, from outside of the sources."""
        pip = [sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check"]
        options = ["install", "--no-deps", "--no-build-isolation", "--no-index", "--no-compile"]
        run(*pip, *options, what, cwd=self.folder, PYTHONPATH=str(self.build_tools), **environment)

    def see_packages(self) -> None:
        """Shows the packages that are here, behind its own. Those that are installed in place stay out of sight."""
        (self.site_packages / "here.pth").write_text(f"{SITE_PACKAGES}\n")

    def run(self, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a Python program from outside of the sources."""
        return run(self.python, "-c", program, cwd=self.folder, **environment)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path)


@pytest.fixture
def quick_compiler(tmp_path: Path) -> str:
    """The C++ compiler without its optimiser, which takes most of its time."""
    script = tmp_path / "quick-c++"
    script.write_text(f'#!/usr/bin/env bash\nexec {find_compiler()} "${{@/#-O3/-O0}}"\n')
    script.chmod(0o755)
    return str(script)


def test_installed_from_git_the_library_is_built_and_everything_is_found_from_anywhere(
    environment: Environment, sources: Path, quick_compiler: str
):
    environment.install(f"git+file://{sources}", CXX=quick_compiler)
    installed = environment.site_packages
    for folder in ("ctc", "fastconformer/attention", "fastconformer/transducer", "common/convolution"):
        assert (installed / folder / "_build" / f"lib{Path(folder).name}.so").is_file(), folder
    assert not list(installed.glob("**/csrc/test")), "sources of tests"
    assert not list(installed.glob("**/*.pyc")), "what building left"
    (about,) = installed.glob("speech_models-*.dist-info")
    metadata, commands = (about / "METADATA").read_text(), (about / "entry_points.txt").read_text()
    assert "# Speech models" in metadata
    assert "\nAuthor: " in metadata
    assert "speech = speech.__main__:main" in commands
    assert (environment.folder / "venv" / "bin" / "speech").is_file()
    environment.see_packages()
    done = environment.run(
        """
import warnings
warnings.simplefilter("error")
import ctc, common, fastpitch, jasper, fastconformer, wav2vec2
print(ctc.__file__)
from common import config
print(config.find("jasper/toy"), config.find("configs/jasper/toy.toml"))
assert config.read_toml(config.find("jasper/toy"))["model"]
import torch
logits = torch.zeros(5, 1, 3, requires_grad=True)
ctc.ctc_loss(logits, torch.tensor([[1]]), torch.tensor([5]), torch.tensor([1])).backward()
""",
        NATIVE_BUILD="0",
    )
    ctc, *configurations = map(Path, done.stdout.split())
    assert ctc == installed / "ctc" / "__init__.py"
    assert configurations == [installed / "common" / "configs" / "jasper" / "toy.toml"] * 2
    for package in ("common", "ctc", "fastpitch", "jasper", "fastconformer", "wav2vec2"):
        assert (installed / package / "py.typed").is_file(), package
    assert (installed / "common" / "text" / "english" / "tables" / "weights.tsv").is_file()


def test_a_source_distribution_holds_what_a_wheel_and_the_tests_need(environment: Environment, sources: Path):
    program = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
    made = run(sys.executable, "-c", program, environment.folder, cwd=sources).stdout.split()[-1]
    with tarfile.open(environment.folder / made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = run("git", "ls-files", "common", "ctc", "configs", "tests", "scripts", cwd=sources).stdout.splitlines()
    missing = [name for name in tracked if name not in names and name not in ("ctc/pyproject.toml", "ctc/LICENSE")]
    assert missing == []


def test_ctc_alone_needs_no_torch_for_its_c_library_and_builds_it_at_first_use(
    environment: Environment, sources: Path, quick_compiler: str
):
    environment.install(sources / "ctc", PATH=str(environment.folder), CXX="")
    built = environment.site_packages / "ctc" / "_build" / "libctc.so"
    assert not built.exists(), "there was no compiler"
    done = environment.run("import ctc; print(ctc.include_dir(), ctc.library_file().parent)", CXX=quick_compiler)
    assert done.stderr == f"ctc: compiling {built}, once; NATIVE_BUILD=0 in the environment prevents it\n"
    headers, libraries = done.stdout.split()
    example = environment.folder / "example"
    sources_of_example = environment.site_packages / "ctc" / "examples" / "loss.c"
    linked = [f"-L{libraries}", "-lctc", f"-Wl,-rpath,{libraries}", "-lm"]
    run("cc", sources_of_example, f"-I{headers}", *linked, "-o", example, cwd=environment.folder)
    run(example, cwd=environment.folder)
    environment.run(
        "import ctc\ntry: ctc.ctc_loss\nexcept ImportError as error: assert 'pip install torch' in str(error)"
    )
    done = run(environment.python, "-m", "ctc.build", "--cuda", "none", cwd=environment.folder, CXX=quick_compiler)
    assert done.stdout == f"up to date: {built}\n"
    environment.see_packages()
    loss = "ctc.ctc_loss(torch.zeros(5, 1, 3), torch.tensor([[1]]), torch.tensor([5]), torch.tensor([1]))"
    environment.run(f"import ctc, torch; print({loss})", NATIVE_BUILD="0", PYTHONWARNINGS="error")
    assert not list(environment.site_packages.glob("common*"))


def test_the_wheel_of_ctc_names_torch_and_numpy_alone(environment: Environment, sources: Path):
    program = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    made = run(
        sys.executable, "-c", program, environment.folder, cwd=sources / "ctc", PATH=str(environment.folder), CXX=""
    ).stdout.split()[-1]
    with zipfile.ZipFile(environment.folder / made) as wheel:
        (metadata,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        lines = wheel.read(metadata).decode().splitlines()
    assert [line for line in lines if line.startswith("Requires-Dist")] == [
        "Requires-Dist: torch>=2.9",
        "Requires-Dist: numpy>=1.26",
    ]
