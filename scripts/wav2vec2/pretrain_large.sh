#!/usr/bin/env bash
# Pre-trains wav2vec 2.0 Large, with the variables of the published script; what is not set keeps the value of
# configs/wav2vec2/pretrain_large.toml.
#   NUM_GPUS=8 NUM_CONCAT_BATCHES=1 UPDATE_FREQ=16 BF16=true bash scripts/wav2vec2/pretrain_large.sh
# NUM_GPUS x NUM_CONCAT_BATCHES x UPDATE_FREQ must be 128, which is checked. Published variables that have no effect
# are named when they are set.
# Further arguments are flags of `python -m wav2vec2.pretrain`, whose --help-all lists them.
# shellcheck source=scripts/wav2vec2/training.sh
source "$(dirname "${BASH_SOURCE[0]}")/training.sh"
pretrain configs/wav2vec2/pretrain_large.toml "$@"
