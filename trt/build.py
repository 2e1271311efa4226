"""Builds an engine of an exported model: `python -m trt.build m.onnx`.

    python -m trt.export jasper_best.pt --out m.onnx --precision fp16
    python -m trt.build m.onnx --compute-capability 8.6 8.9 --profile 1x2s,8x7s,16x16.7s

Takes TensorRT or, where that is not installed, TensorRT-RTX, whose wheels build engines on a machine without a GPU. The
network is strongly typed: it computes in the precision that the file was exported in. Beside the engine stands a JSON
file that says what it was built with and for; `trt.engines.building.check` compares it with what is there.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from common import config
from common.files.atomic import write_text, written_whole
from common.recognition.output.writing import check_file, tell
from trt.engines.building import EngineError, build, description


@dataclass(frozen=True, kw_only=True)
class BuildConfig:
    """Which exported model becomes an engine, for which devices and sizes."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """The file that trt.export wrote."""
    out: Path | None = None
    """The engine to write; by default beside the model, with .engine for .onnx."""
    compute_capability: tuple[str, ...] = ("8.6", "8.9", "12.0")
    """Devices that the engine is for, by compute capability, such as 8.6 (A40, RTX 30) or 8.9 (L4, RTX 40). TensorRT
    builds for the device it finds."""
    profile: str = "1x2s,8x7s,16x16.7s"
    """Least, most usual and greatest size: batch x length, in seconds (2s) or in what the model counts (200)."""

    def __post_init__(self) -> None:
        if not self.compute_capability:
            raise ValueError("no compute capability; name those of the devices, such as --compute-capability 8.6 8.9")


def main(cfg: BuildConfig) -> Path:
    """Writes the engine and its description; returns the engine's path. Raises EngineError and OSError."""
    out = cfg.out or cfg.model.with_suffix(".engine")
    check_file(out, [cfg.model])
    built = build(cfg.model, capabilities=cfg.compute_capability, sizes=cfg.profile)
    with written_whole(out) as file:
        file.write(built.content)
    write_text(out.with_suffix(out.suffix + ".json"), description(built))
    tell(
        f"{out}: {len(built.content) / 1e6:.1f} MB in {built.seconds:.0f} s by {built.library} {built.version}, for "
        f"{', '.join(cfg.compute_capability)}; not run: no device was asked"
    )
    return out


if __name__ == "__main__":
    config.run(main, BuildConfig, __doc__, EngineError, OSError)
