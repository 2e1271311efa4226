"""Commands run as where packages are not installed."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
OPTIONAL = ("torch", "librosa", "scipy", "jiwer", "onnx", "tensorboard", "sentencepiece", "yaml", "huggingface_hub")
CODE = """
import runpy, sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in BLOCKED else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
"""


def run_without_torch(module: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """What `python -m module arguments` does where only what exported models need is installed."""
    code = f"BLOCKED, MODULE = {OPTIONAL!r}, {module!r}\n{CODE}"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
