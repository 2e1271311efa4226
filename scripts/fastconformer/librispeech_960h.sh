#!/usr/bin/env bash
# Trains FastConformer on the 960 hours of LibriSpeech, in NeMo's published sizes, with the heads that are named.
#   NUM_GPUS=8 SIZE=large HEADS=tdt_ctc DATA_DIR=/datasets/LibriSpeech bash scripts/fastconformer/librispeech_960h.sh
# Variables: SIZE (medium, large), HEADS (tdt_ctc, rnnt_ctc, tdt, rnnt, ctc), DATA_DIR OUTPUT_DIR NUM_GPUS PRECISION
# EPOCHS SEED BATCH_SECONDS GRAD_ACCUMULATION LEARNING_RATE TRAIN_MANIFESTS VAL_MANIFESTS RESUME. Further arguments are
# flags of `python -m fastconformer.train`: --dry_run true makes one step of the longest batch, and says whether it fits.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

heads="${HEADS:-tdt_ctc}"
case "$heads" in
  tdt_ctc | rnnt_ctc) flags+=(--model.transducer "${heads%_ctc}" --model.ctc true) ;;
  tdt | rnnt) flags+=(--model.transducer "$heads" --model.ctc false) ;;
  ctc) flags+=(--model.transducer none --model.ctc true) ;;
  *) echo "error: HEADS is $heads; expected tdt_ctc, rnnt_ctc, tdt, rnnt or ctc" >&2; exit 2 ;;
esac
flag --data.root DATA_DIR
flag --output_dir OUTPUT_DIR
flag --epochs EPOCHS
flag --seed SEED
flag --batch_seconds BATCH_SECONDS
flag --grad_accumulation GRAD_ACCUMULATION
flag --optim.lr LEARNING_RATE
flag --resume RESUME
list_flag --data.train TRAIN_MANIFESTS
list_flag --data.validation VAL_MANIFESTS
precision_flag
launch fastconformer.train "configs/fastconformer/librispeech_${SIZE:-large}.toml" "${flags[@]}" "$@"
