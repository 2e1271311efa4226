"""Scripts as users call them: by the published variables."""

import os
import subprocess
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


class Folder:
    """The scripts of a folder of `scripts/`."""

    def __init__(self, name: str = "") -> None:
        self.path = SCRIPTS / name

    def call(
        self, script: str, python: Path | str, *arguments: object, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """What a script does with these variables; `python` runs in one thread. Names may go without .sh."""
        environment = {"PATH": os.environ["PATH"], "SPEECH_PYTHON": str(python), "OMP_NUM_THREADS": "1"} | variables
        command = ["bash", str(self.path / f"{script.removesuffix('.sh')}.sh"), *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def flags(self, script: str, python: Path, *arguments: str, **variables: str) -> list[str]:
        """The arguments that it starts `python` with."""
        done = self.call(script, python, *arguments, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")[:-1]

    def words(self, script: str, python: Path, *arguments: str, **variables: str) -> str:
        """The same in one line."""
        return " ".join(" ".join(self.flags(script, python, *arguments, **variables)).split())
