#!/usr/bin/env bash
# Extracts pitch and mel frames of LJSpeech, or of any corpus in its layout, beside its recordings, as published.
#   DATA_DIR=/datasets/LJSpeech-1.1 bash scripts/fastpitch/prepare_dataset.sh
#   DATA_DIR    the corpus folder                                                 (default LJSpeech-1.1)
#   FILELISTS   what to prepare, e.g. "filelists/mine.txt", relative to DATA_DIR     (default: all of it)
#   NUM_WORKERS processes                                                         (default: one per CPU)
# Published arguments: --extract-mels (ARGS) writes mel frames, which is the default; ARGS="" leaves them out.
# Further arguments are flags of `python -m fastpitch.prepare`: --pitch.method pyin for the published extractor.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
DATA_DIR="${DATA_DIR:-LJSpeech-1.1}"
inputs=()
for list in ${FILELISTS:-}; do inputs+=("$DATA_DIR/$list"); done
[ ${#inputs[@]} -gt 0 ] || inputs+=("$DATA_DIR")

case "${ARGS---extract-mels}" in
  *--extract-mels*) ;;
  *) flags+=(--mels false) ;;
esac
flag --workers NUM_WORKERS
exec "$python" -m fastpitch.prepare "${inputs[@]}" --root "$DATA_DIR" --output "$DATA_DIR" "${flags[@]}" "$@"
