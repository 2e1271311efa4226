#!/usr/bin/env bash
# Trains FastPitch on the bilingual corpus that prepare_dataset.sh of this folder lists, from an English model, with the
# variables of ../train.sh. The published run has AMP off: half precision was unstable.
#   DATASET_PATH=data/SF_bilingual CHECKPOINT=FastPitch.pt NUM_GPUS=8 bash scripts/fastpitch/mandarin_chinese/train.sh
set -euo pipefail
: "${DATASET_PATH:=data/SF_bilingual}" "${LOAD_PITCH_FROM_DISK:=true}"
: "${FASTPITCH_CONFIG:=configs/fastpitch/mandarin.toml}"
export DATASET_PATH LOAD_PITCH_FROM_DISK FASTPITCH_CONFIG
exec bash "$(dirname "${BASH_SOURCE[0]}")/../train.sh" "$@"
