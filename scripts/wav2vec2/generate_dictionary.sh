#!/usr/bin/env bash
# A dict.ltr.txt of the letters of .ltr files, beside the first of them or in OUTPUT_DIR.
#   bash scripts/wav2vec2/generate_dictionary.sh train.ltr other.ltr
# Further arguments are flags of `python -m wav2vec2.filelists`, whose --help-all lists them.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
flag --output OUTPUT_DIR
exec "$python" -m wav2vec2.filelists --dictionary "$@" "${flags[@]}"
