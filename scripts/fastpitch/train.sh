#!/usr/bin/env bash
# Trains FastPitch on LJSpeech, with the variables of the published script; what is not set keeps the value of the
# configuration (FASTPITCH_CONFIG).
#   NUM_GPUS=8 BATCH_SIZE=32 GRAD_ACCUMULATION=1 DATASET_PATH=/data/LJSpeech-1.1 bash scripts/fastpitch/train.sh
# The batch of a step is NUM_GPUS * BATCH_SIZE * GRAD_ACCUMULATION, as published; the learning rate is made for 256.
# LOAD_PITCH_FROM_DISK and LOAD_MEL_FROM_DISK read DATASET_PATH/pitch and /mels (scripts/fastpitch/prepare_dataset.sh);
# without the former, pitch is extracted once and kept in PITCH_ONLINE_DIR. Without effect, because the log is always
# written: LOG_FILE; extra flags come last, in place of ARGS, which is passed on too.
# shellcheck source=scripts/jasper/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../jasper/common.sh"

flag --data.root DATASET_PATH DATA_DIR
list_flag --data.train TRAIN_FILELIST
list_flag --data.validation VAL_FILELIST
flag --output_dir OUTPUT_DIR
flag --epochs EPOCHS
flag --save_every_epochs EPOCHS_PER_CHECKPOINT
if [ -n "${GRAD_ACCUMULATION:-}" ]; then
  BATCH_SIZE=$((${BATCH_SIZE:-16} * GRAD_ACCUMULATION))
fi
flag --batch_size BATCH_SIZE
flag --grad_accumulation GRAD_ACCUMULATION
flag --optim.lr LEARNING_RATE
flag --schedule.warmup WARMUP_STEPS
flag --loss.binarisation_warmup_epochs KL_LOSS_WARMUP
flag --model.uses_energy ENERGY
flag --model.speakers NSPEAKERS
flag --text.cleaners TEXT_CLEANERS
flag --text.append_space APPEND_SPACES
flag --pitch.method PITCH_ONLINE_METHOD
flag --seed SEED
path_flag --checkpoint CHECKPOINT
case "${PHONE:-}" in
  true) flags+=(--text.p_arpabet 1.0) ;;
  false) flags+=(--text.p_arpabet 0.0) ;;
esac
case "${SAMPLING_RATE:-}" in
  "" | 22050) ;;
  44100)
    flags+=(--features.sample_rate 44100 --features.n_fft 2048 --features.window_samples 2048)
    flags+=(--features.hop_samples 512 --features.highest_hz 22050 --pitch.sample_rate 44100 --pitch.hop_samples 512)
    ;;
  *)
    echo "SAMPLING_RATE=$SAMPLING_RATE: expected 22050 or 44100; other rates by flags: --features.sample_rate …" >&2
    exit 2
    ;;
esac
root="${DATASET_PATH:-${DATA_DIR:-.}}"
if [ "${LOAD_PITCH_FROM_DISK:-false}" = true ]; then flags+=(--data.pitch_dir "$root/pitch")
else flag --data.pitch_dir PITCH_ONLINE_DIR
fi
[ "${LOAD_MEL_FROM_DISK:-false}" != true ] || flags+=(--data.mel_dir "$root/mels")
precision_flag
# shellcheck disable=SC2086
launch fastpitch.train "${FASTPITCH_CONFIG:-configs/fastpitch/fastpitch.toml}" "${flags[@]}" ${ARGS:-} "$@"
