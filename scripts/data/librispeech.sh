#!/usr/bin/env bash
# LibriSpeech (openslr.org/12): download, check, unpack and list it.
#   DATA_DIR=/datasets/LibriSpeech SUBSETS="dev-clean test-clean" bash scripts/data/librispeech.sh
#   DATA_DIR   folder of the corpus                          (default: /datasets/LibriSpeech; 60 GB in all)
#   SUBSETS    parts of the corpus, e.g. "dev-clean test-clean"                      (default: all seven)
#   SPEEDS     speeds of additional copies for offline perturbation, e.g. "0.9 1.1"  (default: none)
#   --from DIR takes archives from DIR in place of downloading them
#   --url URL  another server to download from
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

arguments=()
if [ -n "${DATA_DIR:-}" ]; then arguments+=(--data-dir "$DATA_DIR"); fi
if [ -n "${SUBSETS:-}" ]; then arguments+=(--subsets $SUBSETS); fi
if [ -n "${SPEEDS:-}" ]; then arguments+=(--speeds $SPEEDS); fi
exec "$python" "$repository/scripts/data/librispeech.py" ${arguments[@]+"${arguments[@]}"} "$@"
