#!/usr/bin/env bash
# Builds the C++ tests of a package twice, for address + undefined behaviour and for threads, and runs them:
# sanitize.sh [problems] [package: ctc, fastconformer.transducer or common.convolution].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
problems="${1:-300}" package="${2:-ctc}"
for sanitizer in address thread; do
  "${PYTHON:-python3}" -m "$package.build" --sanitize "$sanitizer"
  for program in "${package//.//}"/_build/*_test_"$sanitizer"; do
    echo "$program"
    OMP_NUM_THREADS=2 "$program" "$problems"
  done
done
