#!/usr/bin/env bash
# Runs a command in the image, or a shell: bash docker/run.sh [command …]. DATA_DIR, CHECKPOINT_DIR and RESULT_DIR are mounted
# at /datasets, /checkpoints and /results, as in the published images; KIND is cpu or gpu.
set -euo pipefail
kind="${KIND:-}"
if [ -z "$kind" ]; then kind=cpu; nvidia-smi >/dev/null 2>&1 && kind=gpu; fi
flags=(--rm --ipc=host --ulimit memlock=-1 --ulimit stack=67108864 -p 127.0.0.1:8000:8000)
[ "$kind" = cpu ] || flags+=(--gpus all)
[ ! -t 0 ] || flags+=(-it)
mount() { if [ -n "$1" ]; then flags+=(-v "$(realpath "$1"):$2"); fi; }
mount "${DATA_DIR:-}" /datasets
mount "${CHECKPOINT_DIR:-}" /checkpoints
mount "${RESULT_DIR:-}" /results
if [ $# -eq 0 ]; then set -- bash; fi
exec "${DOCKER:-docker}" run "${flags[@]}" "speech-models:$kind" "$@"
