#!/usr/bin/env bash
# bash scripts/train.sh MODEL …, and its siblings that link here: runs the script of the same name in scripts/MODEL/.
set -euo pipefail
here="$(dirname "${BASH_SOURCE[0]}")"
name="$(basename "$0")"
model="${1:-}"
if [ ! -f "$here/$model/$name" ] || [ -z "$model" ]; then
  models="$(cd "$here" && ls ./*/"$name" | sed "s#^\./##; s#/.*##" | paste -sd' ')"
  echo "usage: bash scripts/$name MODEL [ARGUMENT…]; models: $models" >&2
  exit 2
fi
shift
exec bash "$here/$model/$name" "$@"
