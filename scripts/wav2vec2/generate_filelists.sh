#!/usr/bin/env bash
# Fairseq's lists of LibriSpeech (.tsv, .ltr, dict.ltr.txt), also of the 1 h and 10 h subsets where Libri-light's
# librispeech_finetuning lies in DATASET_DIR; the subset of 100 h is train-clean-100.
#   DATASET_DIR=/datasets/LibriSpeech FILELISTS_DIR=/lists EXT=flac bash scripts/wav2vec2/generate_filelists.sh
# FILELISTS_DIR is DATASET_DIR unless it is set. SUBSETS names folders, all of them unless it is set.
# Further arguments are flags of `python -m wav2vec2.filelists`.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
if [ -z "${DATASET_DIR:-}" ] && [ $# -eq 0 ]; then
  echo "error: DATASET_DIR is not set; expected the folder of the corpus" >&2
  exit 2
fi
flag --output FILELISTS_DIR
list_flag --extension EXT
list_flag --subsets SUBSETS
exec "$python" -m wav2vec2.filelists ${DATASET_DIR:+"$DATASET_DIR"} "${flags[@]}" "$@"
