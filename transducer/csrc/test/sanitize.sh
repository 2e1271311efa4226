#!/usr/bin/env bash
# Builds the C++ tests twice, for address + undefined behaviour and for threads, and runs them: sanitize.sh [problems].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
problems="${1:-300}"
for sanitizer in address thread; do
  "${PYTHON:-python3}" -m transducer.build --sanitize "$sanitizer"
  for program in transducer/_build/*_test_"$sanitizer"; do
    echo "$program"
    OMP_NUM_THREADS=2 "$program" "$problems"
  done
done
