#!/usr/bin/env bash
# The same as inference_example.sh, under the name that scripts/inference.sh looks for.
exec bash "$(dirname "${BASH_SOURCE[0]}")/inference_example.sh" "$@"
