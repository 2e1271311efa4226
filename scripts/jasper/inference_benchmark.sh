#!/usr/bin/env bash
# Latency of features, network and both, with the variables of both published versions of this script; what is not set
# keeps the default of `python -m jasper.benchmark --help`.
#   PRECISION=bf16 BATCH_SIZE_SEQ="1 8" MAX_DURATION_SEQ="2 16.7" bash scripts/jasper/inference_benchmark.sh
# Positional, 2019: DATA_DIR DATASET MODEL_CONFIG RESULT_DIR CHECKPOINT CREATE_LOGFILE CUDNN_BENCHMARK PRECISION
# NUM_STEPS MAX_DURATION SEED BATCH_SIZE; 2021: DATA_DIR MODEL_CONFIG OUTPUT_DIR CHECKPOINT. CHECKPOINT is optional:
# speed does not depend on the weights. OUTPUT_DIR gets the rows, in place of benchmarks/results. Published variables that
# have no effect are named when they are set.
# shellcheck source=scripts/jasper/measuring.sh
source "$(dirname "${BASH_SOURCE[0]}")/measuring.sh"
set_from_published_positions DATA_DIR DATASET MODEL_CONFIG RESULT_DIR CHECKPOINT CREATE_LOGFILE CUDNN_BENCHMARK \
  PRECISION NUM_STEPS MAX_DURATION SEED BATCH_SIZE -- "$@"
shift "$positions"

model_config
benchmark_flags
path_flag --checkpoint CHECKPOINT
without_effect "one process is measured" NUM_GPUS DISTRIBUTED
exec "$python" -m jasper.benchmark "$config" --task inference "${flags[@]}" "$@"
