#!/usr/bin/env bash
# A Ray for tests/cli/ray_test.py and ray_ranks_test.py, in a virtual environment of its own (some 600 MB):
#   bash tests/ray/install.sh DIR [VERSION]        without VERSION the newest that pip finds
# For ray_train_test.py too: DIR/bin/pip install 'ray[train]' torch numpy
#   DLC_RAY_PYTHON=DIR/bin/python ctest --test-dir build/debug -R cli.ray
set -euo pipefail
if [[ $# -lt 1 || $# -gt 2 ]]; then
  sed -n '2,5s/^# //p' "$0" >&2
  exit 2
fi
directory=$1
version=${2:-}
python3 -m venv "$directory"
"$directory/bin/pip" install --quiet --disable-pip-version-check "ray[default]${version:+==$version}"
"$directory/bin/python" -c 'import ray; print("ray", ray.__version__)'
