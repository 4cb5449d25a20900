#!/usr/bin/env bash
# What device.py needs on a GPU machine that has nothing of ours: stripped programs, and the libraries that dlc-check is linked
# with, for a Linux of the same or a later glibc.
#
#   pack.sh DIR [BUILD]      BUILD: build/debug by default; DIR must be empty or not there
#
#   DIR/bin/ dlc-check dlc-probe kernels_cuda_tests (where CUDA was built)   DIR/lib/ the libraries   DIR/*.py
# Then there:  python3 DIR/device.py --probe DIR/bin/dlc-probe --dlc-check DIR/bin/dlc-check --lib-dir DIR/lib --out OUT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

to=${1:?usage: pack.sh DIR [BUILD]}
build=${2:-build/debug}
limit_mib=60
if [[ -e $to && -n $(ls -A "$to") ]]; then
  echo "pack.sh: $to is not empty" >&2
  exit 2
fi
mkdir -p "$to/bin" "$to/lib"
for program in dlc-check dlc-probe kernels_cuda_tests; do
  if [[ -x $build/bin/$program ]]; then
    strip -o "$to/bin/$program" "$build/bin/$program"
  elif [[ $program != kernels_cuda_tests ]]; then
    echo "pack.sh: $build/bin/$program is not built" >&2
    exit 1
  fi
done
# The machine's own: the C and C++ runtime, and the driver's libraries, which must fit its kernel module.
missing=$(ldd "$build/bin/dlc-check" | awk '/not found/ {print $1}')
if [[ -n $missing ]]; then
  echo "pack.sh: not found: $missing" >&2
  exit 1
fi
ldd "$build/bin/dlc-check" | awk '$2 == "=>" {print $1, $3}' | while read -r name path; do
  [[ $name =~ ^(linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libresolv|libutil|libanl|libnsl|libstdc\+\+|libgcc_s|libcuda|libnvidia-[a-z]+)[.-] ]] && continue
  cp -L "$path" "$to/lib/$name"
done
cp tests/gpu/device.py tests/device_report.py tests/probe/ranks.py "$to/"
# From elsewhere, and without what it would find in this tree: an import that is not packed fails here.
there=$(realpath "$to")
(cd / && PYTHONDONTWRITEBYTECODE=1 python3 "$there/device.py" --help >/dev/null)
size_mib=$(du -sm "$to" | cut -f1)
echo "$to: $size_mib MiB, $(ls "$to/lib" | wc -l) libraries"
if ((size_mib >= limit_mib)); then
  echo "pack.sh: more than $limit_mib MiB" >&2
  exit 1
fi
