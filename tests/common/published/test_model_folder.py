"""Folders of transformers are read without running anything."""

import json

import pytest
import torch
from safetensors.torch import save_file

from common.published.model_folder import of_file, read_json, read_weights
from common.runs.checkpoint import CheckpointError


@pytest.mark.parametrize(("name", "save"), [("model.safetensors", save_file), ("pytorch_model.bin", torch.save)])
def test_weights_are_read_from_one_file_or_several(tmp_path, name, save):
    save({"a": torch.ones(2)}, tmp_path / "one")
    save({"b": torch.zeros(3)}, tmp_path / "two")
    (tmp_path / f"{name}.index.json").write_text(json.dumps({"weight_map": {"a": "one", "b": "two"}}))
    assert {name: len(w) for name, w in read_weights(tmp_path).items()} == {"a": 2, "b": 3}
    save({"c": torch.ones(4)}, tmp_path / name)
    assert list(read_weights(tmp_path)) == ["c"]


def test_what_is_wrong_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"expected model.safetensors or pytorch_model.bin in it"):
        read_weights(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../a"}}')
    with pytest.raises(CheckpointError, match="expected a weight_map to names of files in this folder"):
        read_weights(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"rubbish")
    with pytest.raises(CheckpointError, match="damaged or not a safetensors file"):
        read_weights(tmp_path)
    assert of_file(tmp_path / "config.json") == {}
    with pytest.raises(CheckpointError, match=r"expected a file config.json in it"):
        read_json(tmp_path / "config.json")
    (tmp_path / "config.json").write_text("[")
    with pytest.raises(CheckpointError, match=r"config.json: cannot be read"):
        read_json(tmp_path / "config.json")
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match="expected an object, found list"):
        read_json(tmp_path / "config.json")


def test_a_run_directory_in_place_of_a_model_folder_is_told_with_one_of_its_checkpoints(tmp_path):
    (tmp_path / "best.pt").touch()
    with pytest.raises(CheckpointError, match=r"in it, or the name of one checkpoint, such as .*/best.pt$"):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "_orig_mod.module.", "module._orig_mod."])
def test_names_as_compiled_and_parallel_models_save_them_are_read(tmp_path, prefix):
    save_file({f"{prefix}{name}": torch.ones(2) for name in ("a", "module.b")}, tmp_path / "model.safetensors")
    assert sorted(read_weights(tmp_path)) == ["a", "module.b"]
    save_file({f"{prefix}a": torch.ones(2), "b": torch.ones(2)}, tmp_path / "model.safetensors")
    assert sorted(read_weights(tmp_path)) == sorted([f"{prefix}a", "b"])


def test_descriptions_with_a_mark_of_windows_are_read(tmp_path):
    (tmp_path / "config.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(tmp_path / "config.json") == {"a": 1}


def test_what_was_not_downloaded_is_told(tmp_path):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n"
    for name in ("model.safetensors", "pytorch_model.bin"):
        for content, told in (
            (pointer, "is a pointer of Git LFS"),
            (b"<!DOCTYPE html>", "is a web page"),
            (b"", "empty"),
        ):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(CheckpointError, match=rf"{name}: .*{told}"):
                read_weights(tmp_path)
        (tmp_path / name).unlink()
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "one.safetensors"}}')
    with pytest.raises(CheckpointError, match=r"one\.safetensors: no such file, though .* names it$"):
        read_weights(tmp_path)


@pytest.mark.parametrize("deeper", ["checkpoint-500", "snapshots/abc", "best"])
def test_the_folder_around_that_of_a_model_is_told_with_the_model_s(tmp_path, deeper):
    (tmp_path / deeper).mkdir(parents=True)
    (tmp_path / deeper / "config.json").touch()
    with pytest.raises(CheckpointError, match=rf"in it, or the name of a folder that has one, such as .*/{deeper}$"):
        read_json(tmp_path / "config.json")
