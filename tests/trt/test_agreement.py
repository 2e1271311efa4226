import json

import pytest

from trt.agreement import AgreementConfig, main


def test_words_of_two_files_are_counted_with_and_without_noise(jasper, clips, tmp_path, capsys):
    model = jasper.with_suffix(".onnx")
    manifest = tmp_path / "test.jsonl"
    lines = [{"audio_filepath": str(clip), "duration": 1.0, "text": "zebra"} for clip in clips[:3]]
    manifest.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for noise in (10.0, float("inf")):
        cfg = AgreementConfig(model=model, exact=model, inputs=(manifest,), noise_db=noise, results=tmp_path)
        row = main(cfg)
        assert (row["agreeing"], row["clips"]) == (1.0, 3)
        assert row["wer"] == row["exact_wer"] >= 100
    told = capsys.readouterr().out
    assert f"{model}: 100.0% of the" in told
    assert "at 10 dB" in told
    assert len((tmp_path / "trt_agreement.jsonl").read_text().splitlines()) == 2
    with pytest.raises(ValueError, match="nothing to transcribe; name audio files, folders or manifests after"):
        AgreementConfig(model=model, exact=model, inputs=())
