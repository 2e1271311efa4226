#!/usr/bin/env bash
# Mel frames per second of training for each number of GPUs in NUM_GPUS_SEQUENCE, on real data, with the variables of
# the published script and of train.sh. The last line of each run, train avg, leaves out its first epoch.
#   NUM_GPUS_SEQUENCE="1 4 8" AMP=true EPOCHS=30 BATCH_SIZE=16 bash scripts/fastpitch/train_benchmark.sh
# Further arguments are those of train.sh.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../help.sh"
output="${OUTPUT_DIR:-./output}"
for NUM_GPUS in ${NUM_GPUS_SEQUENCE:-1 4 8}; do
  OUTPUT_DIR="$output/benchmark_${NUM_GPUS}_gpus" NUM_GPUS="$NUM_GPUS" EPOCHS="${EPOCHS:-30}" \
    bash "$(dirname "${BASH_SOURCE[0]}")/train.sh" --resume false --samples 0 "$@"
done
