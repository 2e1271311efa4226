#!/usr/bin/env bash
# Throughput of training steps for each number of GPUs in NUM_GPUS_SEQ, with the variables of both published versions of
# this script; what is not set keeps the value of the configuration or the default of `python -m jasper.benchmark --help`.
#   NUM_GPUS_SEQ="1 8" PRECISION=bf16 BATCH_SIZE_SEQ=64 MAX_DURATION=16.7 bash scripts/jasper/train_benchmark.sh
# Positional: DATA_DIR MODEL_CONFIG RESULT_DIR CREATE_LOGFILE CUDNN_BENCHMARK NUM_GPUS PRECISION NUM_STEPS MAX_DURATION
# SEED BATCH_SIZE LEARNING_RATE GRADIENT_ACCUMULATION_STEPS. OUTPUT_DIR (RESULT_DIR) gets the rows, in place of
# benchmarks/results. Without effect, because the audio is noise of exactly MAX_DURATION seconds and steps are counted:
# DATA_DIR, TRAIN_MANIFESTS, EPOCHS, EPOCHS_THIS_JOB, PRE_ALLOCATE, DALI_DEVICE, RESUME, SAVE_FREQUENCY,
# EVAL_FREQUENCY, LOG_FILE, CREATE_LOGFILE.
# shellcheck source=scripts/jasper/measuring.sh
source "$(dirname "${BASH_SOURCE[0]}")/measuring.sh"
set_from_positions DATA_DIR MODEL_CONFIG RESULT_DIR CREATE_LOGFILE CUDNN_BENCHMARK NUM_GPUS PRECISION NUM_STEPS \
  MAX_DURATION SEED BATCH_SIZE LEARNING_RATE GRADIENT_ACCUMULATION_STEPS -- "$@"
shift "$positions"

benchmark_flags
flag --grad_accumulation GRAD_ACCUMULATION_STEPS GRADIENT_ACCUMULATION_STEPS GRAD_ACCUMULATION
flag --optim.lr LEARNING_RATE
flag --ema EMA
for NUM_GPUS in ${NUM_GPUS_SEQ:-${NUM_GPUS:-1}}; do
  (launch jasper.benchmark "$(model_config)" --task training "${flags[@]}" "$@")
done
