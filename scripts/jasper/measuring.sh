# Shared by inference_benchmark.sh and train_benchmark.sh: what the published variables say of a measurement.
# shellcheck shell=bash disable=SC2034
# shellcheck source=scripts/jasper/dataset.sh
source "$(dirname "${BASH_SOURCE[0]}")/dataset.sh"

# benchmark_flags: those that mean the same in both scripts; NUM_STEPS of 0 or -1 is the published "all of the data".
benchmark_flags() {
  : "${BATCH_SIZE_SEQ:=${BATCH_SIZE:-}}" "${MAX_DURATION_SEQ:=${MAX_DURATION:-}}"
  list_flag --batch_sizes BATCH_SIZE_SEQ
  list_flag --seconds MAX_DURATION_SEQ
  case "${NUM_STEPS:-}" in 0 | -1) ;; *) flag --repeats NUM_STEPS ;; esac
  flag --warmup NUM_WARMUP_STEPS
  flag --cudnn_benchmark CUDNN_BENCHMARK
  flag --seed SEED
  flag --results OUTPUT_DIR RESULT_DIR
  [ "${CPU:-false}" != true ] || flags+=(--device cpu)
  precision_flag
  without_effect "the audio is noise of MAX_DURATION seconds" DATA_DIR DATASET TRAIN_MANIFESTS PAD_TO_MAX_DURATION \
    PAD_LEADING DALI_DEVICE
  without_effect "rows are written in place of a log" LOG_FILE CREATE_LOGFILE
}
