# Shared by the scripts of the models: published variables become flags, and only those that are set.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$repository"
flags=()
positions=0

# set_from_positions NAME... -- VALUE...: leading arguments that are no flags are values of the variables, in order;
# -1, the published "all steps", is no flag.
set_from_positions() {
  local names=()
  while [ "$1" != -- ]; do names+=("$1"); shift; done
  shift
  for name in "${names[@]}"; do
    [ $# -gt 0 ] && [[ "$1" != -* || "$1" == -[0-9]* ]] || return 0
    [ -z "$1" ] || printf -v "$name" %s "$1"
    positions=$((positions + 1))
    shift
  done
}

# flag --FLAG NAME...: passes the first of the variables that is set.
flag() {
  local flag="$1" name
  shift
  for name in "$@"; do
    if [ -n "${!name:-}" ]; then flags+=("$flag" "${!name}"); return 0; fi
  done
}

# path_flag: the same, where the published scripts write "none" for no file.
path_flag() {
  [ "${!2:-none}" = none ] || flags+=("$1" "${!2}")
}

# list_flag: a value with several names, separated by spaces or commas.
list_flag() {
  local value="${!2:-}"
  # shellcheck disable=SC2206
  [ -z "$value" ] || flags+=("$1" ${value//,/ })
}

# precision_flag: PRECISION as it is; AMP, BF16 and FP16 as the published scripts have them.
precision_flag() {
  if [ -n "${PRECISION:-}" ]; then flags+=(--precision "$PRECISION")
  elif [ "${BF16:-false}" = true ]; then flags+=(--precision bf16)
  elif [ "${AMP:-false}" = true ] || [ "${FP16:-false}" = true ]; then flags+=(--precision fp16)
  fi
}

# without_effect REASON NAME...: names those of the published variables that ask for something and do nothing here.
without_effect() {
  local reason="$1" name found=()
  shift
  for name in "$@"; do
    case "$name=${!name:-}" in
      *= | *=false | *=none | *=0 | *=-1 | NUM_GPUS=1) ;;
      *) found+=("$name=${!name}") ;;
    esac
  done
  [ ${#found[@]} = 0 ] || echo "${0##*/}: without effect: ${found[*]} ($reason)" >&2
}

# nodes: sets NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT: as they are, or by what srun says of its tasks.
nodes() {
  if [ -z "${NNODES:-}" ] && [ "${SLURM_STEP_NUM_NODES:-1}" -gt 1 ]; then
    if [ "${SLURM_STEP_NUM_TASKS:-}" != "$SLURM_STEP_NUM_NODES" ]; then
      echo "error: srun started ${SLURM_STEP_NUM_TASKS:-?} tasks on $SLURM_STEP_NUM_NODES nodes; expected one on each:" \
        "srun --ntasks-per-node 1" >&2
      exit 2
    fi
    NNODES="$SLURM_STEP_NUM_NODES"
    NODE_RANK="${NODE_RANK:-$SLURM_NODEID}"
    MASTER_ADDR="${MASTER_ADDR:-$(scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1)}"
    MASTER_PORT="${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}"
    NUM_GPUS="${NUM_GPUS:-${SLURM_GPUS_ON_NODE:-1}}"
  elif [ -z "${NNODES:-}" ] && [ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ]; then
    echo "${0##*/}: Slurm gave $SLURM_JOB_NUM_NODES nodes, of which this uses one; start it with" \
      "srun --ntasks-per-node 1 to use all" >&2
  fi
  [ "${NNODES:-1}" -gt 1 ] || return 0
  if [ -z "${NODE_RANK:-}" ] || [ -z "${MASTER_ADDR:-}" ]; then
    echo "error: NNODES is $NNODES; expected NODE_RANK (0 to $((NNODES - 1))) and MASTER_ADDR, the first node's name, too" >&2
    exit 2
  fi
}

# published_folder NAME PATH: where NAME is not set, the folder that the original has then, if it is there.
published_folder() {
  [ -n "${!1:-}" ] || [ ! -d "$2" ] || printf -v "$1" %s "$2"
}

# gpus: how many GPUs programs see here.
gpus() {
  if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then tr ',' '\n' <<< "$CUDA_VISIBLE_DEVICES" | grep -c . || true
  else { nvidia-smi --list-gpus 2>/dev/null || true; } | grep -c "^GPU" || true
  fi
}

# train MODULE ARGUMENT...: as launch; where NUM_GPUS is not set, the original takes 8 GPUs, and this as many of them as
# there are.
train() {
  if [ -z "${NUM_GPUS:-}${DISTRIBUTED:-}${NNODES:-}${SLURM_STEP_NUM_NODES:-}" ]; then
    NUM_GPUS="$(gpus)"
    NUM_GPUS=$((NUM_GPUS < 1 ? 1 : NUM_GPUS > 8 ? 8 : NUM_GPUS))
    [ "$NUM_GPUS" = 8 ] || echo "${0##*/}: NUM_GPUS is not set: $NUM_GPUS here, 8 in the original" >&2
  fi
  launch "$@"
}

# launch MODULE ARGUMENT...: one process, or by torchrun one per GPU of this node, and of NNODES nodes. DISTRIBUTED is the originals' launcher
# with its arguments; torch has it under another name now.
launch() {
  local module="$1"
  shift
  nodes
  local torchrun=()
  if [ -n "${DISTRIBUTED:-}" ]; then
    read -r -a torchrun <<< "${DISTRIBUTED//torch.distributed.launch/torch.distributed.run}"
    torchrun=("${torchrun[@]/#--use_env/}")
  elif [ "${NNODES:-1}" -gt 1 ]; then
    torchrun=(-m torch.distributed.run --nnodes "$NNODES" --node_rank "$NODE_RANK" --master_addr "$MASTER_ADDR"
      --master_port "${MASTER_PORT:-29500}" --nproc_per_node "${NUM_GPUS:-1}")
  elif [ "${NUM_GPUS:-1}" -gt 1 ]; then
    torchrun=(-m torch.distributed.run --standalone --nproc_per_node "$NUM_GPUS")
  fi
  exec "$python" "${torchrun[@]}" -m "$module" "$@"
}
