#!/usr/bin/env bash
# LibriSpeech (openslr.org/12): download, check, unpack and list it.
#   DATA_DIR   where it goes                                 (default /datasets/LibriSpeech; 60 GB in all)
#   SUBSETS    which of its parts, e.g. "dev-clean test-clean"         (default: all seven)
#   SPEEDS     copies at other speeds for offline perturbation, e.g. "0.9 1.1"   (default: none)
# Arguments are passed on: --from DIR takes archives that are there already; --help explains all.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

arguments=()
if [ -n "${DATA_DIR:-}" ]; then arguments+=(--data-dir "$DATA_DIR"); fi
if [ -n "${SUBSETS:-}" ]; then arguments+=(--subsets $SUBSETS); fi
if [ -n "${SPEEDS:-}" ]; then arguments+=(--speeds $SPEEDS); fi
exec "$python" "$repository/scripts/data/librispeech.py" ${arguments[@]+"${arguments[@]}"} "$@"
