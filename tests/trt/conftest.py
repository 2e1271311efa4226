from pathlib import Path

import pytest

from tests.jasper.tiny import tiny_config
from tests.trt.models import save_jasper
from trt import export


@pytest.fixture(scope="session")
def jasper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, and m.onnx beside it."""
    path = save_jasper(tmp_path_factory.mktemp("jasper") / "m.pt", tiny_config())
    export.main(export.ExportConfig(checkpoint=path, out=path.with_suffix(".onnx")))
    return path
