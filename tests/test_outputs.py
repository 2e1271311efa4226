"""No command writes over what it reads, by whatever name; it says so before it begins."""

import os
import sys
from pathlib import Path

import pytest

import fastconformer.ngram
import fastpitch.inference
import jasper.report
import trt.build
from common.config import ConfigError
from common.recognition import rescore


def to_rescore(read, output):
    return rescore.RescoreConfig(model="gpt2", lists=read, output=output)


def to_count(read, output):
    return fastconformer.ngram.NgramConfig(model=output.with_name("none.pt"), texts=(read,), output=output)


def to_report(read, output):
    return jasper.report.ReportConfig(run_dir=output.parent, checkpoint=read, output=output)


def to_build(read, output):
    return trt.build.BuildConfig(model=read, out=output)


def to_say(read, output):
    return fastpitch.inference.InferenceConfig(inputs=("a b",), vocoder=Path("none"), lexicon=read, report=output)


@pytest.mark.parametrize("configured", [to_rescore, to_count, to_report, to_build, to_say])
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


@pytest.mark.parametrize("options", [{}, {"save_mels": True}])
def test_nothing_is_spoken_over_a_recording_or_a_spectrogram(options, tmp_path):
    name = "a.npy" if options else "a.wav"
    (tmp_path / name).write_bytes(b"what was recorded")
    (tmp_path / "list.tsv").write_text(f"mel\toutput\n{name}\ta.wav\n")
    inputs = (str(tmp_path / "list.tsv"),)
    cfg = fastpitch.inference.InferenceConfig(inputs=inputs, vocoder=Path("none"), output=tmp_path, **options)
    with pytest.raises(ConfigError, match=f"{name}: cannot be written to: it is read; name another output$"):
        fastpitch.inference.main(cfg)
