"""Pre-training or fine-tuning by one command, as published: `python -m wav2vec2.train {pretrain,finetune} …`.

    python -m wav2vec2.train pretrain configs/wav2vec2/pretrain_base.toml --data.root DIR
    python -m wav2vec2.train finetune configs/wav2vec2/finetune_base_960h.toml --data.root DIR --pretrained base.pt

The options after the first word are those of `python -m wav2vec2.pretrain` and `python -m wav2vec2.finetune`.
"""

import runpy
import sys

from common import config
from common.config import ConfigError

MODES = ("pretrain", "finetune")


def main(arguments: list[str]) -> None:
    """Runs the training that the first argument names, with the others. Raises ConfigError for another word."""
    if arguments[:1] in (["--help"], ["-h"]):
        print(__doc__)
        return
    if arguments[:1] not in ([mode] for mode in MODES):
        found = repr(arguments[0]) if arguments else "nothing"
        raise ConfigError(f"found {found}; expected {' or '.join(MODES)} as the first argument")
    module = f"wav2vec2.{arguments[0]}"
    sys.argv = [f"python -m {module}", *arguments[1:]]
    runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    with config.reported():
        main(sys.argv[1:])
