#!/usr/bin/env bash
# Latency of the network, with the variables of the published script; what is not set keeps the default of
# `python -m wav2vec2.benchmark --help`.
#   BF16=true BATCH_SIZE_SEQ="1 4 8 16" MAX_DURATION=6.54 bash scripts/wav2vec2/inference_benchmark.sh --sides ours hourglass
# MODEL_CONFIG is the model, with random weights, on which speed does not depend; HOURGLASS_CONFIG the shortening of a
# second side. OUTPUT_DIR gets the rows, in place of benchmarks/results. Published variables that have no effect are named
# when they are set.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

[ "${CPU:-false}" != true ] || flags+=(--device cpu)
: "${BATCH_SIZE_SEQ:=${BATCH_SIZE:-}}"
list_flag --batch_sizes BATCH_SIZE_SEQ
flag --seconds MAX_DURATION
flag --repeats NUM_REPEATS
flag --warmup NUM_WARMUP_REPEATS
flag --hourglass HOURGLASS_CONFIG
flag --seed SEED
flag --results OUTPUT_DIR
precision_flag
without_effect "the audio is MAX_DURATION seconds of noise" DATASET_DIR VALID_SUBSET
without_effect "the weights are random, on which speed does not depend" FINETUNED_MODEL EMA
without_effect "nothing is masked" MASK_PROB MASK_CHANNEL_PROB
without_effect "rows are written in place of a log" LOG_FILE
without_effect "one process is measured" NUM_GPUS DISTRIBUTED
exec "$python" -m wav2vec2.benchmark "${MODEL_CONFIG:-configs/wav2vec2/base.toml}" --task inference "${flags[@]}" "$@"
