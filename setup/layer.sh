#!/bin/sh
# Fills the Lambda layer: the packages that traingrid needs beyond AWS's Python 3.11 runtime.
# Usage: setup/layer.sh FOLDER
#
# Lambda runs Linux on x86_64; localcloud runs the same layer on this machine. Compiled modules carry their platform in
# their file name, so both fit in one folder and each interpreter loads its own.
set -eu

folder=$1
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
pip="$here/.venv/bin/pip --disable-pip-version-check install --quiet --require-hashes --no-compile --upgrade"

rm -rf "$folder"
mkdir -p "$folder/python"
$pip --target "$folder/python" -r "$here/requirements-layer.txt"
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    $pip --target "$folder/linux" --platform manylinux2014_x86_64 --implementation cp --python-version 3.11 \
        --only-binary=:all: -r "$here/requirements-layer.txt"
    (cd "$folder/linux" && find . -name '*.so' -exec cp {} ../python/{} \;)
    rm -rf "$folder/linux"
fi
find "$folder/python" -name '__pycache__' -prune -exec rm -rf {} +
