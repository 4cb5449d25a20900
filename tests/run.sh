#!/usr/bin/env bash
# Installs what is missing (Debian 12, as root or with sudo), builds, and runs every test.
#
#   bash tests/run.sh                  the debug preset: what a change must pass before it is committed
#   bash tests/run.sh asan tsan tidy fuzz    these presets instead; `all` is debug and these four
#
# What it cannot run here it names at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/install.sh

packages=(
  # build
  g++ cmake ninja-build ccache pkg-config libcli11-dev libcurl4-openssl-dev libyaml-cpp-dev nlohmann-json3-dev
  doctest-dev libssl-dev libfmt-dev libvalijson-dev libfabric-dev
  # the other presets
  clang clang-format clang-tidy libclang-rt-14-dev mypy
  # real parts that tests run against
  docker-registry skopeo apache2-utils openssl jq python3 python3-jsonschema libxml2-utils iproute2 libfabric1 libfabric-bin openmpi-bin
  binutils util-linux procps git ca-certificates libfuse3-dev fuse3 glusterfs-server e2fsprogs
)
install_missing "${packages[@]}"

presets=("$@")
((${#presets[@]})) || presets=(debug)
[[ ${presets[0]} == all ]] && presets=(debug asan tsan tidy fuzz)
for preset in "${presets[@]}"; do
  echo "== $preset: configure and build"
  cmake --preset "$preset" >"/tmp/dlc-check-configure-$preset.$$" || { cat "/tmp/dlc-check-configure-$preset.$$"; exit 1; }
  rm -f "/tmp/dlc-check-configure-$preset.$$"
  cmake --build --preset "$preset"
  if [[ $preset != tidy ]]; then
    echo "== $preset: test"
    ctest --preset "$preset"
  fi
done
bash tests/skipped.sh
