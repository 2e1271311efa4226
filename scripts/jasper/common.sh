# Shared by the scripts of this folder.
# shellcheck shell=bash
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

# model_config: MODEL_CONFIG, also by the name of the published YAML or TOML it corresponds to.
model_config() {
  local wanted="${MODEL_CONFIG:-configs/jasper/jasper10x5dr_speedp-online_speca.toml}" ours
  ours="configs/jasper/$(basename "${wanted%.*}").toml"
  if [ ! -e "$wanted" ] || [ "${wanted##*.}" != toml ] && [ -e "$ours" ]; then wanted="$ours"; fi
  printf %s "$wanted"
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
