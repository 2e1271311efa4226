#!/usr/bin/env bash
# LJSpeech (keithito.com/LJ-Speech-Dataset, public domain): download, check, unpack and list it.
#   DATA_DIR   the folder that LJSpeech-1.1 goes into     (default: where you are; 3.8 GB, and 2.7 GB while unpacking)
# Arguments are passed on: --from DIR takes an archive that is there already; --help explains all.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

arguments=()
if [ -n "${DATA_DIR:-}" ]; then arguments+=(--data-dir "$DATA_DIR"); fi
exec "$python" "$repository/scripts/data/ljspeech.py" ${arguments[@]+"${arguments[@]}"} "$@"
