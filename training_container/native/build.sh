#!/bin/sh
# Builds TensorFlow's `fifo://` file system and the demultiplexer.
# Usage: training_container/native/build.sh ENVIRONMENT_FOLDER     (a Python environment with TensorFlow)
set -eu

environment=$1
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
out=$environment/lib/traingrid
compiler=${CXX:-$(command -v g++ || command -v c++)} || { echo "no C++ compiler found" >&2; exit 1; }
tensorflow=$("$environment/bin/python" -c 'import importlib.util as u; print(u.find_spec("tensorflow").submodule_search_locations[0])')
framework=$(ls "$tensorflow"/libtensorflow_framework.* | head -n 1)

mkdir -p "$out"
building=$(mktemp -d "$out/building.XXXXXX")
trap 'rm -rf "$building"' EXIT
options="-std=c++17 -O3 -Wall -Wextra -pthread"
# shellcheck disable=SC2086
"$compiler" $options -shared -fPIC -isystem "$tensorflow/include" -o "$building/libfifo_filesystem.so" \
    "$here/fifo_filesystem.cc" "$framework"
# shellcheck disable=SC2086
"$compiler" $options -o "$building/demux" "$here/demux.cc"
mv "$building/libfifo_filesystem.so" "$building/demux" "$out/"
