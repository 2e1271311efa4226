#!/usr/bin/env bash
# Makes .venv in the repository and installs what requirements.txt names, at the versions of constraints.txt; where the
# script that sources this sets `needs_tests`, what requirements-dev.txt names too. The second time it only compares a
# checksum. In a container that brings its own CUDA build of torch (NGC), set SPEECH_PYTHON=python to use that interpreter
# as it is.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/help.sh"
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# checksum FILE...: of what an installation of these requirements depends on.
checksum() {
  local native
  native="$(find ctc common transducer -type f \( -path '*/csrc/*' -o -path '*/include/*' -o -path 'ctc/native/*.py' \) |
    LC_ALL=C sort)"
  # shellcheck disable=SC2086
  cat "$@" constraints.txt pyproject.toml scripts/setup.sh $native | cksum
}

# install FILE...: the packages that these requirements name; the native code of ctc is compiled while they are fetched,
# that of other packages when it is first used.
install() {
  local python torch file names=()
  for python in python3.14 python3.13 python3.12 python3.11 python3 python none; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
  done
  [ "$python" != none ] || { echo "setup: Python 3.11 or newer is needed; none is on the PATH" >&2; exit 1; }
  echo "setup: installing into .venv (once; a few minutes)" >&2
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1  # Python compiles what is imported, when it is
  # Without a GPU the default wheel would bring gigabytes of CUDA: take the CPU build, which is its own version.
  if ! .venv/bin/python -c 'import torch' 2>/dev/null && ! nvidia-smi >/dev/null 2>&1 && [ "$(uname)" = Linux ]; then
    torch="$(grep '^torch==' constraints.txt)+cpu"
    .venv/bin/pip install -q "$torch" numpy -c constraints.txt 2>/dev/null ||
      .venv/bin/pip install -q "$torch" --index-url https://download.pytorch.org/whl/cpu
  fi
  .venv/bin/pip install -q torch numpy -c constraints.txt
  PYTHONPATH=. .venv/bin/python -m ctc.build >&2 &
  for file in "$@"; do names+=(-r "$file"); done
  .venv/bin/pip install -q "${names[@]}" -c constraints.txt
  # What `pip install -e .` does, without building anything.
  pwd > "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/speech-models.pth"
  wait $! || echo "setup: no native code; slower paths in torch serve instead" >&2
}

setup() (
  cd "$repository"
  local files=(requirements.txt) mark=.venv/.installed
  if [ -n "${needs_tests:-}" ]; then files+=(requirements-dev.txt) mark=.venv/.installed-for-tests; fi
  if [ "$(cat $mark 2>/dev/null)" != "$(checksum "${files[@]}")" ]; then
    install "${files[@]}"
    if [ -n "${needs_tests:-}" ]; then  # alone: it wants numpy 1, which only its clients need
      .venv/bin/pip install -q --no-deps nvidia-pytriton || echo "setup: no Triton; its tests are skipped" >&2
    fi
    checksum requirements.txt > .venv/.installed
    checksum "${files[@]}" > $mark
  fi
)

if [ -n "${SPEECH_PYTHON:-}" ]; then
  python="$SPEECH_PYTHON"
else
  setup
  python="$repository/.venv/bin/python"
fi
export PYTHONPATH="$repository${PYTHONPATH:+:$PYTHONPATH}"
