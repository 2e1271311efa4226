#!/usr/bin/env bash
# Trains a FastConformer with TDT and CTC heads; what is not set keeps the value of the configuration.
#   NUM_GPUS=8 PRECISION=bf16 DATA_DIR=/datasets/LibriSpeech bash scripts/fastconformer/train.sh --data.train train-clean-100
# Variables: DATA_DIR MODEL_CONFIG OUTPUT_DIR CHECKPOINT NUM_GPUS PRECISION EPOCHS SEED BATCH_SIZE LEARNING_RATE EMA
# TRAIN_MANIFESTS VAL_MANIFESTS MAX_DURATION RESUME. CHECKPOINT is a model to start from: ours, .nemo, or a folder.
# Further arguments are flags of `python -m fastconformer.train`, whose --help-all lists them.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

flag --data.root DATA_DIR
flag --output_dir OUTPUT_DIR
path_flag --checkpoint CHECKPOINT
flag --epochs EPOCHS
flag --seed SEED
flag --batch_size BATCH_SIZE
flag --optim.lr LEARNING_RATE
flag --ema EMA
flag --data.max_seconds MAX_DURATION
flag --resume RESUME
list_flag --data.train TRAIN_MANIFESTS
list_flag --data.validation VAL_MANIFESTS
precision_flag
launch fastconformer.train "${MODEL_CONFIG:-configs/fastconformer/fastconformer_tiny.toml}" "${flags[@]}" "$@"
