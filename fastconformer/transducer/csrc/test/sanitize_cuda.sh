#!/usr/bin/env bash
# On a GPU: random lattices through the kernels, first many as they are, then a few under compute-sanitizer.
# bash fastconformer/transducer/csrc/test/sanitize_cuda.sh [tool of compute-sanitizer, default memcheck] [lattices for it, default 20]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../../.."
tool="${1:-memcheck}"
program="fastconformer/transducer/_build/cuda_lattices"
mkdir -p fastconformer/transducer/_build
nvcc -arch=native -std=c++17 -O2 -lineinfo --fmad=false -x cu -Ifastconformer/transducer/include -Ifastconformer/transducer/csrc -Ictc/include \
  -Ictc/csrc -Xcompiler -Wall fastconformer/transducer/csrc/test/cuda_lattices.cpp -o "$program"
"$program" 1000
compute-sanitizer --tool "$tool" --error-exitcode 1 "$program" "${2:-20}"
