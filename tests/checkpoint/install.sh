#!/usr/bin/env bash
# Python's safetensors for tests/checkpoint/safetensors_test.py, in a virtual environment of its own (some 80 MB):
#   bash tests/checkpoint/install.sh DIR [VERSION]        without VERSION the newest that pip finds
#   DLC_SAFETENSORS_PYTHON=DIR/bin/python ctest --test-dir build/debug -R checkpoint.safetensors
set -euo pipefail
if [[ $# -lt 1 || $# -gt 2 ]]; then
  sed -n '2,4s/^# //p' "$0" >&2
  exit 2
fi
directory=$1
version=${2:-}
python3 -m venv "$directory"
"$directory/bin/pip" install --quiet --disable-pip-version-check "safetensors${version:+==$version}" numpy
"$directory/bin/python" -c 'import safetensors; print("safetensors", safetensors.__version__)'
