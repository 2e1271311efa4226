#!/usr/bin/env bash
# Transcribes recordings, folders or manifests; what is not set keeps the default of `python -m fastconformer.inference --help`.
#   CHECKPOINT=parakeet.nemo bash scripts/fastconformer/inference.sh a.flac b.wav --format json
# Variables: CHECKPOINT PRECISION BATCH_SIZE MAX_DURATION HEAD EMA DATA_DIR PREDICTION_FILE.
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
path_flag --output PREDICTION_FILE
precision_flag
exec "$python" -m fastconformer.inference "${flags[@]}" "$CHECKPOINT" "$@"
