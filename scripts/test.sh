#!/usr/bin/env bash
# All tests on this machine: bash scripts/test.sh [pytest arguments]. Sets itself up the first time.
set -euo pipefail
needs_tests=true
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$repository"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
"$python" -m pytest "$@"
