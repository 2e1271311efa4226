import runpy
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCED = {"common", "dataset", "help", "measuring", "setup", "training"}
"""Names of scripts that others source."""
SCRIPTS = sorted(
    path.relative_to(REPOSITORY) for path in (REPOSITORY / "scripts").rglob("*.sh") if path.stem not in SOURCED
)


def test_every_script_explains_itself_before_it_installs_or_does_anything(tmp_path):
    """They run with a PATH of their own, on which there is no Python."""
    for tool in ("awk", "basename", "bash", "dirname"):
        (tmp_path / tool).symlink_to(subprocess.check_output(["which", tool], text=True).strip())
    environment = {"PATH": str(tmp_path)}
    for script in SCRIPTS:
        for flag in ("--help", "-h"):
            told = subprocess.run(
                ["bash", script, flag], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
            )
            assert (told.returncode, told.stderr) == (0, ""), script
            assert len(told.stdout.splitlines()) > 1, script
            assert "shellcheck" not in told.stdout, script
            assert f"bash {script.parts[0]}/" in told.stdout, script


def test_every_python_script_has_help(monkeypatch, capsys):
    scripts = [*REPOSITORY.glob("benchmarks/*.py"), *REPOSITORY.glob("scripts/**/*.py")]
    run = [path for path in scripts if '__name__ == "__main__"' in path.read_text(encoding="utf-8")]
    assert len(run) > 10
    for path in run:
        monkeypatch.setattr(sys, "argv", [str(path), "--help"])
        monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])
        with pytest.raises(SystemExit) as exit_:
            runpy.run_path(str(path), run_name="__main__")
        told = capsys.readouterr().out
        assert exit_.value.code == 0, path
        assert told.startswith("usage: "), path
        assert "==SUPPRESS==" not in told
