#!/bin/sh
# Fills the Lambda layer: the packages that traingrid needs in AWS's Python 3.11 runtime. They include boto3, because AWS
# changes the version in its runtime at any time, and recommends to bring one's own
# (https://docs.aws.amazon.com/lambda/latest/dg/lambda-python.html). Of botocore, only the services that functions call
# are kept (setup/layer-services.txt).
# Usage: setup/layer.sh FOLDER GROUP     (a group of setup/pyproject.toml)
#
# Lambda runs Linux on x86_64, in Amazon Linux 2 for Python 3.11, with glibc 2.26
# (https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html). A newer machine's uv also takes wheels for a newer
# glibc, so the layer always gets those of manylinux2014 (glibc 2.17, PEP 599), which every newer Linux loads as well.
# localcloud runs the same layer on this machine. Another kind of machine gets its own packages too: compiled modules carry
# their platform in their file name, so both fit in one folder and each interpreter loads its own.
set -eu

folder=$1
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
requirements=$here/setup/requirements/$2.txt

uv=$("$here/setup/uv.sh")

install() { # install FOLDER [OPTION ...]
    target=$1
    shift
    "$uv" pip install --quiet --python "$here/.venv" --require-hashes --target "$target" "$@" -r "$requirements"
}

rm -rf "$folder"
mkdir -p "$folder/python"
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    install "$folder/machine"
fi
install "$folder/python" --python-platform x86_64-manylinux2014 --python-version 3.11 --only-binary :all:
if [ -d "$folder/machine" ]; then
    (cd "$folder/machine" && find . -name '*.so' -exec cp {} ../python/{} \;)
    rm -rf "$folder/machine"
fi
for models in "$folder"/python/botocore/data/*/; do
    grep -qx "$(basename "$models")" "$here/setup/layer-services.txt" || rm -rf "$models"
done
find "$folder/python" \( -name __pycache__ -o -name .lock -o -name examples-1.json \) -prune -exec rm -rf {} +

# Lambda cannot write compiled files to /opt. unchecked-hash: they contain no time, and the sources never change.
PYTHONHASHSEED=0 "$here/.venv/bin/python" -m compileall -q --invalidation-mode unchecked-hash \
    -s "$folder/python" -p /opt/python "$folder/python"
