#!/usr/bin/env bash
# Runs the script of the same name for one model: bash scripts/train.sh MODEL [ARGUMENT…] is
# bash scripts/MODEL/train.sh [ARGUMENT…]. Likewise evaluation.sh, inference.sh, inference_benchmark.sh and
# train_benchmark.sh. Each script explains itself with --help: bash scripts/train.sh jasper --help. Models are the folders
# beside it: fastconformer, fastpitch, jasper, wav2vec2.
set -euo pipefail
here="$(dirname "${BASH_SOURCE[0]}")"
name="$(basename "$0")"
model="${1:-}"
if [ ! -f "$here/$model/$name" ] || [ -z "$model" ]; then
  source "$here/help.sh"
  models="$(cd "$here" && ls ./*/"$name" | sed "s#^\./##; s#/.*##" | paste -sd' ')"
  echo "usage: bash scripts/$name MODEL [ARGUMENT…]; models: $models" >&2
  exit 2
fi
shift
exec bash "$here/$model/$name" "$@"
