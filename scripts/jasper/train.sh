#!/usr/bin/env bash
# Trains Jasper or QuartzNet on LibriSpeech, with the variables of both published versions of this script; what is not
# set keeps the value of the configuration.
#   NUM_GPUS=8 PRECISION=bf16 bash scripts/jasper/train.sh /datasets/LibriSpeech
# Positional: DATA_DIR MODEL_CONFIG RESULT_DIR CHECKPOINT CREATE_LOGFILE CUDNN_BENCHMARK NUM_GPUS PRECISION EPOCHS SEED
# BATCH_SIZE LEARNING_RATE GRADIENT_ACCUMULATION_STEPS, of which 2021 has the first four. BATCH_SIZE is what a GPU sees in
# a step, as in Jasper's script; GPU_BATCH_SIZE is what it sees at once, GRAD_ACCUMULATION times a step, as in QuartzNet's.
# Published variables that have no effect are named when they are set.
# Further arguments are flags of `python -m jasper.train`, whose --help-all lists them.
# shellcheck source=scripts/jasper/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
set_from_positions DATA_DIR MODEL_CONFIG RESULT_DIR CHECKPOINT CREATE_LOGFILE CUDNN_BENCHMARK NUM_GPUS PRECISION \
  EPOCHS SEED BATCH_SIZE LEARNING_RATE GRADIENT_ACCUMULATION_STEPS -- "$@"
shift "$positions"

model_config
published_folder DATA_DIR /datasets/LibriSpeech
[ -n "${RESULT_DIR:-}" ] || published_folder OUTPUT_DIR /results
flag --data.root DATA_DIR
flag --output_dir OUTPUT_DIR RESULT_DIR
path_flag --checkpoint CHECKPOINT
flag --epochs EPOCHS
flag --epochs_this_job EPOCHS_THIS_JOB
[ "${NUM_STEPS:-}" = -1 ] || flag --steps NUM_STEPS
flag --seed SEED
if [ -n "${GPU_BATCH_SIZE:-}${GRAD_ACCUMULATION:-}" ] && [ -z "${BATCH_SIZE:-}" ]; then
  : "${GPU_BATCH_SIZE:=72}" "${GRAD_ACCUMULATION:=2}"
  BATCH_SIZE=$((GPU_BATCH_SIZE * GRAD_ACCUMULATION))
fi
flag --batch_size BATCH_SIZE
flag --grad_accumulation GRAD_ACCUMULATION_STEPS GRADIENT_ACCUMULATION_STEPS GRAD_ACCUMULATION
optimizer_flags
flag --optim.lr LEARNING_RATE
flag --schedule.floor MIN_LEARNING_RATE
flag --schedule.gamma LR_EXP_GAMMA
flag --schedule.warmup WARMUP_EPOCHS
flag --schedule.hold HOLD_EPOCHS
flag --ema EMA
case "${LR_POLICY:-}" in
  "") ;;
  legacy) flags+=(--schedule.kind polynomial) ;;
  *) flags+=(--schedule.kind "$LR_POLICY") ;;
esac
flag --every.save_epochs SAVE_FREQUENCY
flag --every.validate_steps EVAL_FREQUENCY
flag --prediction_frequency PREDICTION_FREQUENCY
flag --data.max_seconds MAX_DURATION
flag --resume RESUME
flag --data.pad_to_max PAD_TO_MAX_DURATION
list_flag --data.train TRAIN_MANIFESTS
list_flag --data.validation VAL_MANIFESTS
precision_flag
without_effect "the log is always written" CREATE_LOGFILE LOG_FILE
without_effect "lengths vary from batch to batch" CUDNN_BENCHMARK
without_effect "data are read without DALI" DALI_DEVICE
without_effect "see --dry_run" PRE_ALLOCATE
without_effect "there is one implementation" MULTI_TENSOR_EMA
without_effect "the log has all epochs" BENCHMARK_EPOCHS
[ -n "${OUTPUT_DIR:-${RESULT_DIR:-}}" ] ||
  echo "${0##*/}: OUTPUT_DIR is not set: the configuration's, in runs/; /results in the original, which is not here" >&2
train jasper.train "$config" "${flags[@]}" "$@"
