#!/usr/bin/env bash
# Trains WaveGlow on LJSpeech; what is not set keeps the value of the configuration (WAVEGLOW_CONFIG).
#   NUM_GPUS=8 BATCH_SIZE=10 AMP=true DATASET_PATH=/data/LJSpeech-1.1 bash scripts/fastpitch/waveglow_train.sh
# Further arguments are flags of `python -m fastpitch.vocoders.train`, whose --help-all lists them.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

flag --data.root DATASET_PATH DATA_DIR
list_flag --data.train TRAIN_FILELIST
list_flag --data.validation VAL_FILELIST
flag --output_dir OUTPUT_DIR
flag --epochs EPOCHS
flag --epochs_this_job EPOCHS_THIS_JOB
flag --batch_size BATCH_SIZE
flag --grad_accumulation GRAD_ACCUMULATION
flag --optim.lr LEARNING_RATE
flag --clip_norm GRAD_CLIP_THRESH
flag --every.save_epochs CHECKPOINT_INTERVAL
flag --resume RESUME
flag --seed SEED
path_flag --checkpoint CHECKPOINT
precision_flag
train fastpitch.vocoders.train "${WAVEGLOW_CONFIG:-configs/waveglow/waveglow256.toml}" "${flags[@]}" "$@"
