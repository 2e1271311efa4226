# Sourced by all scripts, before anything is installed: --help or -h prints the comment at the head of the script that
# was called, and ends it.
# shellcheck shell=bash
for argument in "$@"; do
  if [ "$argument" = --help ] || [ "$argument" = -h ]; then
    awk 'NR > 1 { if (!/^#/) exit; if (!/^# shellcheck/) { sub(/^# ?/, ""); print } }' "$0"
    exit 0
  fi
done
unset argument
