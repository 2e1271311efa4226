#!/usr/bin/env bash
# Throughput of training steps for each number of GPUs in NUM_GPUS_SEQ, with the variables of both published versions of
# this script; what is not set keeps the value of the configuration or the default of `python -m jasper.benchmark --help`.
#   NUM_GPUS_SEQ="1 8" PRECISION=bf16 BATCH_SIZE_SEQ=64 MAX_DURATION=16.7 bash scripts/jasper/train_benchmark.sh
# Positional: DATA_DIR MODEL_CONFIG RESULT_DIR CREATE_LOGFILE CUDNN_BENCHMARK NUM_GPUS PRECISION NUM_STEPS MAX_DURATION
# SEED BATCH_SIZE LEARNING_RATE GRADIENT_ACCUMULATION_STEPS. ACC_BATCH_SIZE is QuartzNet's: the batch of a step on each of
# 8 GPUs, of which fewer take more, in turn with each accumulation of GRAD_ACC_SEQ. OUTPUT_DIR (RESULT_DIR) gets the rows,
# in place of benchmarks/results. Published variables that have no effect are named when they are set.
# shellcheck source=scripts/jasper/measuring.sh
source "$(dirname "${BASH_SOURCE[0]}")/measuring.sh"
set_from_positions DATA_DIR MODEL_CONFIG RESULT_DIR CREATE_LOGFILE CUDNN_BENCHMARK NUM_GPUS PRECISION NUM_STEPS \
  MAX_DURATION SEED BATCH_SIZE LEARNING_RATE GRADIENT_ACCUMULATION_STEPS -- "$@"
shift "$positions"

model_config
benchmark_flags
flag --optim.lr LEARNING_RATE
flag --ema EMA
without_effect "steps are counted" EPOCHS EPOCHS_THIS_JOB BENCHMARK_EPOCHS RESUME SAVE_FREQUENCY EVAL_FREQUENCY
without_effect "all steps have one length" PRE_ALLOCATE
: "${GRAD_ACC_SEQ:=${GRAD_ACCUMULATION_STEPS:-${GRADIENT_ACCUMULATION_STEPS:-${GRAD_ACCUMULATION:-}}}}"
for NUM_GPUS in ${NUM_GPUS_SEQ:-${NUM_GPUS:-1}}; do
  for accumulation in ${GRAD_ACC_SEQ:-""}; do
    more=()
    [ -z "${ACC_BATCH_SIZE:-}" ] || more+=(--batch_sizes $((ACC_BATCH_SIZE * 8 / NUM_GPUS)))
    [ -z "$accumulation" ] || more+=(--grad_accumulation "$accumulation")
    (launch jasper.benchmark "$config" --task training "${flags[@]}" "${more[@]}" "$@")
  done
done
