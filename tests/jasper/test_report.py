import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import jasper
from common.audio import waveform
from common.data.manifest import Utterance, write_jsonl
from common.recognition.metrics import word_errors
from common.recognition.scoring import Evaluation
from common.runs import checkpoint
from common.runs.logging import RunLogger
from jasper import report
from jasper.report_charts import log_chart
from jasper.report_page import render, smoothed
from tests.jasper.tiny import run, save_tiny, tiny_config
from tests.pages import assert_needs_nothing_else

TEXTS = {"a<b": "one two", "c": "three", "d": "four five six"}


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> Path:
    """What training leaves, with random weights, and beside it a manifest of noisy tones."""
    folder = tmp_path_factory.mktemp("run")
    utterances = []
    for i, (name, text) in enumerate(TEXTS.items()):
        random = np.random.default_rng(i)
        seconds = 1.0 + 0.3 * i
        tone = np.sin(np.arange(round(16000 * seconds)) * (0.05 + 0.1 * i))
        path = folder / f"{i}.flac"
        waveform.write(path, (0.2 * tone + 0.05 * random.standard_normal(len(tone))).astype(np.float32), 16000)
        utterances.append(Utterance(id=name, audio=path, seconds=seconds, text=text))
    write_jsonl(folder / "dev.jsonl", utterances)
    save_tiny(folder / "jasper_best.pt", tiny_config(root=folder, validation=("dev.jsonl",)))
    log = RunLogger(folder, tensorboard=False)
    for epoch in (1, 2):
        for i in (1, 2):
            log.log("train", (epoch, i, 2), {"loss": 9.0 / epoch / i, "wer": 1.0}, global_step=0)
        log.log("dev", (epoch,), {"loss": 5.0 / epoch, "wer": 0.5 / epoch, "cer": 0.1}, global_step=0)
    log.close()
    return folder


@pytest.fixture(scope="module")
def recognizer(run_dir) -> jasper.Recognizer:
    return jasper.load(run_dir / "jasper_best.pt")


@pytest.fixture(scope="module")
def utterances(run_dir, recognizer) -> list[Utterance]:
    return report.data.read_utterances(
        ["dev.jsonl"], recognizer.config.data, report.data.spelling_of(recognizer.config), training=False
    )[0]


def evaluation(hypotheses: dict[str, str]) -> Evaluation:
    ids = list(hypotheses)
    references = [TEXTS[name] for name in ids]
    errors = word_errors(references, list(hypotheses.values()))
    return Evaluation(errors, errors, ids, references, list(hypotheses.values()))


def test_the_command_writes_one_file_that_needs_nothing_else(run_dir, tmp_path, capsys):
    page_path = tmp_path / "deep" / "report.html"
    said = run(capsys, "jasper.report", run_dir, "-o", page_path, "--workers", "0")
    assert said.status == 0, said.err
    assert said.out == [str(page_path)]
    assert_needs_nothing_else(page_path.read_text(encoding="utf-8"))


def test_the_validation_data_can_be_named(run_dir, tmp_path, capsys):
    said = run(capsys, "jasper.report", run_dir, "--data.validation", run_dir / "dev.jsonl", "-o", tmp_path / "r.html")
    assert said.status == 0, said.err
    assert (tmp_path / "r.html").exists()


def test_ids_and_words_cannot_be_taken_for_markup(run_dir, recognizer, utterances):
    heard = evaluation({"a<b": "one", "c": "three", "d": "<i>"})
    page = render(report.collect(run_dir, recognizer, utterances, heard, clips=3))
    assert "a&lt;b" in page
    assert "a<b" not in page


def test_two_recordings_of_one_name_are_each_shown_with_their_own_words(run_dir, recognizer, utterances):
    same = [replace(utterance, id="same") for utterance in utterances]
    errors = word_errors(list(TEXTS.values()), ["one", "three", "four"])
    heard = Evaluation(errors, errors, ["same"] * 3, list(TEXTS.values()), ["one", "three", "four"], rows=(0, 1, 2))
    found = report.collect(run_dir, recognizer, same, heard, clips=8)
    assert found.shown.errors.length == 1
    assert [clip.errors.length for clip in found.worst] == [3, 2]
    assert f"of {len(same)}" in render(found)


def test_the_page_says_which_weights_who_was_misheard_and_which_words_were_taken_for_which(run_dir, utterances):
    saved = checkpoint.load(run_dir / "jasper_best.pt") | {"progress": {"step": 1234}}
    checkpoint.save(run_dir / "other.pt", saved)
    asr = jasper.load(run_dir / "other.pt", ema=False)
    spoken = [replace(u, speaker="Ann" if u.id == "c" else "Bo") for u in utterances]
    page = render(
        report.collect(run_dir, asr, spoken, evaluation({"a<b": "one to", "c": "three", "d": "four"}), clips=1)
    )
    assert f"<tr><th>checkpoint</th><td>{run_dir / 'other.pt'}, step 1,234, raw weights</td></tr>" in page
    rows = ("<tr><th>Bo</th><td>60.00% (3 of 5 words)</td></tr>", "<tr><th>Ann</th><td>0.00% (0 of 1 words)</td></tr>")
    assert "".join(rows) in page
    assert "<tr><th>two → to</th><td>1</td></tr>" in page
    saved["progress"] = "of no use"
    checkpoint.save(run_dir / "other.pt", saved)
    assert jasper.load(run_dir / "other.pt").origin == f"{run_dir / 'other.pt'}, averaged weights"


def test_a_table_has_only_its_first_rows_and_says_so(run_dir, recognizer, utterances):
    found = report.collect(run_dir, recognizer, utterances, evaluation(TEXTS), clips=1)
    assert "Errors by speaker" not in render(found)
    many = found._replace(speakers={f"s{i}": word_errors(["a"], ["b"]) for i in range(31)})
    assert "The first 30 of 31." in render(many)


def test_the_worst_clips_come_first_and_correct_ones_are_not_among_them(run_dir, recognizer, utterances):
    heard = evaluation({"a<b": "one", "c": "three", "d": "none of it at all"})
    found = report.collect(run_dir, recognizer, utterances, heard, clips=8)
    assert [clip.id for clip in found.worst] == ["d", "a<b"]
    assert found.shown.id == "c"
    assert len(report.collect(run_dir, recognizer, utterances, heard, clips=1).worst) == 1


def test_a_set_without_errors_says_so(run_dir, recognizer, utterances):
    page = render(report.collect(run_dir, recognizer, utterances, evaluation(TEXTS), clips=8))
    assert "None: all 3 clips are without an error." in page


def test_words_have_their_times_in_the_clip_and_their_kind_of_error(recognizer, utterances):
    for clip, utterance in zip(report.make_clips(recognizer, utterances), utterances, strict=True):
        assert [word.text for word in clip.spoken] == utterance.text.split()
        for words in (clip.spoken, clip.recognised):
            edges = [edge for word in words for edge in (word.start, word.end)]
            assert edges == sorted(edges)
            assert all(0 <= edge <= clip.seconds for edge in edges)
        assert [w.kind for w in clip.spoken] == [pair.kind for pair in clip.aligned if pair.reference]
        assert [w.kind for w in clip.recognised] == [pair.kind for pair in clip.aligned if pair.hypothesis]


def test_a_transcript_longer_than_its_frames_is_shown_without_times(recognizer, utterances):
    (clip,) = report.make_clips(recognizer, [replace(utterances[0], text="too long for this " * 40)])
    assert clip.spoken == []
    assert clip.spectrogram_png.startswith(b"\x89PNG")
    assert clip.flac.startswith(b"fLaC")


def test_a_step_that_a_resumed_run_logged_again_counts_once():
    events = [
        {"step": "PARAMETER", "data": {}},
        {"step": [], "data": {"event": "resumed"}},
        {"step": [1, 1, 4], "data": {"train_loss": 5.0}},
        {"step": [1, 2, 4], "data": {"train_loss": 4.0}},
        {"step": [1, 2, 4], "data": {"train_loss": 3.0}},
        {"step": [1], "data": {"dev_loss": 2.0, "dev_wer": 0.5}},
    ]
    assert report.curves(events, "loss") == {"train": [(0.25, 5.0), (0.5, 3.0)], "dev": [(1.0, 2.0)]}
    assert report.curves(events, "wer") == {"dev": [(1.0, 0.5)]}


@pytest.mark.parametrize(
    ("points", "height"),
    [([(1.0, 1.0), (2.0, 0.01)], "208.0"), ([(1.0, 1.0), (2.0, 0.0)], "208.0"), ([(1.0, 1.0), (2.0, 0.1)], "109.0")],
)
def test_charts_are_logarithmic_and_draw_what_is_too_small_at_the_floor(points, height):
    chart = log_chart({"dev": points, "train": [(0.5, 0.01)]}, label="x", written=str, floor=0.01)
    line = re.search(r'class="line dev" d="([^"]+)"', chart)
    assert line
    assert line[1].split()[-1] == height
    assert line[1].startswith("M218.0 10.0L")


def test_an_axis_is_marked_only_where_its_values_stand():
    chart = log_chart({"dev": [(1.0, 1.0), (2.0, 0.0)]}, label="x", written=str, floor=0.06)
    marks = [float(value) for value in re.findall(r'text-anchor="end">([\d.]+)</text>', chart)]
    assert min(marks) == 0.07  # 0.05 would stand at the height of 0.06


def test_the_training_s_curve_is_the_mean_of_the_latest_eighth_of_its_points():
    curves = {"train": [(float(i), float(i % 2)) for i in range(16)], "dev": [(1.0, 0.5), (2.0, 0.4)]}
    assert smoothed(curves)["train"] == [(0.0, 0.0), *[(float(i), 0.5) for i in range(1, 16)]]
    assert smoothed(curves)["dev"] == curves["dev"]
    assert smoothed({"train": curves["train"][:7]}) == {"train": curves["train"][:7]}, "too few to smooth"


def test_a_chart_without_values_says_so():
    assert log_chart({}, label="x", written=str, floor=1.0) == '<p class="quiet">Nothing was logged.</p>'
    chart = log_chart({"dev": [(1.0, float("nan"))]}, label="x", written=str, floor=1.0)
    assert "Nothing was logged" in chart


def test_what_is_missing_is_named(run_dir, tmp_path, capsys):
    def told(*arguments: object) -> str:
        said = run(capsys, "jasper.report", *arguments)
        assert said.status == 2
        assert len(said.err) == 1
        return said.err[0]

    assert "jasper_best.pt: no such checkpoint" in told(tmp_path)
    save_tiny(tmp_path / "jasper_best.pt")
    assert told(tmp_path).endswith("the run has no validation data; name some with --data.validation")
    missing = told(tmp_path, "--data.validation", run_dir / "dev.jsonl", "--workers", "0")
    assert missing.endswith("nvlog.json: no such file; expected the folder of a run of jasper.train")


def test_every_number_of_the_headline_says_which_data_it_is_of(run_dir, recognizer, utterances):
    found = report.collect(run_dir, recognizer, utterances, evaluation(TEXTS), clips=1)
    page = render(found._replace(tested="test-clean", validated="dev-clean"))
    head = page[: page.index("How it learned")]
    assert head.count("of test-clean") == 3
    assert "Validation is on dev-clean: other data than those of the results above." in page
    assert "Validation is on" not in render(found._replace(tested="dev-clean", validated="dev-clean"))
