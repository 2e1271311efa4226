"""LJSpeech: downloads its archive, checks it, unpacks it and writes the file lists of the published recipes.

Leaves DATA_DIR/LJSpeech-1.1 with metadata.csv and wavs/ as they are, and in it filelists/ljs_audio_text_*.txt and
ljs_audio_pitch_text_*.txt, whose pitch/*.pt come from `python -m fastpitch.prepare`. What is there already is not made
again, and an interrupted download goes on where it stopped.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from common import config
from common.data.archives import ArchiveError, unpack_checked
from common.data.manifest import ManifestError, Utterance, read_manifest

SHA256 = "be1a30453f28eb8dd26af4101ae40cbf2c50413b1bb21936cbcdc6fae3de8aa5"
HELD_OUT = Path(__file__).with_name("ljspeech_heldout.txt")


@dataclass(frozen=True, kw_only=True)
class LJSpeechConfig:
    """LJSpeech: download, check, unpack and list it."""

    data_dir: Path = Path()
    """Folder that gets the folder LJSpeech-1.1."""
    from_: Annotated[Path | None, arg(name="from")] = None
    """Folder with LJSpeech-1.1.tar.bz2, downloaded before; nothing is downloaded then."""
    url: str = "https://data.keithito.com/data/speech"
    """Address that the archive is downloaded from; a mirror may be nearer."""


def main(cfg: LJSpeechConfig) -> None:
    """Makes the corpus ready, as far as that is not done."""
    folder = cfg.data_dir.absolute() / "LJSpeech-1.1"
    try:
        cfg.data_dir.mkdir(parents=True, exist_ok=True)
        if not folder.is_dir():
            name = "LJSpeech-1.1.tar.bz2"
            unpack_checked(name, "LJSpeech-1.1", folder, checksum=SHA256, url=cfg.url, archives=cfg.from_)
        utterances = read_manifest(folder).utterances
        write_lists(folder / "filelists", utterances)
    except OSError as error:
        sys.exit(f"{cfg.data_dir}: cannot be used ({error.strerror}); set DATA_DIR to a folder that you may write to")
    except (ArchiveError, ManifestError) as error:
        sys.exit(f"not ready: {error}")
    hours = sum(utterance.seconds for utterance in utterances) / 3600
    print(f"{folder}: {len(utterances)} clips, {hours:.2f} hours; file lists in filelists/")


def write_lists(folder: Path, utterances: list[Utterance]) -> None:
    """The published lists, with and without a column for the pitch: path|text, and path|pitch|text."""
    folder.mkdir(exist_ok=True)
    held_out = read_held_out()
    others = set().union(*held_out.values())
    by_list = {name: [u for u in utterances if u.id in ids] for name, ids in held_out.items()}
    by_list["train_v3"] = [u for u in utterances if u.id not in others]
    for name, clips in by_list.items():
        without = [f"wavs/{u.id}.wav|{u.text}\n" for u in clips]
        with_pitch = [f"wavs/{u.id}.wav|pitch/{u.id}.pt|{u.text}\n" for u in clips]
        (folder / f"ljs_audio_text_{name}.txt").write_text("".join(without), encoding="utf-8")
        (folder / f"ljs_audio_pitch_text_{name}.txt").write_text("".join(with_pitch), encoding="utf-8")


def read_held_out() -> dict[str, frozenset[str]]:
    """The ids of the validation and the test clips."""
    _, *parts = re.split(r"\[(\w+)\]", HELD_OUT.read_text(encoding="utf-8"))
    return {name: frozenset(ids.split()) for name, ids in zip(parts[::2], parts[1::2], strict=True)}


if __name__ == "__main__":
    config.run(main, LJSpeechConfig, __doc__)
