import json
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import fastpitch
from common.audio import waveform
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from fastpitch import export as fastpitch_export
from fastpitch.acoustic.aligner import symbol_of_frames
from fastpitch.vocoders.vocoder import load_vocoder
from jasper.config import BlockConfig, Config, ModelConfig
from jasper.recognizer import load
from tests.fastpitch.vocoders.small import HIFIGAN, ISTFT, random_mel, save_hifigan, save_waveglow
from tests.jasper.tiny import tiny_config
from tests.trt.models import save_jasper
from trt import conversion, model_repository
from trt.conversion import ExportError, Program
from trt.export.command import ExportConfig, main, read_graph
from trt.facts import ModelError
from trt.model_repository import ModelRepositoryConfig
from trt.quantisation.reduced import to_int8
from trt.runtime.recognizer import OnnxModel, Recognizer
from trt.runtime.voice import Vocoder

SEPARABLE = ModelConfig(
    blocks=(
        BlockConfig(filters=8, kernel=5, stride=2, separable=True),
        BlockConfig(filters=12, kernel=7, repeat=2, residual="block", separable=True),
        BlockConfig(filters=12, kernel=5, dilation=2, separable=True),
    )
)


def test_a_batch_of_any_length_gives_what_the_recognizer_gives(jasper):
    asr = load(jasper)
    session = onnxruntime.InferenceSession(jasper.with_suffix(".onnx"))
    for lengths in ((400,), (20_000, 3_000, 11_111, 160), (161, 160)):
        audio_BN = np.random.default_rng(0).standard_normal((len(lengths), max(lengths))).astype(np.float32) / 10
        samples_B = np.array(lengths)
        found, frames_B = session.run(None, {"audio_BN": audio_BN, "samples_B": samples_B})
        expected = asr.model(*asr.features(torch.from_numpy(audio_BN), torch.from_numpy(samples_B)))
        assert frames_B.tolist() == expected.frames_B.tolist()
        for row, other, frames in zip(found, expected.log_probs_BSV.detach().numpy(), frames_B, strict=True):
            assert np.abs(row[:frames] - other[:frames]).max() < 1e-4


def test_what_follows_an_utterance_in_its_row_does_not_matter(jasper):
    session = onnxruntime.InferenceSession(jasper.with_suffix(".onnx"))
    audio_BN = np.random.default_rng(0).standard_normal((2, 9_000)).astype(np.float32)
    alone, _ = session.run(None, {"audio_BN": audio_BN[:1, :5_000], "samples_B": np.array([5_000])})
    audio_BN[0, 5_000:] = 100
    ragged, frames_B = session.run(None, {"audio_BN": audio_BN, "samples_B": np.array([5_000, 9_000])})
    assert np.abs(ragged[0, : frames_B[0]] - alone[0]).max() < 1e-5


def test_the_file_says_what_a_runtime_must_know(jasper):
    told = onnxruntime.InferenceSession(jasper.with_suffix(".onnx")).get_modelmeta().custom_metadata_map
    values = {key: json.loads(value) for key, value in told.items()}
    assert values["labels"][0] == " "
    assert values["labels"][values["blank"]] == "<blank>"
    assert (values["sample_rate"], values["samples_per_frame"], values["seconds_per_frame"]) == (16_000, 320, 0.02)
    assert values["configuration"]["features"]["mel_bins"] == 64


def test_quartznet_is_exported_from_features_too(tmp_path):
    path = save_jasper(tmp_path / "q.pt", Config(model=SEPARABLE, device="cpu"))
    main(ExportConfig(checkpoint=path, out=tmp_path / "q.onnx", input="features"))
    session = onnxruntime.InferenceSession(tmp_path / "q.onnx")
    assert [tensor.name for tensor in session.get_inputs()] == ["features_BFT", "frames_B"]
    assert [tensor.name for tensor in session.get_outputs()] == ["log_probs_BSV", "output_frames_B"]


@pytest.mark.parametrize(
    "cfg",
    [
        pytest.param(HIFIGAN, marks=pytest.mark.slow, id="hifigan"),
        pytest.param(ISTFT, id="istft"),
        pytest.param(
            replace(ISTFT, istft=replace(ISTFT.istft, corrections=2)),
            marks=[pytest.mark.slow, pytest.mark.nightly],
            id="corrected",
        ),
    ],
)
def test_a_vocoder_says_in_ragged_batches_what_the_checkpoint_says(cfg, tmp_path):
    path = save_hifigan(tmp_path / "v.pt", cfg)
    main(ExportConfig(checkpoint=path, out=tmp_path / "v.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "v.onnx")
    told = session.get_modelmeta().custom_metadata_map
    assert (told["task"], told["sample_rate"], told["hop_samples"]) == ('"vocoding"', "22050", "256")
    mel_BMT, frames_B = random_mel(3, 80, 50), torch.tensor([41, 50, 1])
    (found_BN,) = session.run(None, {"mel_BMT": mel_BMT.numpy(), "frames_B": frames_B.numpy()})
    expected_BN = load_vocoder(path, device="cpu")(mel_BMT, frames_B).numpy()
    assert np.abs(found_BN - expected_BN).max() < 1e-5 < 1e-3 * np.abs(expected_BN).max()
    (alone_BN,) = session.run(None, {"mel_BMT": mel_BMT[:1, :, :41].numpy(), "frames_B": np.array([41])})
    assert np.abs(alone_BN[0] - found_BN[0, : 41 * 256]).max() < 1e-6
    with pytest.raises(ModelError, match="takes mel_BMT, frames_B; expected a recogniser that trt.export wrote with"):
        Recognizer(tmp_path / "v.onnx")


def test_a_vocoder_with_pulses_has_a_graph_that_says_as_much_and_nothing_beyond_the_end(tmp_path):
    path = save_hifigan(tmp_path / "v.pt", replace(ISTFT, istft=replace(ISTFT.istft, corrections=1, phases="pulses")))
    session = conversion.converted(read_graph(ExportConfig(checkpoint=path, out=tmp_path / "v.onnx"))).session(
        threads=1
    )
    mel_BMT, frames_B = random_mel(3, 80, 50), torch.tensor([41, 50, 1])
    mel_BMT[1, :, 20:30] = mel_BMT.min()  # nothing has no phase
    (found_BN,) = session.run(None, {"mel_BMT": mel_BMT.numpy(), "frames_B": frames_B.numpy()})
    expected_BN = load_vocoder(path, device="cpu")(mel_BMT, frames_B).numpy()
    assert np.isfinite(found_BN).all()
    assert not found_BN[0, 41 * 256 :].any()
    # Where rounding moves a pulse of a network that has learned nothing, its samples differ, and hardly its power.
    assert np.square(found_BN).mean(1) == pytest.approx(np.square(expected_BN).mean(1), rel=0.05)


def test_waveglow_makes_of_noise_what_the_checkpoint_makes(tmp_path):
    path = save_waveglow(tmp_path / "w.pt")
    main(ExportConfig(checkpoint=path, out=tmp_path / "w.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "w.onnx")
    mel_BMT, frames_B, noise_BTN = random_mel(2, 16, 20), torch.tensor([20, 13]), torch.randn(2, 20, 256)
    inputs = {"mel_BMT": mel_BMT.numpy(), "frames_B": frames_B.numpy(), "noise_BTN": noise_BTN.numpy()}
    (found_BN,) = session.run(None, inputs)
    z_BGP = noise_BTN.view(2, -1, 8).mT
    expected_BN = load_vocoder(path, device="cpu").generator.inverse(mel_BMT, z_BGP, frames_B).detach().numpy()
    assert np.abs(found_BN - expected_BN).max() < 1e-5 < 1e-3 * np.abs(expected_BN).max()
    vocoder = Vocoder(tmp_path / "w.onnx", sigma=0.5, seed=3)
    whole_N = vocoder(mel_BMT[0].numpy())
    pieces_N = np.concatenate(list(vocoder.stream(mel_BMT[0].numpy(), chunk_frames=8)))
    assert np.abs(pieces_N - whole_N).max() < 1e-5 < np.abs(whole_N).max()


def test_every_control_of_fastpitch_arrives(voice):
    """An export that takes one example for two inputs ignores a control, and a check at its default passes."""
    session = onnxruntime.InferenceSession(voice / "tts.onnx")
    graph = fastpitch_export.graph(fastpitch.load(voice / "tts.pt", device="cpu"))
    example = {name: value.numpy() for name, value in graph.inputs.items()}
    plain = example | {name: np.full_like(example[name], np.nan) for name in ("durations_BL", "pitch_BL", "energy_BL")}
    plain |= {name: np.ones_like(value) for name, value in plain.items() if name == "pace_BL" or "scale" in name}
    plain |= {name: np.zeros_like(value) for name, value in plain.items() if "shift" in name or name == "speaker_B"}
    controls = [name for name in example if name not in ("tokens_BL", "lengths_B")]
    assert len(controls) == 9
    usual = session.run(None, plain)
    for name in controls:
        changed = example | {"speaker_B": np.ones_like(example["speaker_B"])}
        inputs = plain | {name: changed[name]}
        found = session.run(None, inputs)
        expected = graph.reference(**{key: torch.from_numpy(value) for key, value in inputs.items()})
        assert found[0].shape != usual[0].shape or np.abs(found[0] - usual[0]).max() > 1e-3
        for ours, theirs in zip(found, expected, strict=True):
            assert np.abs(ours - theirs.numpy()).max() < 5e-5


def test_encoder_and_decoder_of_fastpitch_make_together_what_the_whole_makes(voice, tmp_path):
    for part in ("encoder", "decoder"):
        main(ExportConfig(checkpoint=voice / "tts.pt", out=tmp_path / f"{part}.onnx", part=part))
    whole, encoder, decoder = map(OnnxModel, (voice / "tts.onnx", tmp_path / "encoder.onnx", tmp_path / "decoder.onnx"))
    graph = fastpitch_export.graph(fastpitch.load(voice / "tts.pt", device="cpu"))
    inputs = {name: value.numpy() for name, value in graph.checks[0].items()}
    expected, symbols = whole.run(**inputs), encoder.run(**inputs)
    counts_BL = symbols["symbol_frames_BL"]
    assert np.array_equal(counts_BL, expected["symbol_frames_BL"])
    symbol_BT = symbol_of_frames(torch.from_numpy(counts_BL), int(counts_BL.sum(1).max())).numpy()
    found = decoder.run(conditioned_BLC=symbols["conditioned_BLC"], symbol_BT=symbol_BT, frames_B=counts_BL.sum(1))
    assert np.abs(found["mel_BMT"] - expected["mel_BMT"]).max() < 1e-5
    assert decoder.facts["part"] == "decoder"


def test_a_graph_that_is_refused_leaves_no_file(tmp_path, monkeypatch):
    path = save_jasper(tmp_path / "m.pt", tiny_config())
    monkeypatch.setattr("trt.export.command.converted", lambda graph, stem: Program(b"", None, ()))

    def refuse(program, graph):
        raise ExportError("log_probs_BSV differs by inf")

    monkeypatch.setattr("trt.export.command.greatest_difference", refuse)
    with pytest.raises(ExportError, match="differs by inf"):
        main(ExportConfig(checkpoint=path, out=tmp_path / "m.onnx"))
    assert not (tmp_path / "m.onnx").exists()


def test_a_model_without_export_is_named(tmp_path):
    checkpoint.save(tmp_path / "t.pt", {"format": "poem"})
    with pytest.raises(CheckpointError, match=r"t\.pt: is of poem, which is not known; known are jasper, "):
        main(ExportConfig(checkpoint=tmp_path / "t.pt", out=tmp_path / "t.onnx"))


def test_what_is_not_of_this_family_or_was_exported_already_is_told(tmp_path, talker):
    (tmp_path / "m.onnx").touch()
    for path, asked, message in (
        (tmp_path / "m.onnx", {}, r"m\.onnx: is an ONNX file already; expected the checkpoint that it was made of"),
        (
            talker[1],
            {"input": "features"},
            "input features is for Jasper, QuartzNet and FastConformers; it is a vocoder",
        ),
        (talker[0], {"head": "ctc"}, "head ctc is for hybrid FastConformers; it is a fastpitch"),
    ):
        with pytest.raises(ExportError, match=message):
            main(ExportConfig(checkpoint=path, out=tmp_path / "x.onnx", **asked))


def test_a_file_that_cannot_be_written_is_told_before_the_work(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder.onnx").mkdir()
    for name in ("file/m.onnx", "folder.onnx"):
        with pytest.raises(OSError, match=f"directory.*{name}"):
            main(ExportConfig(checkpoint=tmp_path / "never_read.pt", out=tmp_path / name))
    with pytest.raises(CheckpointError, match="never_read.pt"):
        main(ExportConfig(checkpoint=tmp_path / "never_read.pt", out=tmp_path / "new" / "m.onnx"))


def test_a_name_without_the_suffix_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trt.export", str(tmp_path / "m.pt"), "--out", str(tmp_path / "m.bin")])
    with pytest.raises(SystemExit) as exit_:
        runpy.run_module("trt.export", run_name="__main__")
    assert exit_.value.code == 2
    assert "expected a name that ends in .onnx" in capsys.readouterr().err


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """A folder of noise that changes."""
    random, folder = np.random.default_rng(0), tmp_path_factory.mktemp("clips")
    for number in range(6):
        loudness = np.repeat(random.uniform(0.01, 0.3, 10 + number), 1600)
        waveform.write(folder / f"{number}.wav", loudness * random.standard_normal(len(loudness)), 16_000)
    return folder


def test_a_file_that_decodes_gives_the_labels_of_the_recogniser_and_transcribes_the_same(jasper, clips, tmp_path):
    main(ExportConfig(checkpoint=jasper, out=tmp_path / "g.onnx", decode="greedy"))
    model, asr = Recognizer(tmp_path / "g.onnx"), load(jasper)
    files = sorted(clips.iterdir())
    for chunk_seconds in (60.0, 0.7):
        ours = list(model.stream(files, batch_size=3, chunk_seconds=chunk_seconds))
        theirs = asr.transcribe(files, batch_size=3, chunk_seconds=chunk_seconds)
        for own, other in zip(ours, theirs, strict=True):
            assert [word[:3] for word in own.words] == [word[:3] for word in other.words]
            if chunk_seconds == 60:  # labels at the ends of chunks have the confidence of all their frames
                confidence = [word.confidence for word in other.words]
                assert np.allclose([word.confidence for word in own.words], confidence, atol=1e-3)
        assert sum(len(own.words) for own in ours) > 5
    with pytest.raises(ModelError, match="gives labels, not log-probabilities; export it without --decode greedy"):
        model.log_probs(np.zeros((1, 400), np.float32), np.array([400]))


def test_float16_says_almost_what_float32_says_and_the_file_states_it(jasper, tmp_path, capsys):
    main(ExportConfig(checkpoint=jasper, out=tmp_path / "m.onnx", precision="fp16"))
    half, whole = Recognizer(tmp_path / "m.onnx"), Recognizer(jasper.with_suffix(".onnx"))
    assert half.network.facts["precision"] == "fp16"
    audio_BN, samples_B = np.random.default_rng(0).standard_normal((1, 9_000)).astype(np.float32), np.array([9_000])
    (found_SV,), (expected_SV,) = (asr.log_probs(audio_BN, samples_B) for asr in (half, whole))
    assert 0 < np.abs(found_SV - expected_SV).max() < 0.02 * np.abs(expected_SV).max()
    assert "of the greatest value from it" in capsys.readouterr().err


def test_int8_is_fitted_to_recordings_and_says_so(jasper, clips, tmp_path, capsys, monkeypatch):
    def random_weights_say_anything(program, clips, metadata, how, texts):
        return to_int8(program, clips, metadata, replace(how, most_errors=10), texts)

    monkeypatch.setattr("trt.export.command.to_int8", random_weights_say_anything)
    cfg = {"precision": "int8", "calibration": (clips,), "calibration_clips": 5, "calibration_noise_db": (10.0,)}
    main(ExportConfig(checkpoint=jasper, out=tmp_path / "m.onnx", **cfg))
    told = Recognizer(tmp_path / "m.onnx").network.facts
    assert (told["precision"], told["int8"]["clips"]) == ("int8", 5)
    assert len(told["int8"]["excluded"]) == 4  # three dense residuals and the last layer
    assert "words of 5 clips are those of float32" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"precision": "int8"}, "precision int8, 0 calibration inputs: expected recordings with --calibration"),
        ({"calibration": (Path("a"),)}, "precision fp32, 1 calibration inputs: expected it with --precision int8 only"),
    ],
)
def test_calibration_and_int8_belong_together(how, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        ExportConfig(checkpoint=tmp_path / "m.pt", out=tmp_path / "m.onnx", **how)


def test_what_is_no_recogniser_is_neither_decoded_nor_calibrated(voice, tmp_path):
    with pytest.raises(ExportError, match=r"v\.pt: decode greedy is for recognisers with CTC"):
        main(ExportConfig(checkpoint=voice / "v.pt", out=tmp_path / "v.onnx", decode="greedy"))
    with pytest.raises(ExportError, match=r"v\.pt: precision int8 is for recognisers with CTC and whole ones"):
        main(
            ExportConfig(checkpoint=voice / "v.pt", out=tmp_path / "v.onnx", precision="int8", calibration=(tmp_path,))
        )


def test_calibration_without_sound_is_an_error(jasper, tmp_path):
    waveform.write(tmp_path / "a.wav", np.zeros(8_000), 16_000)
    cfg = ExportConfig(checkpoint=jasper, out=tmp_path / "m.onnx", precision="int8", calibration=(tmp_path,))
    with pytest.raises(ExportError, match="no recording in which anything can be heard"):
        main(cfg)


def test_weights_that_one_file_cannot_hold_are_in_a_second_one_that_is_named(jasper, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(conversion, "MOST_BYTES", 20_000)
    main(ExportConfig(checkpoint=jasper, out=tmp_path / "m.onnx"))
    told = capsys.readouterr().err
    (beside,) = tmp_path.glob("m.*.weights")
    assert f"MB, of which the weights in {beside.name}, at most" in told
    assert (tmp_path / "m.onnx").stat().st_size < jasper.with_suffix(".onnx").stat().st_size / 2
    sound_BN = 0.1 * np.random.default_rng(0).standard_normal((1, 16_000)).astype(np.float32)
    both = [Recognizer(path) for path in (tmp_path / "m.onnx", jasper.with_suffix(".onnx"))]
    (found_SV,), (expected_SV,) = (asr.log_probs(sound_BN, np.array([16_000])) for asr in both)
    assert np.array_equal(found_SV, expected_SV)
    model_repository.main(ModelRepositoryConfig(out=tmp_path / "models", asr=tmp_path / "m.onnx"))
    assert (tmp_path / "models" / "network" / "1" / beside.name).read_bytes() == beside.read_bytes()
    beside.unlink()
    with pytest.raises(ModelError, match=r"m\.onnx: cannot be loaded: .*External data path does not exist"):
        Recognizer(tmp_path / "m.onnx")
    with pytest.raises(ExportError, match="its weights are more than 2 GB, which are exported in fp32 alone"):
        main(ExportConfig(checkpoint=jasper, out=tmp_path / "h.onnx", precision="fp16"))
    assert not list(tmp_path.glob("h.*"))


def test_a_file_from_samples_on_names_its_features_and_nothing_before_them_is_of_the_network(jasper):
    model = onnx.load(jasper.with_suffix(".onnx"))
    name = json.loads({entry.key: entry.value for entry in model.metadata_props}["features_tensor"])
    makers = {output: node for node in model.graph.node for output in node.output}
    before, waiting = dict[str, str](), [name]
    while waiting:
        if (node := makers.get(waiting.pop())) is not None and node.name not in before:
            before[node.name] = node.op_type
            waiting += node.input
    assert list(before.values()).count("Log") == 1
    assert list(before.values()).count("Conv") == 1  # the basis of the transform
    assert "Relu" not in before.values()
