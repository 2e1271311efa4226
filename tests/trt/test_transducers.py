"""FastConformers leave as files, and are the same recognisers without torch."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import ctc
from common.audio import waveform
from common.config import ConfigError
from common.recognition.decoding import DecodingOptions
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from ctc.ngram import estimate
from fastconformer.recognizer import load
from fastconformer.transducer import _library, decoder, reference
from fastconformer.transducer.weights import named, of_named
from tests.fastconformer import golden
from tests.jasper.checkpoints import test_nemo as test_nemo_import
from tests.jasper.tiny import tiny_config
from tests.trt.blocked import run_without_torch
from trt.conversion import ExportError
from trt.export import command, families
from trt.export.command import ExportConfig
from trt.facts import ModelError
from trt.run import RunConfig, main
from trt.runtime import loading
from trt.runtime.recognizer import OnnxModel
from trt.runtime.weights import weights_in
from trt.serving.models import load_ears


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Noise that changes: two short ones, one of 70 s, heard in chunks; silence, and too little for a frame."""
    random = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("recordings")
    for name, seconds in (("a", 1.3), ("b", 2.1), ("long", 70.0)):
        loudness = np.repeat(random.uniform(0.01, 0.3, int(seconds * 10)), 1600)
        waveform.write(folder / f"{name}.flac", loudness * random.standard_normal(len(loudness)), 16_000)
    waveform.write(folder / "silence.wav", np.zeros(8_000), 16_000)
    waveform.write(folder / "tiny.wav", np.full(100, 0.1), 16_000)
    return sorted(folder.iterdir())


def assert_same_transcripts(model: Path, name: str, head: str, recordings: list[Path]) -> None:
    ours = list(loading.load(model).stream(recordings, batch_size=3))
    asr = load(golden.folder() / f"{name}.nemo", device="cpu", head=head)
    theirs = asr.transcribe(recordings, batch_size=3, on_error="skip")
    assert sum(len(transcript.words) for transcript in theirs) > 5
    for own, other in zip(ours, theirs, strict=True):
        assert own.text == other.text
        assert own.error == other.error
        assert [word[:3] for word in own.words] == [word[:3] for word in other.words]
        confidences = [[word.confidence for word in transcript.words] for transcript in (own, other)]
        assert np.allclose(*confidences, atol=1e-3)


SEARCHES = {
    "beam with all": DecodingOptions(
        beam=5, n_best=2, language_model=Path("lm.arpa"), weight=0.3, hot_words=("a",), hot_word_boost=2.0
    ),
    "beam": DecodingOptions(beam=4, n_best=3),
    "hot words": DecodingOptions(hot_words=("a",), hot_word_boost=3.0),
    "language model": DecodingOptions(language_model=Path("lm.arpa"), weight=0.3),
    "thorough": DecodingOptions(beam=6, n_best=2, thorough=True),
}


def assert_same_searches(model: Path, head: str, kinds: Sequence[str], recordings: list[Path]) -> None:
    own_asr, asr = loading.load(model), load(golden.folder() / "tdt_ctc.nemo", device="cpu", head=head)
    lm = model.with_name("lm.arpa")
    words = [label.strip("▁") for label in asr.pieces.labels if label.startswith("▁") and label[1:].isalpha()]
    ctc.write_arpa(lm, estimate([words[i : i + 3] for i in range(0, len(words), 2)], order=2))
    for kind in kinds:
        options = SEARCHES[kind]
        options = replace(options, language_model=lm if options.language_model else None)
        ours = list(own_asr.stream(recordings, decoder=own_asr.decoder(options)))
        theirs = asr.transcribe(recordings, decoder=asr.decoder(options), on_error="skip")
        for own, other in zip(ours, theirs, strict=True):
            assert len(own.alternatives) == len(other.alternatives) <= options.n_best - 1
            for one, two in zip([own, *own.alternatives], [other, *other.alternatives], strict=True):
                assert one.text == two.text
                assert [word[:3] for word in one.words] == [word[:3] for word in two.words]
                assert one.score == pytest.approx(two.score, abs=5e-3)


def test_a_transducer_decodes_with_a_language_model_and_words_to_favour_as_at_home(hybrid, recordings):
    assert_same_searches(hybrid, "transducer", ["hot words", "language model"], recordings)


def test_words_of_each_recording_and_context_are_taken_as_at_home(hybrid, recordings):
    own_asr, asr = loading.load(hybrid), load(golden.folder() / "tdt_ctc.nemo", device="cpu")
    how, words = {"whole_seconds": 2.0, "left_seconds": 4.0, "on_error": "skip"}, [["a"], *[[] for _ in recordings[1:]]]
    found, expected, plain = (
        one.transcribe(recordings, decoder=one.decoder(DecodingOptions(beam=2, hot_word_boost=300.0)), **how, **more)
        for one, more in ((own_asr, {"hot_words": words}), (asr, {"hot_words": words}), (asr, {}))
    )
    assert [one.text for one in found] == [one.text for one in expected]
    assert [one.text == two.text for one, two in zip(found, plain, strict=True)] == [not own for own in words]


@pytest.mark.parametrize("kind", ["beam", "beam with all"])
def test_a_transducer_searches_as_at_home(kind, hybrid, recordings):
    """Texts, times and scores of all transcripts, whole and in chunks."""
    assert_same_searches(hybrid, "transducer", [kind], recordings)


def test_greedy_decoding_with_words_to_favour_is_the_same_without_a_compiler(hybrid, recordings, monkeypatch):
    options = SEARCHES["hot words"]
    native = loading.load(hybrid)
    expected = list(native.stream(recordings, decoder=native.decoder(options)))
    monkeypatch.setattr(decoder, "functions", lambda: None)
    _library.warn_slow.cache_clear()
    with pytest.warns(ctc.SlowPathWarning, match="fastconformer.Decoder runs in plain numpy, which is slower"):
        plain = loading.load(hybrid)
    found = list(plain.stream(recordings, decoder=plain.decoder(options)))
    assert [one.text for one in found] == [one.text for one in expected]


def test_ctc_of_pieces_is_searched_as_at_home(recordings, pieces):
    assert_same_searches(pieces("tdt_ctc", "ctc"), "ctc", list(SEARCHES), recordings)


def test_words_are_favoured_where_torch_cannot_be_imported_and_what_cannot_be_is_one_line(hybrid, recordings, tmp_path):
    asr = load(golden.folder() / "tdt_ctc.nemo", device="cpu")
    for kind, more in (("hot words", []), ("beam", ["--decoding.beam", "4", "--decoding.n_best", "3"])):
        flags = more or ["--decoding.hot_words", "a", "--decoding.hot_word_boost", "3"]
        done = run_without_torch("trt.run", hybrid, recordings[0], *flags, "--format", "json")
        assert (done.returncode, done.stderr) == (0, "")
        (expected,) = asr.transcribe(recordings[:1], decoder=asr.decoder(SEARCHES[kind]))
        assert json.loads(done.stdout)["text"] == expected.text
    cfg = RunConfig(model=hybrid, inputs=(recordings[0],), save_logits=tmp_path)
    with pytest.raises(ConfigError, match=r"^save_logits: .*m\.onnx writes pieces; expected a model of characters"):
        main(cfg)
    with pytest.raises(ConfigError, match=r"^decoding\.thorough: expected False"):
        main(replace(cfg, save_logits=None, decoding=DecodingOptions(thorough=True)))


def test_transcripts_are_those_of_the_checkpoint_whole_and_in_chunks(hybrid, recordings):
    assert_same_transcripts(hybrid, "tdt_ctc", "transducer", recordings)


@pytest.mark.parametrize(
    ("name", "head", "decode"),
    [("rnnt", "auto", "log_probs"), ("ctc", "auto", "greedy"), ("tdt_ctc", "ctc", "log_probs")],
)
def test_so_are_those_of_every_head(name, head, decode, recordings, pieces):
    """Every head and decoding; an export takes ten seconds, so that these are pairs and not their product."""
    assert_same_transcripts(pieces(name, head, decode), name, head, recordings)


def test_a_file_in_float16_hears_about_the_same(hybrid, tmp_path):
    cfg = ExportConfig(checkpoint=golden.folder() / "tdt_ctc.nemo", out=tmp_path / "h.onnx", precision="fp16")
    command.main(cfg)
    single, half = weights_in(hybrid, "decoder."), weights_in(tmp_path / "h.onnx", "decoder.")
    assert single.keys() == half.keys()
    assert all(np.array_equal(single[name], half[name]) for name in single)


def test_prediction_and_joint_are_graphs_for_decoders_of_others(hybrid, tmp_path):
    path = golden.folder() / "tdt_ctc.nemo"
    for part in ("prediction", "joint"):
        command.main(ExportConfig(checkpoint=path, out=tmp_path / f"{part}.onnx", part=part))
    prediction, joint = (OnnxModel(tmp_path / f"{part}.onnx") for part in ("prediction", "joint"))
    blank = prediction.facts["label_blank"]
    encoded_BSC, frames_B = golden.encoded("tdt_ctc")
    (expected, *_) = reference.greedy(encoded_BSC, frames_B, golden.decoder_weights("tdt_ctc"), max_symbols=10)
    shape = [1 if isinstance(size, str) else size for size in prediction.session.get_inputs()[1].shape]
    state = {"hidden_ZBH": np.zeros(shape, np.float32), "cell_ZBH": np.zeros(shape, np.float32)}
    said = prediction.run(tokens_B=np.array([blank]), **state)
    frame, symbols, tokens = 0, 0, []
    while frame < frames_B[0]:
        here_BC = encoded_BSC[:1, frame].contiguous().numpy()
        logits_W = joint.run(encoded_BC=here_BC, prediction_BJ=said["prediction_BJ"])["logits_BW"][0]
        token, jump = int(logits_W[: blank + 1].argmax()), joint.facts["durations"][logits_W[blank + 1 :].argmax()]
        if token != blank:
            tokens.append(token)
            symbols += 1
            state = {"hidden_ZBH": said["next_hidden_ZBH"], "cell_ZBH": said["next_cell_ZBH"]}
            said = prediction.run(tokens_B=np.array([token]), **state)
        jump = max(jump, 1) if token == blank or symbols >= 10 else jump
        frame, symbols = frame + jump, 0 if jump else symbols
    assert tokens == expected.tokens
    with pytest.raises(ModelError, match=r"joint\.onnx: is joint, and takes encoded_BC, prediction_BJ; expected"):
        loading.load(tmp_path / "joint.onnx")


def test_the_file_is_that_of_the_encoder_for_whoever_decodes_otherwise(hybrid):
    session = onnxruntime.InferenceSession(hybrid)
    assert [tensor.name for tensor in session.get_inputs()] == ["audio_BN", "samples_B"]
    assert [tensor.name for tensor in session.get_outputs()] == ["encoded_BSC", "output_frames_B"]
    weights = golden.decoder_weights("tdt_ctc")
    stored = of_named(weights_in(hybrid, "decoder."), durations=weights.durations, activation=weights.activation)
    for name, value in named(weights).items():
        assert np.array_equal(named(stored)[name], value.numpy()), name


def test_it_runs_where_torch_cannot_be_imported(hybrid, recordings):
    done = run_without_torch("trt.run", hybrid, recordings[0])
    assert (done.returncode, done.stderr) == (0, "")
    expected = load(golden.folder() / "tdt_ctc.nemo", device="cpu").transcribe(recordings[:1])[0].text
    assert done.stdout == f"{recordings[0]}\t{expected}\n"


def test_what_a_checkpoint_says_of_itself_decides_its_family(tmp_path, jasper, voice):
    assert families.located(jasper)[1] == "jasper"
    assert families.located(voice / "tts.pt")[1] == "fastpitch"
    assert families.located(voice / "v.pt")[1] == "vocoder"
    for name in ("ctc", "rnnt", "tdt", "tdt_ctc"):
        assert families.located(golden.folder() / f"{name}.nemo")[1] == "fastconformer"
    letters = tiny_config()
    quartznet = test_nemo_import.write(tmp_path / "q.nemo", test_nemo_import.description(letters), {})
    assert families.located(quartznet)[1] == "jasper"
    for kind, family in (("hubert", "wav2vec2"), ("wavlm", "wav2vec2"), ("parakeet_tdt", "fastconformer")):
        (tmp_path / "config.json").write_text(f'{{"model_type": "{kind}"}}')
        assert families.located(tmp_path)[1] == family
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    with pytest.raises(CheckpointError, match=r"config\.json says model_type 'whisper'; known are wav2vec2, hubert, "):
        families.located(tmp_path)
    checkpoint.save(tmp_path / "other.pt", {"format": "poem"})
    with pytest.raises(CheckpointError, match=r"other\.pt: is of poem, which is not known; known are jasper, wav2vec2"):
        families.located(tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match=r"gone\.pt: no such checkpoint"):
        families.located(tmp_path / "gone.pt")
    with pytest.raises(ModelError, match=r"v\.pt: is a vocoder; expected a recogniser"):
        load_ears(voice / "v.pt")


def test_heads_and_parts_that_a_model_has_not_are_one_line(tmp_path):
    path = golden.folder() / "ctc.nemo"
    with pytest.raises(CheckpointError, match="head = transducer: this model has no such head"):
        command.main(ExportConfig(checkpoint=path, out=tmp_path / "m.onnx", head="transducer"))
    with pytest.raises(CheckpointError, match="part = joint: CTC has none; expected whole or encoder"):
        command.main(ExportConfig(checkpoint=path, out=tmp_path / "m.onnx", part="joint"))
    with pytest.raises(ExportError, match="part = decoder: expected whole, encoder, prediction, joint of a fast"):
        command.main(ExportConfig(checkpoint=path, out=tmp_path / "m.onnx", part="decoder"))


def test_damaged_weights_are_one_line(hybrid, tmp_path):
    content = hybrid.read_bytes()
    for name, damaged in (("cut.onnx", content[:-100]), ("kind.onnx", b"\x0f" + content)):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ValueError, match="ONNX file: a "):
            weights_in(tmp_path / name, "decoder.")
