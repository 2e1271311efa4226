#!/usr/bin/env bash
# LJSpeech (keithito.com/LJ-Speech-Dataset, public domain): download, check, unpack and list it.
#   DATA_DIR=/datasets bash scripts/data/ljspeech.sh
#   DATA_DIR   folder that gets the folder LJSpeech-1.1   (default: the current one; 3.8 GB, and 2.7 GB while unpacking)
#   --from DIR takes the archive from DIR in place of downloading it
#   --url URL  another server to download from
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

arguments=()
if [ -n "${DATA_DIR:-}" ]; then arguments+=(--data-dir "$DATA_DIR"); fi
exec "$python" "$repository/scripts/data/ljspeech.py" ${arguments[@]+"${arguments[@]}"} "$@"
