# Shared by the scripts that train: published variables become flags, and only those that are set.
# shellcheck shell=bash disable=SC2034
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"  # loaders of several processes would fight for the cores otherwise

# training_flags: those that mean the same in pre-training and fine-tuning.
training_flags() {
  flag --data.root DATASET_DIR
  list_flag --data.train TRAIN_SUBSET
  list_flag --data.validation VALID_SUBSET
  flag --output_dir OUTPUT_DIR
  flag --data.max_tokens MAX_TOKENS
  flag --data.max_tokens_valid MAX_TOKENS_VALID MAX_TOKENS
  flag --data.workers NUM_WORKERS
  flag --concat_batches NUM_CONCAT_BATCHES
  flag --update_freq UPDATE_FREQ
  flag --max_updates MAX_UPDATE
  flag --epochs_this_job EPOCHS_THIS_JOB
  flag --optim.lr LEARNING_RATE
  flag --mask.time_prob MASK_PROB
  flag --learning.layer_drop ENCODER_LAYERDROP LAYERDROP
  flag --ema EMA
  flag --seed SEED
  flag --every.save_epochs SAVE_FREQUENCY
  [ "${NO_SAVE:-false}" != true ] || flags+=(--save false)
  precision_flag
  [ "${OPTIMIZER:-adam}" = adam ] || without_effect "the optimiser is Adam, as published" OPTIMIZER
  without_effect "lengths vary from batch to batch" CUDNN_BENCHMARK
  without_effect "autocast decides what is computed in float32" FP32_TRANSFORMER_LAYERNORM FP32_MHA_SOFTMAX \
    FP32_COSINE_SIM FP32_POS_CONV FP32_CONV_NORMS
}

# split_flags VALUE --FLAG…: the words of VALUE are values of the flags, in order.
split_flags() {
  local value="$1" flag words
  shift
  [ -n "$value" ] || return 0
  read -r -a words <<< "$value"
  if [ "${#words[@]}" -ne $# ]; then
    echo "error: found '$value'; expected $# numbers, for $*" >&2
    exit 2
  fi
  for flag in "$@"; do
    flags+=("$flag" "${words[0]}")
    words=("${words[@]:1}")
  done
}

# pretrain CONFIG ARGUMENT…
pretrain() {
  training_flags
  flag --data.min_samples MIN_SAMPLE_SIZE
  flag --data.max_samples MAX_SAMPLE_SIZE
  flag --schedule.warmup WARMUP_UPDATES
  split_flags "${LOSS_WEIGHTS:-}" --objective.diversity --objective.penalty
  split_flags "${LATENT_TEMP:-}" --temperature.start --temperature.end --temperature.decay
  flag --model.normalize_audio NORMALIZE
  flag --model.pre_norm LAYER_NORM_FIRST
  flag --model.conv_bias CONV_BIAS
  flag --model.final_dim FINAL_DIM
  flag --model.layers ENCODER_LAYERS
  flag --model.dim ENCODER_EMBED_DIM
  flag --model.ffn_dim ENCODER_FFN_EMBED_DIM
  flag --model.heads ENCODER_ATTENTION_HEADS
  case "${EXTRACTOR_MODE:-}" in
    "") ;;
    default) flags+=(--model.extractor_norm group) ;;
    layer_norm) flags+=(--model.extractor_norm layer) ;;
    *) echo "error: EXTRACTOR_MODE is $EXTRACTOR_MODE; expected default or layer_norm" >&2; exit 2 ;;
  esac
  # Empty is the Transformer without an hourglass, and differs from unset.
  [ -z "${HOURGLASS_CONFIG+set}" ] || flags+=(--model.hourglass "$HOURGLASS_CONFIG")
  flag --learning.input_dropout DROPOUT_INPUT
  flag --learning.feature_dropout DROPOUT_FEATURES
  flag --learning.dropout DROPOUT
  flag --learning.attention_dropout ATTENTION_DROPOUT
  flag --learning.extractor_gradient FEATURE_GRAD_MULT
  train wav2vec2.pretrain "$1" "${flags[@]}" "${@:2}"
}

# finetune CONFIG ARGUMENT…
finetune() {
  training_flags
  flag --pretrained PRETRAINED_MODEL  # None: random weights
  flag --freeze_updates FREEZE_FINETUNE_UPDATES
  flag --data.batch_size BATCH_SIZE
  flag --mask.channel_prob MASK_CHANNEL_PROB
  if [ -n "${WARMUP_UPDATES:-}${HOLD_UPDATES:-}" ]; then
    # The configurations have a tenth and four tenths of all updates.
    if [ -z "${MAX_UPDATE:-}" ] && { [ -z "${WARMUP_UPDATES:-}" ] || [ -z "${HOLD_UPDATES:-}" ]; }; then
      echo "error: of WARMUP_UPDATES and HOLD_UPDATES one is set; set both, or MAX_UPDATE too" >&2
      exit 2
    fi
    flags+=(--schedule.unit steps
      --schedule.warmup "${WARMUP_UPDATES:-$((${MAX_UPDATE:-0} / 10))}"
      --schedule.hold "${HOLD_UPDATES:-$((${MAX_UPDATE:-0} * 4 / 10))}")
  fi
  train wav2vec2.finetune "$1" "${flags[@]}" "${@:2}"
}

# training_benchmark NAME SCRIPT ARGUMENT…: trains by SCRIPT without saving, then counts the epochs after warm-up.
training_benchmark() {
  : "${OUTPUT_DIR:=runs/wav2vec2_$1_benchmark}"
  EPOCHS_THIS_JOB=$((${NUM_WARMUP_EPOCHS:-2} + ${NUM_EPOCHS:-5}))
  NO_SAVE=true
  export OUTPUT_DIR EPOCHS_THIS_JOB NO_SAVE
  bash "$repository/scripts/wav2vec2/$2.sh" "${@:3}"
  flag --skip_epochs NUM_WARMUP_EPOCHS
  exec "$python" -m wav2vec2.benchmark.throughput "$OUTPUT_DIR" "${flags[@]}"
}
