#!/usr/bin/env bash
# Trains FastPitch on LJSpeech, with the variables of the published script; what is not set keeps the value of the
# configuration (FASTPITCH_CONFIG, configs/fastpitch/fastpitch.toml).
#   NUM_GPUS=8 BATCH_SIZE=16 AMP=true DATASET_PATH=LJSpeech-1.1 OUTPUT_DIR=./output bash scripts/fastpitch/train.sh
# The batch of a step is NUM_GPUS * BATCH_SIZE * GRAD_ACCUMULATION, as published, of which 8, 16 and 2 are the values of
# those that are not set; the learning rate is made for 256. NUM_GPUS is at most the number of GPUs here.
# ARGS holds further flags. Published variables that have no effect are named when they are set.
# Further arguments are flags of `python -m fastpitch.train`, whose --help-all lists them.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

[ -n "${DATA_DIR:-}" ] || published_folder DATASET_PATH LJSpeech-1.1
flag --data.root DATASET_PATH DATA_DIR
list_flag --data.train TRAIN_FILELIST
list_flag --data.validation VAL_FILELIST
flag --output_dir OUTPUT_DIR
path_flag --checkpoint CHECKPOINT
flag --epochs EPOCHS
flag --epochs_this_job EPOCHS_THIS_JOB
flag --every.save_epochs EPOCHS_PER_CHECKPOINT
if [ -n "${BATCH_SIZE:-}${GRAD_ACCUMULATION:-}" ]; then
  : "${GRAD_ACCUMULATION:=2}"
  BATCH_SIZE=$((${BATCH_SIZE:-16} * GRAD_ACCUMULATION))
fi
flag --batch_size BATCH_SIZE
flag --grad_accumulation GRAD_ACCUMULATION
flag --optim.lr LEARNING_RATE
flag --schedule.warmup WARMUP_STEPS
flag --loss.binarisation_warmup_epochs KL_LOSS_WARMUP
flag --seed SEED
flag --resume RESUME
flag --model.uses_energy ENERGY
flag --model.speakers NSPEAKERS
flag --text.symbol_set SYMBOL_SET
flag --text.cleaners TEXT_CLEANERS
case "${PHONE:-}" in
  true) flags+=(--text.p_arpabet 1.0) ;;
  false) flags+=(--text.p_arpabet 0.0) ;;
esac
if [ "${APPEND_SPACES:-false}" = true ]; then
  flags+=(--text.prepend_space true --text.append_space true)
fi
# What is on disk lies beside the recordings; what is not there is extracted and, for pitch, kept.
folder="${DATASET_PATH:-${DATA_DIR:-LJSpeech-1.1}}"
if [ -n "${PITCH_ONLINE_DIR:-}" ]; then
  flags+=(--data.pitch_dir "$PITCH_ONLINE_DIR")
elif [ "${LOAD_PITCH_FROM_DISK:-false}" = true ]; then
  flags+=(--data.pitch_dir "$folder/pitch")
fi
if [ "${LOAD_MEL_FROM_DISK:-false}" = true ]; then
  flags+=(--data.mel_dir "$folder/mels")
fi
flag --pitch.method PITCH_ONLINE_METHOD
case "${SAMPLING_RATE:-22050}" in
  22050) ;;
  44100)
    flags+=(--features.sample_rate 44100 --features.n_fft 2048 --features.window_samples 2048
      --features.hop_samples 512 --features.highest_hz 22050 --pitch.sample_rate 44100 --pitch.hop_samples 512)
    ;;
  *) echo "error: SAMPLING_RATE is $SAMPLING_RATE; expected 22050 or 44100, or give --features and --pitch" >&2; exit 2 ;;
esac
precision_flag
without_effect "the log is always written" LOG_FILE
# shellcheck disable=SC2086
train fastpitch.train "${FASTPITCH_CONFIG:-configs/fastpitch/fastpitch.toml}" "${flags[@]}" ${ARGS:-} "$@"
