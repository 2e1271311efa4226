#!/usr/bin/env bash
# Builds the C++ tests twice, for address + undefined behaviour and for threads, and runs them: sanitize.sh [lattices].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
lattices="${1:-300}"
for sanitizer in address thread; do
  "${PYTHON:-python3}" -m ctc.build --sanitize "$sanitizer"
  for program in ctc/_build/*_test_"$sanitizer"; do
    echo "$program"
    OMP_NUM_THREADS=2 "$program" "$lattices"
  done
done
