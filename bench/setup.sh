#!/usr/bin/env bash
# Makes what the peers of the benchmarks run in, under build/peers. What is there and was made from the same requirements
# is left alone. What cannot be had is named, and the benchmarks go on without it.
set -uo pipefail
cd "$(dirname "$0")/.."
peers=build/peers
mkdir -p $peers
exec 9<bench/setup.sh
flock 9
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

say() { printf 'bench: %s\n' "$*" >&2; }

# environment <name> <requirements> [<requirements that are installed without what they ask for>]
environment() {
  local folder=$peers/$1 log=$peers/$1.log stamp
  stamp=$(cat "${@:2}" | sha256sum)
  [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ] && return
  say "installing $1"
  rm -rf "$folder"
  if { .venv/bin/python -m venv "$folder" && "$folder/bin/pip" install -r "$2" &&
    { [ $# = 2 ] || "$folder/bin/pip" install --no-deps -r "$3"; }; } >"$log" 2>&1; then
    echo "$stamp" >"$folder/stamp"
  else
    tail -n 3 "$log" >&2
    say "no $1: see $log; the next run tries again"
    rm -rf "$folder"
  fi
}

environment jax requirements/peers.txt
environment torchtpu requirements/torchtpu-needs.txt requirements/torchtpu.txt

# The allocator that TorchTPU asks for: the system's, or that of Debian's package.
if ! ldconfig -p 2>/dev/null | grep -q libtcmalloc_minimal && [ ! -d $peers/tcmalloc ]; then
  package=$(mktemp -d)
  if (cd "$package" && apt-get download -qq libtcmalloc-minimal4) >/dev/null 2>&1 && dpkg -x "$package"/*.deb $peers/tcmalloc; then
    say "unpacked libtcmalloc-minimal4"
  else
    say "no libtcmalloc-minimal4: TorchTPU runs without the allocator that it asks for"
  fi
  rm -rf "$package"
fi
