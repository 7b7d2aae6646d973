#!/usr/bin/env bash
# Makes .venv with torch_tpu built and installed in it (editable). Safe to run again: when nothing that it reads has
# changed, it stops at once. PYTHON=<interpreter> picks the Python.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

exec 9<scripts/setup.sh
flock 9  # a second run waits for the first, and then finds nothing to do

# --- Is there anything to do? ---
inputs=(scripts/setup.sh pyproject.toml requirements/*.txt)
stamp=$({ pwd; echo "${PYTHON:-}"; cat "${inputs[@]}"; } | sha256sum | cut -d ' ' -f 1)
if [ "$(cat .venv/setup.stamp 2>/dev/null)" = "$stamp" ] && [ -x .venv/bin/python ]; then
  say "up to date"
  exit 0
fi

# --- What the system must have: each is looked for by what it does, and named by its Debian package. ---
python_works() {
  "$1" -c 'import sys, sysconfig, pathlib, ensurepip, venv
assert sys.version_info >= (3, 11) and pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()' 2>/dev/null
}
find_python() {
  local candidate
  for candidate in ${PYTHON:-python3.11 /usr/bin/python3.11 python3}; do
    if python_works "$candidate"; then command -v "$candidate"; return; fi
  done
  return 1
}
has_header() { echo "#include <$1>" | g++ -E -x c++ - >/dev/null 2>&1; }
missing_packages() {
  command -v make >/dev/null || echo make
  command -v ccache >/dev/null || echo ccache
  if ! command -v g++ >/dev/null; then
    echo g++ libxxhash-dev libzstd-dev doctest-dev libbenchmark-dev
  else
    has_header xxhash.h || echo libxxhash-dev
    has_header zstd.h || echo libzstd-dev
    has_header doctest/doctest.h || echo doctest-dev
    has_header benchmark/benchmark.h || echo libbenchmark-dev
  fi
  find_python >/dev/null || echo python3.11 python3.11-dev python3.11-venv
}

read -r -a missing <<<"$(missing_packages | tr '\n' ' ')"
if [ ${#missing[@]} -gt 0 ]; then
  line="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    die "some system packages are missing. On Debian or Ubuntu, as root: $line"
  fi
  say "installing ${missing[*]}"
  log=$(mktemp)
  export DEBIAN_FRONTEND=noninteractive
  install=(apt-get install -y -qq --no-install-recommends "${missing[@]}")
  "${install[@]}" >"$log" 2>&1 || { apt-get update -qq >>"$log" 2>&1 && "${install[@]}" >>"$log" 2>&1; } || {
    tail -n 20 "$log" >&2
    die "apt-get failed (above). Mend it, then run again; by hand it is: $line"
  }
  rm -f "$log"
  read -r -a missing <<<"$(missing_packages | tr '\n' ' ')"
  [ ${#missing[@]} = 0 ] || die "installed, yet not usable: ${missing[*]} (for Python, PYTHON=<interpreter> picks another)"
fi
g++ -std=c++20 -fsyntax-only -x c++ - <<<'#include <source_location>' 2>/dev/null ||
  die "g++ $(g++ -dumpversion) is too old: C++20 is needed, so g++ 12 or newer"

# --- .venv ---
python=$(find_python)
base=$("$python" -c 'import sys; print(sys.version_info[:3], sys.base_prefix)')
if [ "$(.venv/bin/python -c 'import sys; print(sys.version_info[:3], sys.base_prefix)' 2>/dev/null)" != "$base" ]; then
  say "creating .venv with Python $("$python" -c 'import platform; print(platform.python_version())')"
  rm -rf .venv build/dev
  "$python" -m venv .venv
fi
rm -f .venv/setup.stamp
export PATH="$PWD/.venv/bin:$PATH" PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

log=.venv/setup.log
: >"$log"
step() {  # step <what> <command...>
  say "$1"
  "${@:2}" >>"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    die "failed: $1. The reason is above, all of it in $log; run again when mended."
  }
}

step "installing the pinned packages (torch is large)" \
  python -m pip install -r requirements/build.txt -r requirements/test.txt -r requirements/lint.txt \
  -r requirements/demo.txt -c requirements/constraints.txt
step "installing the CPU plugins" python -m pip install --no-deps -r requirements/plugins.txt
step "building torch_tpu" python -m pip install --no-build-isolation --no-deps -e .

echo "$stamp" >.venv/setup.stamp
say "done. 'make test' checks it, 'make demo' shows it, 'make' lists the rest"
