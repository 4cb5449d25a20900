#!/usr/bin/env bash
# Fetches cosign 2 (Debian trixie) and cosign 3 (Debian sid) for the evidence tests and unpacks them beside the system,
# not into it: package lists of their own, no package is installed.
#
#   fetch_cosign.sh [DIR]   DIR (default ~/.cache/dlc-check/cosign) gets 2/cosign, 2/version, 3/cosign, 3/version; prints DIR.
#
# What is there already is kept. For a suite that cannot be had: a line on stderr, exit 1, and the other one is still fetched.
set -euo pipefail
dir=${1:-$HOME/.cache/dlc-check/cosign}
mkdir -p "$dir"

fail() { echo "fetch_cosign.sh: $*" >&2; }

# The mirror that this machine uses for Debian itself; it serves the newer suites too.
mirror() {
  local uri
  uri=$(awk '$1 == "URIs:" {print $2; exit}' /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
  [[ -n $uri ]] || uri=$(awk '$1 == "deb" {for (i = 2; i <= NF; ++i) if ($i ~ /:\/\//) {print $i; exit}}' \
    /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null || true)
  [[ -n $uri ]] || return 1
  echo "$uri"
}

fetch() { # MAJOR SUITE
  local major=$1 suite=$2 uri work deb binary version
  [[ -x $dir/$major/cosign ]] && return 0
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || { fail "cosign $major: no apt-get or dpkg here"; return 1; }
  uri=$(mirror) || { fail "cosign $major: no Debian mirror in this machine's apt sources"; return 1; }
  work=$(mktemp -d "$dir/.fetch-$major.XXXXXX")
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/root"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" >"$work/sources.list"
  local apt=(apt-get -q -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o Dir::Etc::preferencesparts=/dev/null
    -o APT::Sandbox::User=root -o Acquire::Languages=none -o APT::Update::Error-Mode=any)
  if ! { "${apt[@]}" update && (cd "$work" && "${apt[@]}" download cosign); } >"$work/log" 2>&1; then
    fail "cosign $major: suite $suite cannot be had: $(grep -m1 '^[EW]:' "$work/log" || tail -n1 "$work/log")"
    rm -rf "$work"
    return 1
  fi
  deb=$(find "$work" -maxdepth 1 -name 'cosign_*.deb')
  dpkg -x "$deb" "$work/root"
  binary=$work/root/usr/bin/cosign
  # A suite moves on; a test that says "cosign 2" must not run on another one. The program itself says "devel".
  version=$(dpkg-deb -f "$deb" Version)
  if [[ $version != "$major".* ]] || ! "$binary" version >/dev/null 2>&1; then
    fail "cosign $major: suite $suite holds $version, or it does not run here"
    rm -rf "$work"
    return 1
  fi
  mkdir -p "$dir/$major"
  echo "$version" >"$dir/$major/version"
  mv "$binary" "$dir/$major/cosign"
  rm -rf "$work"
}

status=0
fetch 2 trixie || status=1
fetch 3 sid || status=1
echo "$dir"
exit $status
