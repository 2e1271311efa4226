#!/usr/bin/env bash
# HiFi-GAN V3 trained as long as the light vocoder of the voice `ljspeech-mini`, to be judged beside it: the same clips,
# losses, discriminators and processor time, by spectra alone and then against discriminators. A step of V3 takes 3.9 and
# 2.0 times that of the light vocoder, so it makes as many fewer. benchmarks/voices.py judges it.
#   DATA_DIR=LJSpeech-1.1 bash scripts/fastpitch/ljspeech_mini_v3.sh
#   DATA_DIR  LJSpeech-1.1, or as much of it as has the first 354 clips             (default LJSpeech-1.1)
#   RUN_DIR   folder for file lists and runs                              (default runs/ljspeech-mini)
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
DATA_DIR="$(realpath -m "${DATA_DIR:-LJSpeech-1.1}")"
RUN_DIR="$(realpath -m "${RUN_DIR:-runs/ljspeech-mini}")"
lists="$RUN_DIR/lists"
"$python" scripts/fastpitch/ljspeech_mini.py "$DATA_DIR" "$lists"

data=(--data.root "$DATA_DIR" --data.train "$lists/train.txt" --data.validation "$lists/validation.txt")
# stage NAME: the light vocoder's stage of that name, with the network of v3.toml.
stage() { "$python" -m fastpitch.vocoders.train "configs/hifigan/$1.toml" configs/hifigan/v3.toml --generator hifigan "${data[@]}" "${@:2}"; }
# As in ljspeech_mini.sh the schedule spans three times the steps that are taken.
stage ljspeech_mini --output-dir "$RUN_DIR/vocoder-v3" --epochs 16 --steps 786
taught="$(find "$RUN_DIR/vocoder-v3" -name "hifigan_step*.pt" | sort | tail -n 1 | grep .)"
stage ljspeech_mini_adversarial --output-dir "$RUN_DIR/vocoder-v3-adversarial" --epochs 13 --checkpoint "$taught"
