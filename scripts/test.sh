#!/usr/bin/env bash
# All tests on this machine: bash scripts/test.sh [pytest arguments]. Sets itself up the first time.
set -euo pipefail
needs_tests=true
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$repository"
# What tests use is compiled before them: a first use would print a line, and take the time of some test.
for library in ctc common.convolution transducer; do
  "$python" -m "$library.build" > /dev/null || echo "test: no native code of $library; its tests are skipped or take torch" >&2
done
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
if [ $# -gt 0 ]; then
  exec "$python" -m pytest "$@"
fi
status=0
"$python" -m pytest || status=$?
"$python" -m pytest tests/device || status=$?  # a process of its own: see tests/conftest.py
exit $status
