#!/usr/bin/env bash
# Says Mandarin with English inside, by a model of the symbol set english_mandarin_basic. Variables as of
# ../inference_example.sh; the published vocoder is WaveGlow.
#   FASTPITCH=output_sf/fastpitch_best.pt WAVEGLOW=waveglow.pt bash scripts/fastpitch/mandarin_chinese/inference.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../help.sh"
: "${FILELIST:=configs/fastpitch/phrases/mandarin.tsv}"
export FILELIST
exec bash "$(dirname "${BASH_SOURCE[0]}")/../inference_example.sh" "$@"
