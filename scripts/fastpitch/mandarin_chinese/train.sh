#!/usr/bin/env bash
# Trains FastPitch on SF_bilingual, as published in full precision and from the weights of an English model where there
# is one (CHECKPOINT). Variables as of ../train.sh.
#   CHECKPOINT=nvidia_fastpitch_210824.pt bash scripts/fastpitch/mandarin_chinese/train.sh
set -euo pipefail
: "${DATASET_PATH:=data/SF_bilingual}"
: "${TRAIN_FILELIST:=filelists/sf_audio_pitch_text_train.txt}"
: "${VAL_FILELIST:=filelists/sf_audio_pitch_text_val.txt}"
: "${OUTPUT_DIR:=output_sf}"
: "${SYMBOL_SET:=english_mandarin_basic}"
export DATASET_PATH TRAIN_FILELIST VAL_FILELIST OUTPUT_DIR SYMBOL_SET
exec bash "$(dirname "${BASH_SOURCE[0]}")/../train.sh" "$@"
