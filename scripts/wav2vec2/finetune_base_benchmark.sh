#!/usr/bin/env bash
# Seconds of audio per second in finetune_base, with the variables of the published script: NUM_WARMUP_EPOCHS are trained
# and left out, NUM_EPOCHS counted; nothing is saved. Everything else is as for finetune_base_960h.sh.
#   NUM_GPUS=8 BF16=true OUTPUT_DIR=runs/benchmark bash scripts/wav2vec2/finetune_base_benchmark.sh
# shellcheck source=scripts/wav2vec2/training.sh
source "$(dirname "${BASH_SOURCE[0]}")/training.sh"
training_benchmark finetune_base finetune_base_960h "$@"
