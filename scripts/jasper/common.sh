# Shared by the scripts of this folder.
# shellcheck shell=bash
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

# model_config: sets `config`: MODEL_CONFIG, also by the name of the published YAML or TOML that it corresponds to.
model_config() {
  local wanted="${MODEL_CONFIG:-configs/jasper/jasper10x5dr_speedp-online_speca.toml}" name
  name="$(basename "${wanted%.*}")"
  config="$wanted"
  [ "${wanted##*.}" != toml ] || [ ! -e "$wanted" ] || return 0
  if [ ! -e "configs/jasper/$name.toml" ] && [ -e "configs/jasper/${name%_nomask}.toml" ]; then
    echo "${0##*/}: $name: without effect: nomask (padding is masked in all models, so that it changes no result)" >&2
    name="${name%_nomask}"
  fi
  config="configs/jasper/$name.toml"
  [ -e "$config" ] || { echo "error: MODEL_CONFIG is $wanted; expected a TOML file, or a name of configs/jasper" >&2; exit 2; }
}

# optimizer_flags: OPTIMIZER by its published names.
optimizer_flags() {
  case "${OPTIMIZER:-}" in
    "") ;;
    novograd | fused_novograd) flags+=(--optim.kind novograd) ;;
    adam | adamw) flags+=(--optim.kind adamw) ;;
    lamb98) flags+=(--optim.kind lamb --optim.betas 0.9 0.98 --optim.eps 1e-9) ;;
    *) echo "error: OPTIMIZER is $OPTIMIZER; expected novograd, fused_novograd, adamw or lamb98" >&2; exit 2 ;;
  esac
}
