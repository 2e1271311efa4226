#!/usr/bin/env bash
# Trains Jasper or QuartzNet on LibriSpeech, with the variables of both published versions of this script; what is not
# set keeps the value of the configuration. Also positional: DATA_DIR MODEL_CONFIG OUTPUT_DIR CHECKPOINT.
#   NUM_GPUS=8 PRECISION=bf16 bash scripts/jasper/train.sh /datasets/LibriSpeech
# shellcheck source=scripts/jasper/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
set_from_positions DATA_DIR MODEL_CONFIG OUTPUT_DIR CHECKPOINT -- "$@"
shift "$positions"

flag --data.root DATA_DIR
flag --output_dir OUTPUT_DIR RESULT_DIR
path_flag --checkpoint CHECKPOINT
flag --epochs EPOCHS
flag --epochs_this_job EPOCHS_THIS_JOB
flag --steps NUM_STEPS
flag --seed SEED
flag --batch_size BATCH_SIZE GPU_BATCH_SIZE
flag --grad_accumulation GRAD_ACCUMULATION_STEPS GRADIENT_ACCUMULATION_STEPS GRAD_ACCUMULATION
flag --optim.lr LEARNING_RATE
flag --schedule.floor MIN_LEARNING_RATE
flag --schedule.gamma LR_EXP_GAMMA
flag --schedule.warmup WARMUP_EPOCHS
flag --schedule.hold HOLD_EPOCHS
flag --ema EMA
case "${LR_POLICY:-}" in
  "") ;;
  legacy) flags+=(--schedule.kind polynomial) ;;
  *) flags+=(--schedule.kind "$LR_POLICY") ;;
esac
flag --save_every_epochs SAVE_FREQUENCY
flag --evaluate_every EVAL_FREQUENCY
flag --data.max_seconds MAX_DURATION
flag --resume RESUME
flag --data.pad_to_max PAD_TO_MAX_DURATION
list_flag --data.train TRAIN_MANIFESTS
list_flag --data.validation VAL_MANIFESTS
precision_flag
launch jasper.train "$(model_config)" "${flags[@]}" "$@"
