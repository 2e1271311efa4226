#!/usr/bin/env bash
# Transcribes a data set, or anything named after "--", with the variables of the published script; what is not set
# keeps the default of `python -m wav2vec2.inference --help`.
#   DATASET_DIR=/datasets/LibriSpeech VALID_SUBSET=test-other FINETUNED_MODEL=wav2vec2_best.pt bash scripts/wav2vec2/inference.sh
#   FINETUNED_MODEL=wav2vec2_best.pt bash scripts/wav2vec2/inference.sh -- a.flac b.wav --format json
# VALID_SUBSET is a Fairseq list (.tsv; with its .ltr beside it the word error rate is printed too), a manifest (.jsonl)
# or a folder in DATASET_DIR. LOGITS_FILE is a folder with one file per recording; LABELS_PATH is a dict.ltr.txt. EMA
# other than 0 takes the averaged weights. Published variables that have no effect are named when they are set.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
[ "${1:-}" != -- ] || shift

if [ "${FINETUNED_MODEL:-none}" = none ]; then
  echo "error: FINETUNED_MODEL is not set; expected the file or the Hugging Face folder of a fine-tuned model" >&2
  exit 2
fi
inputs=()
if [ -n "${VALID_SUBSET:-}" ]; then
  for path in "${DATASET_DIR:-.}/$VALID_SUBSET"{.tsv,.jsonl,}; do
    [ ! -e "$path" ] || break
  done
  inputs+=("$path")
  [ -z "${OUTPUT_DIR:-}" ] || : "${PREDICTION_FILE:=$OUTPUT_DIR/$VALID_SUBSET.predictions}"
fi
[ "${CPU:-false}" != true ] || flags+=(--device cpu)
flag --batch_size BATCH_SIZE
flag --max_seconds MAX_DURATION
path_flag --labels LABELS_PATH
case "${EMA:-}" in
  "" | 0 | 0.0) ;;
  true | false) flags+=(--ema "$EMA") ;;
  *) flags+=(--ema true) ;;
esac
precision_flag
path_flag --output PREDICTION_FILE
path_flag --save_logits LOGITS_FILE
without_effect "nothing is random or masked" SEED MASK_PROB MASK_CHANNEL_PROB
without_effect "lengths vary from batch to batch" CUDNN_BENCHMARK
without_effect "everything is recognised once; see inference_benchmark.sh and --timings" NUM_STEPS NUM_WARMUP_STEPS
without_effect "no script is made of the network" TORCHSCRIPT TORCHSCRIPT_SAVE
without_effect "no log is written" LOG_FILE
launch wav2vec2.inference "$FINETUNED_MODEL" "${inputs[@]}" "${flags[@]}" "$@"
