#!/usr/bin/env bash
# Tests on this machine. Sets itself up the first time.
#   bash scripts/test.sh                          all of them, as CI does: a process per core and one more, each with one thread
#   bash scripts/test.sh -m "not slow"            the quick ones, likewise; other arguments of pytest work as well
#   bash scripts/test.sh tests/common -k audio    what is named, in one process
#   NIGHTLY=1                                     with those marked nightly
#   PROCESSES=1                                   number of processes at once (default: one more than cores, at most 8)
set -euo pipefail
needs_tests=true
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$repository"
# What tests use is compiled before them: a first use would print a line, take the time of some test, and be done once
# in every process.
for library in ctc common.convolution fastconformer.transducer fastconformer.attention; do
  { "$python" -m "$library.build" > /dev/null ||
    echo "test: no native code of $library; its tests are skipped or take torch" >&2; } &
done
wait
for argument in "$@"; do
  if [ -e "${argument%%::*}" ]; then
    export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
    exec "$python" -m pytest "$@"
  fi
done
# Cores that this process may use: nproc obeys OMP_NUM_THREADS, and not all versions know the quota of a container.
processes="$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)"
read -r quota period 2>/dev/null < /sys/fs/cgroup/cpu.max || quota=max
if [ "$quota" != max ] && [ $((quota / period)) -lt "$processes" ]; then processes=$((quota < period ? 1 : quota / period)); fi
# One more than cores: tests of servers, signals and other processes wait for a sixth of their time.
[ "$processes" = 1 ] || processes=$((processes + 1))
[ "$processes" -le 8 ] || processes=8
processes="${PROCESSES:-$processes}"
parallel=(-n "$processes" --dist worksteal)
if [ "$processes" = 1 ]; then
  parallel=()
elif ! "$python" -c 'import xdist' 2>/dev/null; then
  parallel=()
  echo "test: one process, since $python has no pytest-xdist" >&2
fi
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
# Those of the stand-in device are a process of their own (see tests/conftest.py), beside the others where there is room.
told="$(mktemp)"
trap 'rm -f "$told"' EXIT
"$python" -m pytest tests/device "$@" > "$told" 2>&1 &
device=$!
status=0 of_device=0
[ "$processes" -gt 1 ] || wait "$device" || of_device=$?
"$python" -m pytest "${parallel[@]}" "$@" || status=$?
[ "$processes" = 1 ] || wait "$device" || of_device=$?
cat "$told"
# What is asked for may be among the one or the other alone: 5 says that nothing was.
[ "$of_device" != 5 ] || of_device=$status
[ "$status" != 5 ] || status=$of_device
exit $((status > of_device ? status : of_device))
