#!/usr/bin/env bash
# Builds the image for CPUs and starts its server, without a daemon and without a registry of images: as root on Debian,
# with its packages buildah and debootstrap. Arguments are those of buildah build.
#   bash docker/without_daemon.sh [--volume /etc/pip.conf:/etc/pip.conf:ro ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER="${STORAGE_DRIVER:-vfs}"
base=localhost/speech-models-base image=localhost/speech-models:cpu
for tool in buildah debootstrap; do
  command -v $tool >/dev/null || { echo "without_daemon: no $tool; apt-get install buildah debootstrap" >&2; exit 1; }
done

if ! buildah inspect --type image $base >/dev/null 2>&1; then
  folder="$(mktemp -d)"
  trap 'rm -rf "$folder"' EXIT
  debootstrap --variant=minbase bookworm "$folder" http://deb.debian.org/debian
  container="$(buildah from scratch)"
  buildah add -q "$container" "$folder" /
  buildah commit -q --rm "$container" $base
fi
buildah build --layers=false --build-arg BASE=$base --file docker/Dockerfile.cpu --tag $image "$@" .

container="$(buildah from --pull-never $image)"
trap 'buildah rm "$container" >/dev/null; rm -rf "${folder:-}"' EXIT
buildah run "$container" -- python -m trt.serve --help >/dev/null
buildah run "$container" -- python -m common.text 'It cost $5M.'
buildah run "$container" -- python -c 'import ctc, torch; print("torch", torch.__version__, "as user", __import__("os").getuid())'
echo "built: $image"
