#!/bin/sh
# Prints the path of uv, which installs every environment; first installs the version of setup/uv.txt, once per user.
# Usage: setup/uv.sh
#
# uv is one file. It is kept in ${XDG_CACHE_HOME:-~/.cache}/traingrid, where every checkout finds it.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
version=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' "$here/uv.txt")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/traingrid
uv=$cache/uv-$version-$(uname -sm | tr 'A-Z ' 'a-z-')
if [ -x "$uv" ]; then
    echo "$uv"
    exit
fi

mkdir -p "$cache"
installing=$(mktemp -d "$cache/uv.XXXXXX")
trap 'rm -rf "$installing"' EXIT
"${PYTHON:-python3.11}" -m venv "$installing"
if ! "$installing/bin/pip" --disable-pip-version-check install --quiet --require-hashes -r "$here/uv.txt" 2>"$installing/log"; then
    echo "uv $version could not be installed: $(grep '^ERROR' "$installing/log" | tail -n 1). pip downloads it from its" \
        "configured index ('pip config list'); check the network, and run make again." >&2
    exit 1
fi
mv "$installing/bin/uv" "$uv" # in one step: another `make` sees a complete file or none
echo "$uv"
