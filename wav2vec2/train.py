"""Pre-training or fine-tuning by one command, as published: `python -m wav2vec2.train {pretrain,finetune} …`.

    python -m wav2vec2.train pretrain configs/wav2vec2/pretrain_base.toml --data.root DIR
    python -m wav2vec2.train finetune configs/wav2vec2/finetune_base_960h.toml --data.root DIR --pretrained base.pt

The options after the first word are those of `python -m wav2vec2.pretrain` and `python -m wav2vec2.finetune`.
"""

import sys

from common import config
from common.config import ConfigError
from common.training.loop import EXPECTED
from wav2vec2 import finetune, pretrain
from wav2vec2.run_config import FinetuneConfig, PretrainConfig


def main(arguments: list[str]) -> None:
    """Runs the training that the first argument names, with the options after it.

    Raises what that training raises, and ConfigError for another word.
    """
    if {"-h", "--help", "--help-all"} & set(arguments[:1]):
        print(__doc__)
        return
    match arguments:
        case ["pretrain", *options]:
            pretrain.main(config.command_line(PretrainConfig, options, description=pretrain.__doc__ or ""))
        case ["finetune", *options]:
            finetune.main(config.command_line(FinetuneConfig, options, description=finetune.__doc__ or ""))
        case _:
            found = repr(arguments[0]) if arguments else "nothing"
            raise ConfigError(f"found {found}; expected pretrain or finetune as the first argument")


if __name__ == "__main__":
    with config.reported(*EXPECTED):
        main(sys.argv[1:])
