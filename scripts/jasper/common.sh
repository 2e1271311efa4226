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
