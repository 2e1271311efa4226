#!/usr/bin/env bash
# Seconds of audio per second in pretrain_base, with the variables of the published script: NUM_WARMUP_EPOCHS are trained
# and left out, NUM_EPOCHS counted; nothing is saved. Everything else is as for pretrain_base.sh.
#   NUM_GPUS=8 BF16=true OUTPUT_DIR=runs/benchmark bash scripts/wav2vec2/pretrain_base_benchmark.sh
# shellcheck source=scripts/wav2vec2/training.sh
source "$(dirname "${BASH_SOURCE[0]}")/training.sh"
training_benchmark pretrain_base pretrain_base "$@"
