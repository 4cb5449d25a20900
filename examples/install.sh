# Sourced by examples/quickstart.sh and tests/run.sh: `install_missing PACKAGE..` installs what is not there (Debian, as root or
# with sudo).
install_missing() {
  local package missing=() sudo=()
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  if ((${#missing[@]})); then
    ((EUID == 0)) || sudo=(sudo)
    echo "== install: ${missing[*]}"
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  fi
}
