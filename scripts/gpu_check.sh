#!/usr/bin/env bash
# All GPU tests and benchmarks of the repository, in less than 40 minutes on an H100: bash scripts/gpu_check.sh [STEP...]
#   SPEECH_PYTHON=python3   an interpreter with a CUDA build of torch, in place of .venv
#   WHEELS=folder           where missing packages are installed from, on a machine without a network
#   OUT=folder              gets the rows that are measured here; benchmarks/results has them anyway
# A step that fails or outlasts its limit does not keep the others from running; the exit status is 1 then. At the end
# stands what passed, what is slower than its rival and what to report. What no test on a CPU can see is here alone:
# CUDA graphs, streams, pinned memory, fused optimisers, cuDNN, NCCL, our kernels, TF32 and the types of CUDA's autocast;
# the rest of what a device asks of code is tested anywhere, on the device of tests/device. The step trainings
# shows whether steps in fp16 wait, and trains vocoders with cuDNN's search. Only CUDA can show, and no step does: what
# that search gains (cudnn_benchmark), recognition's copies beside the next batch, FSDP in bf16 on two GPUs. Without a GPU it
# says so and exits with 0. Where a command may take ten minutes at most, four do it all, one right after the other,
# since the tests need what the first one builds:
#   bash scripts/gpu_check.sh build transducer_build attention_build memcheck racecheck optim features
#   bash scripts/gpu_check.sh tests ctc training quartznet
#   bash scripts/gpu_check.sh trainings
#   bash scripts/gpu_check.sh latency decoders fastpitch wav2vec2 wav2vec2_fp16 wav2vec2_large pretraining finetuning
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/help.sh"

if ! nvidia-smi -L >/dev/null 2>&1; then
  echo "gpu_check: no GPU here (nvidia-smi finds none): nothing to check"
  exit 0
fi
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$repository"

# Only test files that have GPU tests, so that the others' needs (librosa, espeak-ng) do not matter here.
mapfile -t gpu_tests < <(grep -rlE '(mark\.|")gpu\b' tests --include='test_*.py' | grep -v '^tests/device/' | sort)
jasper=configs/jasper/jasper10x5dr.toml
quartznet=configs/jasper/quartznet15x5.toml
latency="-m jasper.benchmark %s --device cuda --precisions fp16 bf16 --modes eager fused graph"
# The published settings: 6.54 s of audio; 8 sub-batches of 1.4 M samples (87.5 s) in pre-training, 3.2 M (200 s) in
# fine-tuning, as on one GPU of 80 GB.
wav2vec2="-m wav2vec2.benchmark configs/wav2vec2/%s.toml --device cuda --sides ours"
transcribing="--batch_sizes 1 16 --seconds 6.54 --warmup 5 --repeats 30"
shortenings="[2,(8,2),2] [2,(8,3),2] [2,(8,4),2] [2,(8,6),2]"

sanitizer="compute-sanitizer --error-exitcode 1 --target-processes all --tool"
kernels="-m pytest -q -m gpu tests/ctc/test_cuda.py tests/fastconformer/test_cuda.py tests/fastconformer/attention/test_cuda.py"

# name | limit in seconds | arguments of python, or a command of compute-sanitizer
steps=(
  "build|90|-m ctc.build --cuda present"
  "transducer_build|30|-m fastconformer.transducer.build --cuda present"
  "attention_build|15|-m fastconformer.attention.build --cuda present"
  "memcheck|180|$sanitizer memcheck $python $kernels"
  "racecheck|180|$sanitizer racecheck $python $kernels"
  "tests|240|-m pytest -m gpu ${gpu_tests[*]}"
  "trainings|544|-m pytest -m gpu tests/device/test_cuda.py"
  "ctc|200|-m benchmarks.ctc_cuda"
  "decoders|56|-m benchmarks.decoders_cuda"
  "optim|45|benchmarks/optim.py"
  "features|30|benchmarks/features.py"
  "training|90|-m jasper.benchmark $jasper --device cuda --task training --batch_sizes 64 --seconds 16.7 --precisions bf16 --grad_accumulation 1 --repeats 10"
  "latency|150|${latency/\%s/$jasper} --batch_sizes 1 2 4 8 16 --seconds 2 7 16.7"
  "quartznet|50|${latency/\%s/$quartznet} --batch_sizes 1 16 --seconds 2 16.7 --parts network"
  "fastpitch|150|-m fastpitch.benchmark --device cuda --precisions fp16 bf16 --modes eager graph --vocoders hifigan waveglow --batch_sizes 1 4 8"
  "wav2vec2|45|${wav2vec2/\%s/base} hourglass --precision bf16 $transcribing"
  "wav2vec2_fp16|35|${wav2vec2/\%s/base} hourglass --precision fp16 $transcribing"
  "wav2vec2_large|40|${wav2vec2/\%s/large} --precision bf16 $transcribing"
  "pretraining|70|${wav2vec2/\%s/base} hourglass --hourglass $shortenings --task pretraining --precision bf16 --batch_sizes 8 --concat_batches 8 --seconds 10.9 --warmup 2 --repeats 10"
  "finetuning|35|${wav2vec2/\%s/base} hourglass --task finetuning --precision bf16 --batch_sizes 16 --seconds 12.5 --warmup 2 --repeats 10"
)

check_python() {
  local needed=(numpy soundfile soxr tyro jiwer anyascii num2words tqdm pytest pytest-timeout hypothesis) missing
  missing="$("$python" -c '
import importlib.metadata as metadata, sys
def is_missing(name):
    try: metadata.version(name)
    except metadata.PackageNotFoundError: return True
print(*filter(is_missing, sys.argv[1:]))' "${needed[@]}")"
  if [ -n "$missing" ] && [ -n "${WHEELS:-}" ]; then
    # shellcheck disable=SC2086
    "$python" -m pip install -q --no-index --find-links "$WHEELS" $missing
  elif [ -n "$missing" ]; then
    echo "gpu_check: $python lacks $missing; install them, or where there is a network: pip download -d wheels $missing," >&2
    echo "gpu_check: and here: WHEELS=wheels bash scripts/gpu_check.sh" >&2
    exit 1
  fi
  "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || {
    echo "gpu_check: there is a GPU, but the torch of $python sees none; name another interpreter with SPEECH_PYTHON" >&2
    exit 1
  }
}

# count_rows: how many rows each results file has before anything is measured.
declare -A rows_before
count_rows() {
  local file
  for file in benchmarks/results/*.jsonl; do
    [ ! -e "$file" ] || rows_before[$file]=$(wc -l < "$file")
  done
}

# copy_rows: rows measured since, to $OUT; after every step, so that none is lost if the machine goes.
copy_rows() {
  [ -n "${OUT:-}" ] || return 0
  local file
  mkdir -p "$OUT"
  for file in benchmarks/results/*.jsonl; do
    [ -e "$file" ] && [ "$(wc -l < "$file")" -gt "${rows_before[$file]:-0}" ] || continue
    tail -n "+$((${rows_before[$file]:-0} + 1))" "$file" > "$OUT/${file##*/}"
  done
}

# compared [--published]: lines for rows measured here that are slower than what they are compared with, or beside published ones.
compared() {
  local file
  for file in benchmarks/results/*.jsonl; do
    [ ! -e "$file" ] || tail -n "+$((${rows_before[$file]:-0} + 1))" "$file"
  done | "$python" scripts/gpu_slow.py "$@" || true
}

# run_step NAME LIMIT ARGUMENTS: adds a line to the summary.
run_step() {
  local name="$1" limit="$2" start=$SECONDS status=0 verdict=ok command
  read -ra command <<< "$3"  # in words, none of which is a pattern for files: [2,(8,4),2]
  [ "${command[0]}" = compute-sanitizer ] || command=("$python" "${command[@]}")
  echo "gpu_check: $name (at most $limit s)"
  timeout --kill-after=5 "$limit" "${command[@]}" || status=$?
  case $status in
    0) ;;
    124 | 137) verdict="did not end in $limit s" ;;
    *) verdict="failed with status $status" ;;
  esac
  [ $status = 0 ] || failed=1
  summary+=("$(printf '%-14s %4d s  %s' "$name" $((SECONDS - start)) "$verdict")")
  copy_rows
}

check_python
count_rows
failed=0
summary=()
for step in "${steps[@]}"; do
  IFS='|' read -r name limit arguments <<< "$step"
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  run_step "$name" "$limit" "$arguments"
done
echo "gpu_check: docs/gpu_model.md says what A100, H100 and L4 should need, beside published times"
printf '%s\n' "gpu_check:" "${summary[@]}"
compared --published
slow="$(compared)"
[ -z "$slow" ] || printf '%s\n' "slower than what it is compared with:" "$slow"
if [ $failed = 1 ] || [ -n "$slow" ]; then
  echo "to report: the lines above, what the failed steps printed, the output of nvidia-smi, and $("$python" -c \
    'import torch; print(f"torch {torch.__version__}, CUDA {torch.version.cuda}")')"
fi
exit $failed
