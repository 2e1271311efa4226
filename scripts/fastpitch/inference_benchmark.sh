#!/usr/bin/env bash
# Latency and real-time factor of FastPitch and of vocoders after it, with the variables of the published script; what is
# not set keeps the default of `python -m fastpitch.benchmark --help`.
#   AMP=true BS_SEQUENCE="1 4 8" HIFIGAN=hifigan.pt bash scripts/fastpitch/inference_benchmark.sh
# FASTPITCH, HIFIGAN and WAVEGLOW are optional: speed does not depend on the weights. MODES="eager compiled graph" measures
# several. OUTPUT_DIR gets the rows, in place of benchmarks/results. Published variables that have no effect are named when
# they are set.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

vocoders=(${VOCODER:+"$VOCODER"} ${HIFIGAN:+"$HIFIGAN"} ${WAVEGLOW:+"$WAVEGLOW"})
path_flag --fastpitch FASTPITCH
[ ${#vocoders[@]} = 0 ] || flags+=(--vocoders "${vocoders[@]}")
: "${BS_SEQUENCE:=${BATCH_SIZE:-}}"
list_flag --batch_sizes BS_SEQUENCE
list_flag --modes MODES
flag --repeats REPEATS
flag --warmup WARMUP
flag --denoising DENOISING
flag --sigma SIGMA
flag --cudnn_benchmark CUDNN_BENCHMARK
flag --results OUTPUT_DIR
[ "${CPU:-false}" != true ] || flags+=(--device cpu)
if [ -n "${PRECISION:-}" ]; then flags+=(--precisions "$PRECISION")
elif [ "${BF16:-false}" = true ]; then flags+=(--precisions bf16)
elif [ "${AMP:-false}" = true ] || [ "${FP16:-false}" = true ]; then flags+=(--precisions fp16)
fi
without_effect "128 symbols and 8.05 s are measured" FILELIST PHONE
without_effect "no script is made of the network; see MODES" TORCHSCRIPT
without_effect "one process is measured" NUM_GPUS DISTRIBUTED
without_effect "rows are written in place of a log" LOG_FILE
exec "$python" -m fastpitch.benchmark "${flags[@]}" "$@"
