#!/usr/bin/env bash
# Error rates on manifests or corpus folders; what is not set keeps the default of `python -m fastconformer.evaluation --help`.
#   CHECKPOINT=parakeet.nemo NUM_GPUS=8 bash scripts/fastconformer/evaluation.sh /datasets/LibriSpeech/test-other
# Variables: CHECKPOINT NUM_GPUS PRECISION BATCH_SIZE MAX_DURATION HEAD EMA DATA_DIR PREDICTION_FILE.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

if [ "${CHECKPOINT:-none}" = none ]; then
  echo "error: CHECKPOINT is not set; expected a trained model: ours, .nemo, or a folder" >&2
  exit 2
fi
flag --root DATA_DIR
flag --batch_size BATCH_SIZE
flag --max_seconds MAX_DURATION
flag --head HEAD
flag --ema EMA
path_flag --hypotheses PREDICTION_FILE
precision_flag
launch fastconformer.evaluation "${flags[@]}" "$CHECKPOINT" "$@"
