"""What a command need not wait for before it begins."""

import ast
import subprocess
import sys

import pytest

from tests.timing import importing, quickest
from tests.toys import KINDS, save_toy
from tests.training import REPOSITORY

IMPORTED = """
import sys, ctc, fastconformer, fastpitch, jasper, speech, trt, wav2vec2
slow = "librosa matplotlib tensorboard jiwer num2words torchaudio espeakng_loader yaml sentencepiece"
print([name for name in slow.split() if name in sys.modules])
import torch
from common.training.optimizers import OptimConfig, build_optimizer
from jasper import load as load_jasper
from fastconformer import load as load_fastconformer
from wav2vec2 import load as load_wav2vec2
for kind, path in zip(("jasper", "wav2vec2", "fastconformer"), sys.argv[1:]):
    {"jasper": load_jasper, "wav2vec2": load_wav2vec2, "fastconformer": load_fastconformer}[kind](path, device="cpu")
for kind in ("novograd", "lamb", "adamw"):
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = build_optimizer([weight], OptimConfig(kind=kind))
    weight.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
"""


def test_an_old_python_gets_as_far_as_the_line_about_it():
    """It evaluates annotations, and knows no `|` of types."""
    for path in ("common/__init__.py", "common/starting.py"):
        tree = ast.parse((REPOSITORY / path).read_text(), feature_version=(3, 8))
        found = [node.args for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert not [each for each in found if "|" in ast.unparse(each)]


def test_importing_says_nothing_and_neither_it_nor_loading_nor_training_brings_in_what_is_slow_and_not_needed(tmp_path):
    """The compiler of torch takes more than a second, longer than all else before the first transcript."""
    toys = [save_toy(kind, tmp_path / f"{kind}.pt") for kind in KINDS]
    command = [sys.executable, "-W", "error", "-c", IMPORTED, *toys]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n[]\n", "")


@pytest.mark.nightly
@pytest.mark.parametrize("package", ["jasper", "fastconformer"])
def test_importing_takes_little_longer_than_importing_torch(package):
    assert quickest(1.0, lambda: importing(package) - importing("torch")) < 1.0
