# Shared by inference.sh and evaluation.sh: what the variables of both published versions say of model and data.
# shellcheck shell=bash disable=SC2034
# shellcheck source=scripts/jasper/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
inputs=()

# set_from_published_positions NAME... -- VALUE...: the names are those of 2019; the version of 2021 has its own four.
set_from_published_positions() {
  local names=()
  while [ "$1" != -- ]; do names+=("$1"); shift; done
  shift
  case "${2:-}" in
    *.toml | *.yaml | *.yml) names=(DATA_DIR MODEL_CONFIG OUTPUT_DIR CHECKPOINT) ;;
  esac
  set_from_positions "${names[@]}" -- "$@"
}

# need_checkpoint: "none" and unset are the same in the published scripts.
need_checkpoint() {
  [ "${CHECKPOINT:-none}" = none ] || return 0
  echo "error: CHECKPOINT is not set; expected the file of a trained model" >&2
  exit 2
}

# dataset_input: DATASET in DATA_DIR, as a manifest (ours or the published JSON) or the LibriSpeech folder itself.
dataset_input() {
  published_folder DATA_DIR /datasets/LibriSpeech
  [ -n "${DATASET:-}" ] || return 0
  local path
  for path in "${DATA_DIR:-.}/librispeech-$DATASET"{.jsonl,-wav.json,.json} "${DATA_DIR:-.}/$DATASET"; do
    [ ! -e "$path" ] || break
  done
  inputs+=("$path")
}

# nothing_random: names the variables of the published scripts that change nothing here.
nothing_random() {
  without_effect "nothing is random" SEED
  without_effect "padding changes no result" PAD_LEADING PAD_TO_MAX_DURATION
  without_effect "data are read without DALI" DALI_DEVICE
  without_effect "lengths vary from batch to batch" CUDNN_BENCHMARK
  without_effect "everything is recognised once; see inference_benchmark.sh" NUM_STEPS NUM_WARMUP_STEPS
  without_effect "no log is written" LOG_FILE CREATE_LOGFILE
}

# common_flags: those that mean the same in both scripts.
common_flags() {
  if [ -n "${MODEL_CONFIG:-}" ]; then
    model_config
    flags+=(--config "$config")
  fi
  [ "${CPU:-false}" != true ] || flags+=(--device cpu)
  flag --batch_size BATCH_SIZE
  flag --max_seconds MAX_DURATION
  flag --ema EMA
  precision_flag
}
