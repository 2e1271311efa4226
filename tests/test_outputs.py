"""No command writes over what it reads, by whatever name; it says so before it begins."""

import os
import sys

import pytest

import jasper.report
import transducer.ngram
import trt.build
from common.config import ConfigError
from common.recognition import rescore


def to_rescore(read, output):
    return rescore.RescoreConfig(model="gpt2", lists=read, output=output)


def to_count(read, output):
    return transducer.ngram.NgramConfig(model=output.with_name("none.pt"), texts=(read,), output=output)


def to_report(read, output):
    return jasper.report.ReportConfig(run_dir=output.parent, checkpoint=read, output=output)


def to_build(read, output):
    return trt.build.BuildConfig(model=read, out=output)


@pytest.mark.parametrize("configured", [to_rescore, to_count, to_report, to_build])
@pytest.mark.parametrize("linked", [False, True])
def test_what_is_read_is_no_output(configured, linked, tmp_path):
    read = tmp_path / "read"
    read.write_text("a b\n")
    output = tmp_path / "linked" if linked else read
    if linked:
        os.link(read, output)
    cfg = configured(read, output)
    with pytest.raises(ConfigError, match=f"{output.name}: cannot be written to: it is read; name another output$"):
        sys.modules[type(cfg).__module__].main(cfg)
    assert read.read_text() == "a b\n"
