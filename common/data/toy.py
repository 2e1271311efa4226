"""Speech for the toy configurations of all models, in half a minute: `python -m common.data.toy DIR`.

Sentences that espeak-ng says: `train-clean` and `dev-clean` as in LibriSpeech, `train` and `validation` as in LJSpeech,
and lists of the latter, `train.txt` and `validation.txt`. It is enough to see a training run, not to learn from.
"""

import argparse
from pathlib import Path

from common import config
from common.audio import waveform
from common.audio.espeak import EspeakError
from common.data.synthetic import SyntheticConfig, build_librispeech, build_ljspeech

RATE = 8000  # of the toy voices, in Hz


def build(folder: Path) -> Path:
    """Writes the corpora; returns the folder that `--data.root` names. Raises EspeakError and FileExistsError."""
    few = SyntheticConfig(train_utterances=24, dev_utterances=6, test_utterances=6)
    root = build_librispeech(folder, few)
    for seed, (name, utterances) in enumerate({"train": 16, "validation": 4}.items()):
        build_ljspeech(root / name, SyntheticConfig(train_utterances=utterances, seed=seed))
        lines = []
        for line in (root / name / "metadata.csv").read_text().splitlines():
            clip, text, _ = line.split("|")
            path = root / name / "wavs" / f"{clip}.wav"
            waveform.write(path, waveform.read(path, sample_rate=RATE).samples, RATE)
            lines.append(f"{path.relative_to(root)}|{text}\n")
        (root / f"{name}.txt").write_text("".join(lines))
    return root


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m common.data.toy", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder that is made")
    with config.reported(EspeakError, FileExistsError):
        root = build(parser.parse_args().folder)
        print(f"python -m jasper.train jasper/toy --data.root {root}")
