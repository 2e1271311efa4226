#!/usr/bin/env bash
# Transcribes a LibriSpeech set, or anything named after "--", with the variables of both published versions of this
# script; what is not set keeps the default of `python -m jasper.inference --help`.
#   DATA_DIR=/datasets/LibriSpeech DATASET=dev-clean CHECKPOINT=jasper.pt bash scripts/jasper/inference.sh
#   CHECKPOINT=jasper.pt bash scripts/jasper/inference.sh -- a.flac b.wav --format json
# Positional, 2019: DATA_DIR DATASET MODEL_CONFIG RESULT_DIR CHECKPOINT CREATE_LOGFILE CUDNN_BENCHMARK PRECISION
# NUM_STEPS SEED BATCH_SIZE MODELOUTPUT_FILE PREDICTION_FILE; 2021: DATA_DIR MODEL_CONFIG OUTPUT_DIR CHECKPOINT.
# LOGITS_FILE (MODELOUTPUT_FILE) is a folder with one file per recording. Published variables that have no effect are named
# when they are set.
# shellcheck source=scripts/jasper/dataset.sh
source "$(dirname "${BASH_SOURCE[0]}")/dataset.sh"
set_from_published_positions DATA_DIR DATASET MODEL_CONFIG RESULT_DIR CHECKPOINT CREATE_LOGFILE CUDNN_BENCHMARK \
  PRECISION NUM_STEPS SEED BATCH_SIZE MODELOUTPUT_FILE PREDICTION_FILE -- "$@"
shift "$positions"
[ "${1:-}" != -- ] || shift

need_checkpoint
dataset_input
common_flags
folder="${OUTPUT_DIR:-${RESULT_DIR:-}}"
[ -z "$folder" ] || [ -z "${DATASET:-}" ] || : "${PREDICTION_FILE:=$folder/$DATASET.predictions}"
path_flag --output PREDICTION_FILE
path_flag --save_logits LOGITS_FILE
path_flag --save_logits MODELOUTPUT_FILE
nothing_random
without_effect "one process transcribes; see evaluation.sh" NUM_GPUS DISTRIBUTED
exec "$python" -m jasper.inference "$CHECKPOINT" "${inputs[@]}" "${flags[@]}" "$@"
