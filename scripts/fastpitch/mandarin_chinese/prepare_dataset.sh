#!/usr/bin/env bash
# Lists a Mandarin corpus and extracts its pitch and mel frames, beside its recordings.
#   bash scripts/fastpitch/mandarin_chinese/prepare_dataset.sh files.zip
# files.zip (or the SF_bilingual.zip in it) comes by hand, as its licence has it, from NGC: sf_bilingual_speech_zh_en.
#   DATA_DIR    SF_bilingual, or a folder that holds data_aishell/                   (default data/SF_bilingual)
#   NUM_WORKERS processes                                                           (default: one per CPU)
# Published arguments: --extract-mels (ARGS) writes mel frames, which is the default; ARGS="" leaves them out.
# Further arguments are flags of `python -m fastpitch.prepare`.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"
DATA_DIR="${DATA_DIR:-data/SF_bilingual}"
set_from_positions ARCHIVE -- "$@"
shift "$positions"

"$python" scripts/data/mandarin.py "$DATA_DIR" ${ARCHIVE:+"$ARCHIVE"}
case "${ARGS---extract-mels}" in
  *--extract-mels*) ;;
  *) flags+=(--mels false) ;;
esac
flag --workers NUM_WORKERS
exec "$python" -m fastpitch.prepare "$DATA_DIR"/filelists/*_audio_pitch_text_*.txt --root "$DATA_DIR" \
  --output "$DATA_DIR" --text.symbol_set english_mandarin_basic --resample true "${flags[@]}" "$@"
