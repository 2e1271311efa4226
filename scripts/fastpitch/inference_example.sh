#!/usr/bin/env bash
# Says the phrases of a file, with the variables of the published script; what is not set keeps the default of
# `python -m fastpitch.inference --help`.
#   FASTPITCH=nvidia_fastpitch_210824.pt HIFIGAN=hifigan_gen_checkpoint_10000_ft.pt bash scripts/fastpitch/inference_example.sh
# FILELIST is configs/fastpitch/phrases/devset10.tsv by default, OUTPUT_DIR is named after it and the models, as published.
# REPORT=true adds report.html. MODE is eager, compiled or graph. VOCODER is any vocoder; HIFIGAN or WAVEGLOW will do.
# Published variables that have no effect are named when they are set.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

filelist="${FILELIST:-configs/fastpitch/phrases/devset10.tsv}"
if [ ! -e "$filelist" ] && [ -e "configs/fastpitch/phrases/$(basename "$filelist")" ]; then
  filelist="configs/fastpitch/phrases/$(basename "$filelist")"
fi
vocoder="${VOCODER:-${HIFIGAN:-${WAVEGLOW:-}}}"
if [ -z "${FASTPITCH:-}${vocoder}" ]; then
  echo "error: FASTPITCH and HIFIGAN (or WAVEGLOW, VOCODER) are not set; expected files of trained models" >&2
  exit 2
fi
[ -z "${FASTPITCH:-}" ] || flags+=(--fastpitch "$FASTPITCH")
[ -z "$vocoder" ] || flags+=(--vocoder "$vocoder")
precision=fp32
[ "${AMP:-false}" != true ] || precision=fp16
name="$(basename "${filelist%.*}")_${PRECISION:-$precision}"
[ -z "${FASTPITCH:-}" ] || name+=_fastpitch
[ -z "${HIFIGAN:-}" ] || name+=_hifigan
[ -z "${WAVEGLOW:-}" ] || name+=_waveglow
[ -z "${DENOISING:-}" ] || name+="_denoise-$DENOISING"
flags+=(--output "${OUTPUT_DIR:-output/audio_$name}")
flag --batch_size BATCH_SIZE
flag --speaker SPEAKER
flag --denoising DENOISING
flag --sigma SIGMA
flag --mode MODE
flag --seed SEED
case "${PHONE:-}" in
  true) flags+=(--p_arpabet 1.0) ;;
  false) flags+=(--p_arpabet 0.0) ;;
esac
[ "${REPORT:-false}" != true ] || flags+=(--report)
[ "${CPU:-false}" != true ] || flags+=(--device cpu)
precision_flag
without_effect "paths start from the phrase file" DATASET_DIR
without_effect "no script is made of the network; see MODE" TORCHSCRIPT
without_effect "lengths vary from batch to batch" CUDNN_BENCHMARK
without_effect "everything is said once; see inference_benchmark.sh" WARMUP REPEATS
without_effect "one process speaks" NUM_GPUS DISTRIBUTED
without_effect "no log is written" LOG_FILE
exec "$python" -m fastpitch.inference "$filelist" "${flags[@]}" "$@"
