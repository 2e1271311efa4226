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

# launch MODULE ARGUMENT...: one process, or one per GPU by torchrun.
launch() {
  local module="$1"
  shift
  if [ "${NUM_GPUS:-1}" -gt 1 ]; then
    exec "$python" -m torch.distributed.run --standalone --nproc_per_node "$NUM_GPUS" -m "$module" "$@"
  fi
  exec "$python" -m "$module" "$@"
}
