"""A voice in ONNX Runtime beside torch: appends rows to benchmarks/results/trt_speech.jsonl.

    OMP_NUM_THREADS=1 python benchmarks/trt_speech.py [--repeats 7] [--symbols 120]

FastPitch and the light vocoder in their full sizes, with random weights, which have no part in the time; every symbol
gets seven frames, as in English speech. `runtime` is what `trt.speak` runs, `eager` what `fastpitch.inference` runs, on
the same symbols, one thread, in turns, by processor time. Preparing the text is not counted.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
import torch

import fastpitch
from common import config
from common.benchmark import append_row, compare, ratio
from common.runs import checkpoint
from fastpitch import export as fastpitch_export
from fastpitch.acoustic.checkpoints.own import FORMAT
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.model import FastPitch
from fastpitch.front.symbols import TextProcessor
from fastpitch.vocoders.build import build_generator
from fastpitch.vocoders.config import HifiganRun
from trt.export.command import ExportConfig
from trt.export.command import main as export
from trt.runtime.recognizer import OnnxModel

CPU = torch.device("cpu")
CONFIGS = Path(__file__).parents[1] / "configs"
FRAMES_PER_SYMBOL = 7


def saved(folder: Path) -> tuple[Path, Path]:
    """Checkpoints of a voice and of a vocoder with random weights."""
    torch.manual_seed(0)
    voice = config.load(Config, CONFIGS / "fastpitch" / "fastpitch.toml")
    symbols = len(TextProcessor(voice.text).symbols)
    weights = FastPitch(voice.model, n_symbols=symbols, mel_bins=voice.features.mel_bins).state_dict()
    checkpoint.save(
        folder / "tts.pt", {"format": FORMAT, "config": config.to_dict(voice), "weights": weights, "ema": None}
    )
    vocoder = config.load(HifiganRun, CONFIGS / "hifigan" / "istft.toml")
    state = {"format": "hifigan", "config": config.to_dict(vocoder), "generator_ema": None}
    checkpoint.save(folder / "v.pt", state | {"generator": build_generator(vocoder).state_dict()})
    return folder / "tts.pt", folder / "v.pt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7, help="turns of the comparison")
    parser.add_argument("--symbols", type=int, default=120, help="length of the sentence")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as place:
        paths = saved(Path(place))
        for path in paths:
            export(ExportConfig(checkpoint=path, out=path.with_suffix(".onnx")))
        runtime = [OnnxModel(path.with_suffix(".onnx"), threads=1) for path in paths]
        tts, vocoder = fastpitch.load(paths[0], device="cpu"), fastpitch.load_vocoder(paths[1], device="cpu")
    graph = fastpitch_export.graph(tts)
    shape = 1, options.symbols
    inputs = {name: torch.full(shape, torch.nan) for name in graph.inputs if name.endswith("_BL")}
    inputs |= {name: torch.ones(shape) for name in inputs if name == "pace_BL" or name.endswith("scale_BL")}
    inputs |= {name: torch.zeros(shape) for name in inputs if name.endswith("shift_BL")}
    inputs["durations_BL"] = torch.full(shape, float(FRAMES_PER_SYMBOL))
    inputs["tokens_BL"] = torch.arange(options.symbols)[None] % 100 + 1
    inputs["lengths_B"] = torch.tensor([options.symbols])
    arrays = {name: value.numpy() for name, value in inputs.items()}

    def spoken_by_runtime() -> np.ndarray:
        said = runtime[0].run(**arrays)
        return runtime[1].run(mel_BMT=said["mel_BMT"], frames_B=said["frames_B"])["audio_BN"]

    @torch.inference_mode()
    def spoken_by_torch() -> np.ndarray:
        mel_BMT, frames_B, *_ = graph.reference(**inputs)
        return vocoder(mel_BMT, frames_B).numpy()

    ours, theirs = spoken_by_runtime(), spoken_by_torch()
    difference = float(np.abs(ours - theirs).max())
    if ours.shape != theirs.shape or not difference < 1e-3 * np.abs(theirs).max():
        raise SystemExit(f"the sides differ by {difference:.1e}; nothing was measured")
    seconds = ours.shape[1] / vocoder.features.sample_rate
    timings = compare(
        {"eager": spoken_by_torch, "runtime": spoken_by_runtime},
        device=CPU, warmup=1, repeats=options.repeats, clock=time.process_time,
    )  # fmt: skip
    for side, times in timings.items():
        row = {"config": "fastpitch + istft", "side": side, "seconds_of_audio": round(seconds, 2), "threads": 1}
        row |= {"clock": "processor", "onnxruntime": onnxruntime.__version__}
        row |= times.summary()
        row["times_real_time"] = round(1000 * seconds / row["p50"], 1)
        row["times_faster_than_eager"] = round(ratio(timings["eager"], times), 2)
        row = append_row("trt_speech", row, device=CPU)
        print(f"{side}: {row['p50']} ms for {seconds:.1f} s, {row['times_real_time']} times real time")


if __name__ == "__main__":
    main()
