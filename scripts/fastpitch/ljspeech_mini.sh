#!/usr/bin/env bash
# A voice of real recordings on one CPU core, in steps that go on where they were stopped: a light vocoder of 304 clips of
# LJSpeech by spectra alone, then against discriminators; FastPitch of the same clips with the durations that pocketsphinx
# finds (pip install pocketsphinx; without it FastPitch's own aligner learns them), then against a discriminator of mel
# frames, then its refiner of the lowest mel bins, then a small refiner that imitates that one; all in half precision,
# with checksums, where fastpitch.load("ljspeech-mini") finds them. Fifty clips are held out of everything: RUN_DIR/lists/unseen.txt, twenty of
# them in test.txt for copy synthesis.
#   DATA_DIR=LJSpeech-1.1 bash scripts/fastpitch/ljspeech_mini.sh
#   DATA_DIR  LJSpeech-1.1, or as much of it as has the first 354 clips             (default LJSpeech-1.1)
#   RUN_DIR   folder for file lists and runs                              (default runs/ljspeech-mini)
#   BUDGET    length of the trainings; 1 is that of the configurations, about an hour of a core     (default 1)
#   TUNE      epochs of the vocoder on FastPitch's own spectrograms, before they are packed         (default 0)
#   VOICES    folder for the voice            (default: the first of SPEECH_VOICES, or ~/.cache/speech-models/voices)
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
DATA_DIR="$(realpath -m "${DATA_DIR:-LJSpeech-1.1}")"
RUN_DIR="$(realpath -m "${RUN_DIR:-runs/ljspeech-mini}")"
BUDGET="${BUDGET:-1}"
lists="$RUN_DIR/lists"
"$python" scripts/fastpitch/ljspeech_mini.py "$DATA_DIR" "$lists"

times() { awk -v number="$1" -v by="$BUDGET" 'BEGIN { found = int(number * by + 0.5); print found < 1 ? 1 : found }'; }
data=(--data.root "$DATA_DIR" --data.train "$lists/train.txt" --data.validation "$lists/validation.txt")
vocoder() { "$python" -m fastpitch.vocoders.train "$@"; }
newest() { find "$1" -name "$2_step*.pt" | sort | tail -n 1 | grep . || { echo "error: $1: no checkpoint" >&2; exit 1; }; }

# The rate stays high until the discriminators come: the schedule spans three times the steps that are taken.
vocoder configs/hifigan/ljspeech_mini.toml "${data[@]}" --output-dir "$RUN_DIR/vocoder" \
  --epochs "$(times 60)" --steps "$(times 3040)"
taught="$RUN_DIR/vocoder/hifigan_best.pt"
[ -f "$taught" ] || taught="$(newest "$RUN_DIR/vocoder" hifigan)"  # of a budget that ends before the first validation
vocoder configs/hifigan/ljspeech_mini_adversarial.toml "${data[@]}" --output-dir "$RUN_DIR/vocoder-adversarial" \
  --epochs "$(times 26)" --checkpoint "$taught"
speech=("${data[@]}" --data.pitch-dir "$RUN_DIR/pitch")
if "$python" -c "import pocketsphinx" 2>/dev/null; then
  speech+=(--data.durations-dir "$RUN_DIR/durations" --data.on-error skip)  # it cannot align every clip
  "$python" -m fastpitch.align configs/fastpitch/ljspeech_mini_voice.toml "${speech[@]}" || true
fi
acoustic() { "$python" -m fastpitch.train "$@" "${speech[@]}"; }
acoustic configs/fastpitch/ljspeech_mini_voice.toml --output-dir "$RUN_DIR/fastpitch" --epochs "$(times 40)"
acoustic configs/fastpitch/ljspeech_mini_adversarial.toml --output-dir "$RUN_DIR/fastpitch-adversarial" \
  --epochs "$(times 16)" --checkpoint "$(newest "$RUN_DIR/fastpitch" fastpitch)"
acoustic configs/fastpitch/ljspeech_mini_refined.toml --output-dir "$RUN_DIR/fastpitch-refined" \
  --epochs "$(times 50)" --checkpoint "$(newest "$RUN_DIR/fastpitch-adversarial" fastpitch)"
refined="$(newest "$RUN_DIR/fastpitch-refined" fastpitch)"
acoustic configs/fastpitch/ljspeech_mini_small.toml --output-dir "$RUN_DIR/fastpitch-small" \
  --epochs "$(times 30)" --checkpoint "$refined" --teacher "$refined"
spectrograms="$(newest "$RUN_DIR/fastpitch-small" fastpitch)"
spoken="$RUN_DIR/vocoder-adversarial/hifigan_final.pt"
if [ "${TUNE:-0}" -gt 0 ]; then
  "$python" -m fastpitch.mels --checkpoint "$spectrograms" --root "$DATA_DIR" --output "$RUN_DIR/mels" --workers 0 \
    --sources "$lists/train.txt" "$lists/validation.txt" --pitch-dir "$RUN_DIR/pitch"
  adversarial="$(newest "$RUN_DIR/vocoder-adversarial" hifigan)"
  vocoder configs/hifigan/ljspeech_mini_tuned.toml "${data[@]}" --output-dir "$RUN_DIR/vocoder-tuned" \
    --epochs "$TUNE" --checkpoint "$adversarial" --data.mels "$RUN_DIR/mels"
  spoken="$RUN_DIR/vocoder-tuned/hifigan_final.pt"
fi
"$python" -m fastpitch.pack ljspeech-mini --corrections 16 --phases pulses ${VOICES:+--folder "$VOICES"} --fastpitch "$spectrograms" \
  --vocoder "$spoken"
