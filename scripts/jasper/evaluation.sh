#!/usr/bin/env bash
# Error rates on a LibriSpeech set, or on manifests named after "--", with the variables of both published versions of
# this script; what is not set keeps the default of `python -m jasper.evaluation --help`.
#   DATA_DIR=/datasets/LibriSpeech DATASET=test-other CHECKPOINT=jasper.pt NUM_GPUS=8 bash scripts/jasper/evaluation.sh
# Positional, 2019: DATA_DIR DATASET MODEL_CONFIG RESULT_DIR CHECKPOINT CREATE_LOGFILE CUDNN_BENCHMARK NUM_GPUS PRECISION
# NUM_STEPS SEED BATCH_SIZE; 2021: DATA_DIR MODEL_CONFIG OUTPUT_DIR CHECKPOINT.
# Published variables that have no effect are named when they are set.
# shellcheck source=scripts/jasper/dataset.sh
source "$(dirname "${BASH_SOURCE[0]}")/dataset.sh"
set_from_published_positions DATA_DIR DATASET MODEL_CONFIG RESULT_DIR CHECKPOINT CREATE_LOGFILE CUDNN_BENCHMARK \
  NUM_GPUS PRECISION NUM_STEPS SEED BATCH_SIZE -- "$@"
shift "$positions"
[ "${1:-}" != -- ] || shift

need_checkpoint
dataset_input
common_flags
folder="${OUTPUT_DIR:-${RESULT_DIR:-}}"
[ -z "$folder" ] || [ -z "${DATASET:-}" ] || : "${PREDICTION_FILE:=$folder/$DATASET.jsonl}"
path_flag --hypotheses PREDICTION_FILE
nothing_random
launch jasper.evaluation "$CHECKPOINT" "${inputs[@]}" "${flags[@]}" "$@"
