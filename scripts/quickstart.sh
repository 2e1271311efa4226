#!/usr/bin/env bash
# From nothing to a speech recogniser: builds a corpus of synthetic speech, trains a small Jasper on it, shows what it
# understands of voices and sentences it never heard, and leaves runs/quickstart/report.html.
# The second time it goes on where it stopped, or shows the finished run again; --fresh trains anew, --help tells all.
#   QUICKSTART_SIZE   "toy" for a try of the machinery in seconds, which learns nothing   (default: full)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$repository"

arguments=()
if [ -n "${QUICKSTART_SIZE:-}" ]; then arguments+=(--size "$QUICKSTART_SIZE"); fi
"$python" scripts/quickstart.py ${arguments[@]+"${arguments[@]}"} "$@"
case " $* " in
  *" --help "* | *" -h "*) ;;
  *) echo "In all   $((SECONDS / 60)) min $((SECONDS % 60)) s" ;;
esac
