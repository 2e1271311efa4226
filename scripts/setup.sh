#!/usr/bin/env bash
# Makes .venv in the repository and installs what requirements.txt names, at the versions of constraints.txt.
# Sourced by the other scripts; the second time it only compares a checksum. In a container that brings its own
# CUDA build of torch (NGC), set SPEECH_PYTHON=python to use that interpreter as it is.
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

setup() (
  cd "$repository"
  local wanted
  wanted="$(cat requirements.txt requirements-dev.txt constraints.txt pyproject.toml scripts/setup.sh \
    ctc/native/*.py ctc/include/* $(find ctc/csrc common/convolution/csrc -type f | LC_ALL=C sort) | cksum)"
  if [ "$(cat .venv/.installed 2>/dev/null)" != "$wanted" ]; then
    local python
    for python in python3.13 python3.12 python3.11 python3 python none; do
      "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
    done
    [ "$python" != none ] || { echo "setup: Python 3.11 or newer is needed; none is on the PATH" >&2; exit 1; }
    echo "setup: installing into .venv (once; a few minutes)" >&2
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1  # Python compiles what is imported, when it is
    # Without a GPU the default wheel would bring gigabytes of CUDA: take the CPU build, which is its own version.
    if ! .venv/bin/python -c 'import torch' 2>/dev/null && ! nvidia-smi >/dev/null 2>&1 && [ "$(uname)" = Linux ]; then
      local torch
      torch="$(grep '^torch==' constraints.txt)+cpu"
      .venv/bin/pip install -q "$torch" 2>/dev/null ||
        .venv/bin/pip install -q "$torch" --index-url https://download.pytorch.org/whl/cpu
    fi
    .venv/bin/pip install -q -r requirements.txt -r requirements-dev.txt -c constraints.txt
    .venv/bin/pip install -q --no-deps -e .
    { .venv/bin/python -m ctc.build && .venv/bin/python -m transducer.build &&
      .venv/bin/python -m common.convolution.build; } >&2 ||
      echo "setup: no native code; slower paths in torch serve instead" >&2
    echo "$wanted" > .venv/.installed
  fi
)

if [ -n "${SPEECH_PYTHON:-}" ]; then
  python="$SPEECH_PYTHON"
else
  setup
  python="$repository/.venv/bin/python"
fi
export PYTHONPATH="$repository${PYTHONPATH:+:$PYTHONPATH}"
