#!/usr/bin/env bash
#SBATCH --job-name=transcribe
#SBATCH --array=1-8
#SBATCH --cpus-per-task=4
#SBATCH --requeue
# Transcribes a manifest in the jobs of a Slurm array, each its share; a job that was killed begins again, one that is done
# does nothing. FAMILY is jasper, wav2vec2 or fastconformer, or trt.run for an ONNX file of trt.export.
#
#   sbatch --array=1-8 scripts/bulk/slurm_array.sh jasper jasper_best.pt test.jsonl all.jsonl
#   SHARDS=8 sbatch --array=3,5 scripts/bulk/slurm_array.sh jasper jasper_best.pt test.jsonl all.jsonl   # two of them again
#   bash scripts/bulk/slurm_array.sh merge jasper jasper_best.pt test.jsonl all.jsonl     # when all jobs are done
set -euo pipefail
case " $* " in
  *" --help "* | *" -h "*) awk 'NR >= 6 && /^#/ { sub(/^# ?/, ""); print }' "$0"; exit 0 ;; # help.sh is not beside Slurm's copy
esac
if [ $# -lt 4 ]; then
  echo "usage: slurm_array.sh [merge] FAMILY CHECKPOINT INPUT OUTPUT [flags]; found $# words" >&2
  exit 2
fi
cd "${SLURM_SUBMIT_DIR:-.}"
share=(--shard "${SLURM_ARRAY_TASK_ID:-1}/${SHARDS:-${SLURM_ARRAY_TASK_COUNT:-1}}")
if [ "$1" = merge ]; then share=(--merge); shift; fi
module="$1.inference"
if [ "$1" = trt.run ]; then module=trt.run; fi
exec "${SPEECH_PYTHON:-python}" -m "$module" "$2" "$3" --format json --output "$4" "${@:5}" "${share[@]}"
