"""Checkpoints that hold more than tensors: options are read without their libraries, and nothing is executed."""

import argparse
import os
import pickle
import shutil
import sys
import types
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch

from common.runs.checkpoint import CheckpointError
from tests.wav2vec2.checkpoints.files import OPTIONS, fairseq_weights, same_output, save
from tests.wav2vec2.small import pretraining_model
from wav2vec2.checkpoints import pickles
from wav2vec2.checkpoints.pickles import StandIn, load_foreign, plain
from wav2vec2.checkpoints.published import options_of
from wav2vec2.checkpoints.reading import read


def fairseq_module(monkeypatch: pytest.MonkeyPatch, name: str, **classes: type) -> None:
    """Classes that can be pickled under the name of a module that is not installed."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        path = ".".join(parts[:i])
        monkeypatch.setitem(sys.modules, path, types.ModuleType(path))
    for kind, cls in classes.items():
        cls.__module__, cls.__qualname__ = name, kind
        setattr(sys.modules[name], kind, cls)


class Node:
    def __init__(self, value: Any):
        self._metadata, self._val = None, value


class Container:
    def __init__(self, content: Any):
        self._metadata, self._content = {"optional": True}, content


class Choice:
    def __init__(self, value: str):
        self.value = value

    def __reduce__(self) -> Any:
        return Choice, (self.value,)


def test_options_pickled_as_namespaces_omegaconf_and_enums_are_read_without_those_libraries(tmp_path, monkeypatch):
    fairseq_module(monkeypatch, "omegaconf.nodes", AnyNode=Node)
    fairseq_module(monkeypatch, "omegaconf.dictconfig", DictConfig=Container)
    fairseq_module(monkeypatch, "fairseq.dataclass.constants", ChoiceEnum=Choice)
    inner = {key: Node(value) for key, value in OPTIONS.items()} | {"extractor_mode": Node(Choice("default"))}
    cfg = Container({"model": Container({"w2v_args": Container({"model": Container(inner)}), "normalize": Node(True)})})
    counts = defaultdict(list, {"steps": [1, 2]})
    model = pretraining_model(labels=())
    path = save(tmp_path / "x.pt", cfg=cfg, args=None, model=fairseq_weights(model), task_state=counts)
    for name in ("omegaconf.nodes", "omegaconf.dictconfig", "fairseq.dataclass.constants"):
        monkeypatch.delitem(sys.modules, name)
    options = options_of(load_foreign(path))
    assert options["extractor_mode"] == "default"
    assert options["normalize"] is False  # of the pre-trained model
    same_output(path, model)
    state = {"args": argparse.Namespace(w2v_args=argparse.Namespace(**OPTIONS), w2v_path="x"), "model": {}}
    assert options_of(load_foreign(save(tmp_path / "y.pt", **state))) == OPTIONS | {"w2v_path": "x"}


def test_files_of_torch_before_1_6_load(tmp_path):
    model = pretraining_model(labels=())
    state = {"args": argparse.Namespace(**OPTIONS), "model": fairseq_weights(model)}
    torch.save(state, tmp_path / "x.pt", _use_new_zipfile_serialization=False)
    same_output(tmp_path / "x.pt", model)


class Attack:
    def __init__(self, function: Any, *arguments: Any):
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("attack", "named"),
    [
        (Attack(os.system, "touch hacked"), "posix.system"),
        (Attack(eval, "open('hacked', 'w')"), "eval"),
        (Attack(exec, "open('hacked', 'w')"), "exec"),
        (Attack(shutil.copy, "x.pt", "hacked"), "shutil.copy"),
        (Attack(Path.touch, Path("hacked")), "getattr"),
    ],
)
def test_code_in_a_checkpoint_is_refused_in_one_line_and_not_executed(attack, named, zipped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = {"args": argparse.Namespace(layers=1, attack=attack), "model": {}}
    torch.save(state, "x.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError) as error:
        read(Path("x.pt"))
    if named != "getattr":  # which is bound to a stand-in, so that nothing is looked up
        assert str(error.value).startswith(f"x.pt: refused: it wants to run {named}; a checkpoint may hold only ")
    assert "\n" not in str(error.value)
    assert not Path("hacked").exists()


def test_a_stand_in_does_nothing_but_keep(tmp_path):
    assert plain(StandIn("size")) == "size"
    assert plain(StandIn()) == {}
    assert plain((1, [StandIn(int, "x")])) == [1, ["x"]]
    kept = StandIn()
    kept.__setstate__({"a": 1})
    kept.__setstate__((None, 2))
    assert plain(kept) == {"a": 1}


def test_a_pickle_that_misuses_a_stand_in_is_called_damaged(tmp_path):
    path = tmp_path / "x.pt"
    sizes = {"short": 2, "int": 4, "long": 4}
    header = (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": sizes})
    reduce_with_a_number = b"\x80\x02cargparse\nNamespace\nK\x01R."
    path.write_bytes(b"".join(pickle.dumps(part, protocol=2) for part in header) + reduce_with_a_number)
    with pytest.raises(CheckpointError, match=r"x\.pt: damaged or not a checkpoint: .* must be an iterable, not int$"):
        read(path)


def test_options_that_hold_themselves_are_told(tmp_path):
    options: dict[str, Any] = {}
    options["model"] = options
    path = save(tmp_path / "x.pt", args=options, model=fairseq_weights(pretraining_model(labels=())))
    with pytest.raises(CheckpointError, match=r"x\.pt: describes no model that is known: maximum recursion depth"):
        read(path)


def test_a_pickle_of_ever_more_names_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(pickles, "MOST_NAMES", 20)
    for i in range(8):
        fairseq_module(monkeypatch, f"fairseq.made_up_{i}", Thing=type("Thing", (), {}))
    things = [sys.modules[f"fairseq.made_up_{i}"].Thing() for i in range(8)]
    with pytest.raises(CheckpointError, match=r"x\.pt: refused: it wants to run fairseq\.made_up_7\.Thing;"):
        load_foreign(save(tmp_path / "x.pt", args=things))
    assert load_foreign(save(tmp_path / "y.pt", args=things[:7]))
