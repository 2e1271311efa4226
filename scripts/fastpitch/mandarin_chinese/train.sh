#!/usr/bin/env bash
# Trains FastPitch on SF_bilingual, as published in full precision and from the weights of an English model where there
# is one (CHECKPOINT). Variables as of ../train.sh; the configuration is configs/fastpitch/mandarin.toml.
#   CHECKPOINT=nvidia_fastpitch_210824.pt bash scripts/fastpitch/mandarin_chinese/train.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../help.sh"
: "${FASTPITCH_CONFIG:=configs/fastpitch/mandarin.toml}" "${DATASET_PATH:=data/SF_bilingual}" "${OUTPUT_DIR:=output_sf}"
export FASTPITCH_CONFIG DATASET_PATH OUTPUT_DIR
exec bash "$(dirname "${BASH_SOURCE[0]}")/../train.sh" "$@"
