#!/usr/bin/env bash
# Makes .venv in the repository and installs what requirements.txt names, at the versions of constraints.txt; where the
# script that sources this sets `needs_tests`, what requirements-dev.txt names too. The second time it only compares a
# checksum. In a container that brings its own CUDA build of torch (NGC), set SPEECH_PYTHON=python to use that interpreter
# as it is.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/help.sh"
unset PYTHONDONTWRITEBYTECODE  # packages come without bytecode: each process would compile torch anew
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# checksum FILE...: of what an installation of these requirements depends on.
checksum() {
  local native
  native="$(find ctc common fastconformer -type f \( -path '*/csrc/*' -o -path '*/include/*' -o -path 'ctc/native/*.py' \) |
    LC_ALL=C sort)"
  # shellcheck disable=SC2086
  cat "$@" constraints.txt pyproject.toml scripts/setup.sh $native | cksum
}

# setting NAME: the values that pip was told of NAME, one a line: by the environment, else by its files.
setting() {
  local told section
  told="$(.venv/bin/pip config list 2>/dev/null)"
  for section in :env: install global; do
    sed -n "s/^$section\.$1='\(.*\)'\$/\1/p" <<< "$told"
  done | sed -n '1{s/\\n/ /g;p;}' | tr -s ' ' '\n' | sed '/^$/d'
}

# tell_uv VARIABLE VALUE: unless it is set, or there is nothing to tell.
tell_uv() {
  if [ -n "$2" ] && [ -z "${!1:-}" ]; then export "$1=$2"; fi
}

# fetch_with_uv REQUIREMENT...: uv unpacks packages side by side, and takes a tenth of the time of pip, whose settings it
# does not read: it is told of them.
fetch_with_uv() {
  local uv=.venv/bin/uv
  command -v uv >/dev/null && uv=uv
  [ "$uv" = uv ] || [ -x $uv ] || .venv/bin/pip install -q --retries 1 uv 2>/dev/null || return 1
  tell_uv UV_FIND_LINKS "$(setting find-links | paste -sd , -)"
  tell_uv UV_DEFAULT_INDEX "$(setting index-url)"
  tell_uv UV_EXTRA_INDEX_URL "$(setting extra-index-url | { grep '^http' || true; } | paste -sd ' ' -)"
  tell_uv UV_INSECURE_HOST "$(setting trusted-host | paste -sd ' ' -)"
  tell_uv SSL_CERT_FILE "$(setting cert)"
  tell_uv ALL_PROXY "$(setting proxy)"
  "$uv" pip install -q --python .venv/bin/python "$@" -c constraints.txt 2>/dev/null
}

# fetch TORCH REQUIREMENT...: of a build of torch for CPUs alone, `torch==N+cpu`, from wherever it can be had.
fetch() {
  local torch="$1" cpu=https://download.pytorch.org/whl/cpu
  if fetch_with_uv "$@" || { [ "$torch" != torch ] && fetch_with_uv "$@" --torch-backend cpu; }; then return; fi
  shift
  .venv/bin/pip install -q "$torch" -c constraints.txt 2>/dev/null || .venv/bin/pip install -q "$torch" --index-url $cpu ||
    return  # where a caller's `&&` keeps an error from ending this, the next line would bring a build with CUDA
  .venv/bin/pip install -q "$@" -c constraints.txt
}

# install FILE...: the packages that these requirements name, and the native code of which a newcomer has use; that of
# other packages is compiled when it is first used.
install() {
  local python torch=torch file names=() builds=()
  for python in python3.13 python3.12 python3.11 python3 python none; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
  done
  [ "$python" != none ] || { echo "setup: Python 3.11 or newer is needed; none is on the PATH" >&2; exit 1; }
  echo "setup: installing into .venv (once; a few minutes)" >&2
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1  # Python compiles what is imported, when it is
  # Without a GPU the default wheel would bring gigabytes of CUDA: take the CPU build, which is its own version.
  if [ ! -e .venv/lib/python3*/site-packages/torch ] && ! nvidia-smi >/dev/null 2>&1 && [ "$(uname)" = Linux ]; then
    torch="$(grep '^torch==' constraints.txt)+cpu"
  fi
  for file in "$@"; do names+=(-r "$file"); done
  fetch "$torch" "${names[@]}"
  # What `pip install -e .` does, without building anything.
  pwd > "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/speech-models.pth"
  printf '#!%s\nfrom speech.__main__ import main\n\nmain()\n' "$PWD/.venv/bin/python" > .venv/bin/speech
  chmod +x .venv/bin/speech
  for file in ctc.build common.convolution.build; do
    PYTHONPATH=. .venv/bin/python -m $file >&2 &
    builds+=($!)
  done
  for file in "${builds[@]}"; do
    wait "$file" || echo "setup: native code was not compiled; slower paths in torch serve instead" >&2
  done
}

setup() (
  cd "$repository"
  local files=(requirements.txt) mark=.venv/.installed
  if [ -n "${needs_tests:-}" ]; then files+=(requirements-dev.txt) mark=.venv/.installed-for-tests; fi
  if [ "$(cat $mark 2>/dev/null)" != "$(checksum "${files[@]}")" ]; then
    install "${files[@]}"
    if [ -n "${needs_tests:-}" ]; then  # alone: it wants numpy 1, which only its clients need
      .venv/bin/pip install -q --no-deps nvidia-pytriton -c constraints.txt ||
        echo "setup: no Triton; its tests are skipped" >&2
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
