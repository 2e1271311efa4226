#!/usr/bin/env bash
# Fine-tunes a pre-trained Large for recognition, with the variables of the published script; what is not set keeps
# the value of configs/wav2vec2/finetune_vox_960h.toml.
#   NUM_GPUS=8 NUM_CONCAT_BATCHES=3 BF16=true PRETRAINED_MODEL=pretrained.pt bash scripts/wav2vec2/finetune_vox_960h.sh
# NUM_GPUS x NUM_CONCAT_BATCHES x UPDATE_FREQ must be 24, which is checked. Published variables
# that have no effect are named when they are set.
# Further arguments are flags of `python -m wav2vec2.finetune`, whose --help-all lists them.
# shellcheck source=scripts/wav2vec2/training.sh
source "$(dirname "${BASH_SOURCE[0]}")/training.sh"
finetune configs/wav2vec2/finetune_vox_960h.toml "$@"
