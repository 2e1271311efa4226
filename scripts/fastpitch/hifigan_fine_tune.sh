#!/usr/bin/env bash
# Goes on training a vocoder on the mel spectrograms in FINE_TUNE_DIR, from the generator CHECKPOINT and, where the
# published files keep them apart, CHECKPOINT_DISCRIMINATORS. Variables as of hifigan_train.sh.
#   CHECKPOINT=hifigan_gen_checkpoint_6500.pt FINE_TUNE_DIR=mels-fastpitch bash scripts/fastpitch/hifigan_fine_tune.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../help.sh"
: "${CHECKPOINT:?the generator to start from}" "${FINE_TUNE_DIR:?the folder of mel spectrograms}"
: "${OUTPUT_DIR:=results/hifigan_tuned}"
export OUTPUT_DIR
exec bash "$(dirname "${BASH_SOURCE[0]}")/hifigan_train.sh" "$@"
