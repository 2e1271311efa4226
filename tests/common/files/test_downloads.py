import json

from common.files.downloads import missing_files
from tests.timing import timed


def test_an_index_that_names_files_elsewhere_says_nothing_of_its_folder(tmp_path):
    weights = {"a": "/nowhere/model.safetensors", "b": "model-2.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    assert missing_files(tmp_path) == ["model-2.safetensors"]


def test_a_data_set_of_thousands_of_tables_is_looked_through_once(tmp_path):
    for number in range(1999):
        (tmp_path / f"train-{number:05}-of-02000.parquet").touch()
    found, took = timed(lambda: missing_files(tmp_path))
    assert took < 2
    assert found == ["train-01999-of-02000.parquet"]
