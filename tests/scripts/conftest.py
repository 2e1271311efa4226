from pathlib import Path

import pytest


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Stands for python: a line for each of its arguments."""
    path = tmp_path / "python"
    path.write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$@"\n')
    path.chmod(0o755)
    return path
