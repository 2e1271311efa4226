#!/usr/bin/env bash
# Seconds of audio per second in pretrain_base, with the variables of the published script: NUM_WARMUP_EPOCHS are trained
# and left out, NUM_EPOCHS counted; nothing is saved. Everything else is as for pretrain_base.sh.
#   NUM_GPUS=8 BF16=true OUTPUT_DIR=runs/benchmark bash scripts/wav2vec2/pretrain_base_benchmark.sh
here="$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=scripts/common.sh
source "$here/../common.sh"
: "${OUTPUT_DIR:=runs/wav2vec2_pretrain_base_benchmark}"
EPOCHS_THIS_JOB=$((${NUM_WARMUP_EPOCHS:-2} + ${NUM_EPOCHS:-5}))
NO_SAVE=true
export OUTPUT_DIR EPOCHS_THIS_JOB NO_SAVE
bash "$repository/scripts/wav2vec2/pretrain_base.sh" "$@"
flag --skip_epochs NUM_WARMUP_EPOCHS
exec "$python" -m wav2vec2.throughput "$OUTPUT_DIR" "${flags[@]}"
