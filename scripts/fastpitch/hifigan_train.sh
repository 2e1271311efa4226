#!/usr/bin/env bash
# Trains HiFi-GAN (or, with HIFIGAN_CONFIG, another vocoder of configs/hifigan) on LJSpeech, with the variables of the
# published train_lj22khz.sh; what is not set keeps the value of the configuration.
#   NUM_GPUS=8 BATCH_SIZE=16 AMP=true DATASET_PATH=/data/LJSpeech-1.1 bash scripts/fastpitch/hifigan_train.sh
# FINE_TUNE_DIR holds <clip>.npy or .pt, the mel spectrograms that FastPitch makes of each clip. The batch of a step is
# NUM_GPUS * BATCH_SIZE * GRAD_ACCUMULATION, as published. Published variables that have no effect are named when they
# are set.
# Further arguments are flags of `python -m fastpitch.vocoders.train`, whose --help-all lists them.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

[ -n "${DATASET_DIR:-}${DATA_DIR:-}" ] || published_folder DATASET_PATH LJSpeech-1.1
flag --data.root DATASET_PATH DATASET_DIR DATA_DIR
list_flag --data.train TRAIN_FILELIST
list_flag --data.validation VAL_FILELIST
flag --output_dir OUTPUT_DIR
flag --epochs EPOCHS
flag --epochs_this_job EPOCHS_THIS_JOB
if [ -n "${GRAD_ACCUMULATION:-}" ]; then
  BATCH_SIZE=$((${BATCH_SIZE:-16} * GRAD_ACCUMULATION))
fi
flag --batch_size BATCH_SIZE
flag --grad_accumulation GRAD_ACCUMULATION
flag --optim.lr LEARNING_RATE
flag --schedule.gamma LEARNING_RATE_DECAY
flag --every.validate_epochs VAL_INTERVAL
flag --samples_every_epochs SAMPLES_INTERVAL
flag --every.save_epochs CHECKPOINT_INTERVAL
flag --resume RESUME
flag --seed SEED
path_flag --data.mels FINE_TUNE_DIR
path_flag --checkpoint CHECKPOINT
path_flag --checkpoint_discriminators CHECKPOINT_DISCRIMINATORS
precision_flag
without_effect "the log is always written" LOG_FILE
without_effect "the log has all epochs" BMARK_EPOCHS_NUM
without_effect "fine-tuning begins anew: set LEARNING_RATE" FINE_TUNE_LR_FACTOR
train fastpitch.vocoders.train "${HIFIGAN_CONFIG:-configs/hifigan/v1.toml}" "${flags[@]}" "$@"
