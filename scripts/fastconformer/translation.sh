#!/usr/bin/env bash
# From nothing to a model that transcribes English and German and translates English into German: speaks a corpus with
# espeak-ng, trains an attention decoder beside CTC, and prints its scores on sentences and voices that it never heard.
#   bash scripts/fastconformer/translation.sh
#   --size toy      the same steps in seconds, to see that they work; the model learns nothing   (default: full)
#   --only corpus   the corpus alone;  --only scores   the scores of the best checkpoint so far
#   --data_dir DIR, --run_dir DIR   folders for the corpus and for the run                      (default: data, runs)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
cd "$repository"
exec "$python" scripts/fastconformer/translation.py "$@"
