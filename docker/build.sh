#!/usr/bin/env bash
# Builds the image: bash docker/build.sh [cpu|gpu] [arguments of docker build]. Without a word: gpu where there is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kind="${1:-}"
if [ "$kind" = cpu ] || [ "$kind" = gpu ]; then shift; else kind=cpu; nvidia-smi >/dev/null 2>&1 && kind=gpu; fi
file=docker/Dockerfile
[ "$kind" = gpu ] || file=docker/Dockerfile.cpu
exec "${DOCKER:-docker}" build . -f "$file" -t "speech-models:$kind" "$@"
