#!/usr/bin/env bash
# From nothing to a speech recogniser and a voice: builds corpora of synthetic speech; trains a small Jasper, a small
# FastPitch and a light vocoder on them, side by side; shows what the Jasper understands of voices and sentences that it
# never heard, and leaves runs/quickstart/report.html; lets it transcribe what the voice says, and leaves
# runs/quickstart-voice/report.html. The second time it goes on where it stopped, or shows the finished run again.
#   bash scripts/quickstart.sh
#   --fresh        deletes the run that is there and trains anew; the corpus stays
#   --skip-tts     leaves out the second half, the voice
#   --language de  does all of it in German                                                     (default: en)
#   --size toy     the same steps in seconds, to see that they work; the models learn nothing   (default: full)
#   --data-dir DIR, --run-dir DIR   folders for the corpus and for the runs                     (default: data, runs)
#   QUICKSTART_SIZE=toy             the same as --size toy
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$repository"

arguments=()
if [ -n "${QUICKSTART_SIZE:-}" ]; then arguments+=(--size "$QUICKSTART_SIZE"); fi
"$python" scripts/quickstart.py ${arguments[@]+"${arguments[@]}"} "$@"
echo "In all   $((SECONDS / 60)) min $((SECONDS % 60)) s"
