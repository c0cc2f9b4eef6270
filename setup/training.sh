#!/bin/sh
# Builds the training environment: TensorFlow and Horovod with Gloo, and with MPI where mpirun exists; and what reads Pipe
# mode's FIFOs (training_container/native), into ENVIRONMENT_FOLDER/lib/traingrid.
# Usage: setup/training.sh ENVIRONMENT_FOLDER [TOOLKIT_FOLDER]     (a toolkit of setup/cuda.sh: for GPUs, with NCCL)
#        setup/training.sh --mpi     (prints the MPI that Horovod is built with, or "none")
#
# The built Horovod wheel is kept in ${XDG_CACHE_HOME:-~/.cache}/traingrid, keyed by all that went into it, so that a
# second checkout does not compile it again. Deleting that folder is always safe.
set -eu

mpi=none
if command -v mpirun >/dev/null && command -v mpicxx >/dev/null; then mpi=$(mpirun --version 2>/dev/null | head -n 1); fi
if [ "$1" = --mpi ]; then
    echo "$mpi"
    exit
fi

environment=$1
toolkit=${2:-}
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
requirements=$here/setup/requirements/training.txt
build_requirements=$here/setup/requirements/training-dev.txt
horovod=0.28.1
architectures= # compute capabilities, of p3 to p5 and g4 to g6 instances
if [ -n "$toolkit" ]; then
    requirements=$here/setup/requirements/training-gpu.txt
    architectures=70,75,80,86,89,90
fi

if [ -x "$here/setup/environment.sh" ]; then
    "$here/setup/environment.sh" "$environment" --pip "$requirements" "$build_requirements"
else # the build of an image, which has pip and its configuration, but not uv
    "${PYTHON:-python3.11}" -m venv "$environment"
    for file in "$requirements" "$build_requirements"; do
        "$environment/bin/pip" install --quiet --require-hashes -r "$file"
    done
fi

if [ "$mpi" = none ]; then
    echo "No mpirun and mpicxx here: Horovod is built with Gloo only. ('sudo apt-get install openmpi-bin" \
        "libopenmpi-dev' or 'brew install open-mpi', then 'make setup', adds MPI.)" >&2
fi

show_progress() { # show_progress LOG, until it is killed or the log is removed
    while sleep 15 >/dev/null 2>&1 && [ -e "$1" ]; do # a sleep that outlives this must not hold the terminal's pipe
        percent=$(grep -oE '^ *\[ *[0-9]+%\]' "$1" | tail -n 1 | tr -dc 0-9)
        echo "  Horovod: ${percent:-0} % compiled"
    done
}

inputs=$(grep -hE '^(tensorflow|tensorflow-cpu|nvidia-nccl-cu12|numpy|cmake|setuptools|wheel)==' "$requirements" "$build_requirements")
python=$("$environment/bin/python" -c 'import sys; print(sys.implementation.cache_tag)')
# "2": earlier set-ups may have stored a wheel without MPI where MPI was present.
key=$(echo "2 $horovod $mpi $(uname -sm) $python $inputs$architectures" | cksum | cut -d ' ' -f 1)
wheels=${XDG_CACHE_HOME:-$HOME/.cache}/traingrid/horovod-$horovod-$key
if ! ls "$wheels"/horovod-*.whl >/dev/null 2>&1; then
    echo "Compiling Horovod $horovod: two to three minutes on two cores, once ..."
    mkdir -p "$wheels"
    building=$(mktemp -d)
    reporter=
    trap 'kill $reporter 2>/dev/null || true; rm -rf "$building"' EXIT
    export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1
    if [ "$mpi" != none ]; then export HOROVOD_WITH_MPI=1; else export HOROVOD_WITHOUT_MPI=1; fi
    if [ -n "$toolkit" ]; then
        export HOROVOD_GPU=CUDA HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_LINK=SHARED
        export HOROVOD_NCCL_INCLUDE="$toolkit/include" HOROVOD_NCCL_LIB="$toolkit/lib64"
        export CUDACXX="$toolkit/bin/clang-cuda" CUDAToolkit_ROOT="$toolkit" PATH="$toolkit/bin:$PATH"
        export HOROVOD_BUILD_CUDA_CC_LIST=$architectures # Horovod's own list, for nvcc; CMake's is for clang
        CUDAARCHS=$(echo $architectures | sed 's/,/-real;/g')
        export CUDAARCHS
    fi
    # Horovod's CMake files split TensorFlow's compiler flags at blanks, so it is compiled through a path without any.
    ln -s "$(CDPATH= cd -- "$environment" && pwd)" "$building/environment"
    show_progress "$building/build.log" &
    reporter=$!
    # Horovod's setup.py compiles as many files at once as MAKEFLAGS allows, without it 8. The variable of a `make` around
    # this script allows one.
    jobs=$(getconf _NPROCESSORS_ONLN)
    if [ "$jobs" -gt 8 ]; then jobs=8; fi
    export MAKEFLAGS="-j$jobs"
    # pip's own cache knows a wheel by its source only, and not by HOROVOD_WITH_MPI.
    if ! PATH="$building/environment/bin:$PATH" "$building/environment/bin/python" -m pip wheel --verbose --no-cache-dir \
        --no-build-isolation --no-deps --wheel-dir "$building" "horovod==$horovod" >"$building/build.log" 2>&1; then
        grep -iE 'error[: ]|killed' "$building/build.log" | head -n 10 >&2
        tail -n 20 "$building/build.log" >&2
        echo "Horovod did not compile; the lines above are the first errors and the end of the compiler's log." >&2
        exit 1
    fi
    mv "$building"/horovod-*.whl "$wheels/"
    kill "$reporter" 2>/dev/null || true
fi
# The version is the same with and without MPI, so pip would keep what is installed.
"$environment/bin/pip" install --quiet --no-deps --force-reinstall "$wheels"/horovod-*.whl
if ! built=$("$environment/bin/python" -c 'import horovod.tensorflow as hvd
print(*["Gloo"] * hvd.gloo_built(), *["MPI"] * hvd.mpi_built())' 2>"$environment/horovod.log"); then
    tail -n 5 "$environment/horovod.log" >&2
    echo "Horovod is installed but cannot be imported; the lines above are the reason. 'rm -r $wheels' and set-up again" \
        "compile it again." >&2
    exit 1
fi
if [ "$mpi" != none ] && [ "$built" = "${built%MPI}" ]; then
    rm -rf "$wheels" # so that the next attempt compiles again
    echo "Horovod was built without MPI (it has: ${built:-nothing}) although mpirun and mpicxx are on PATH. Check that" \
        "'mpicxx --version' works, then run 'make setup' again; or remove Open MPI to train with Gloo." >&2
    exit 1
fi
echo "Horovod $built"

if ! failure=$("$here/training_container/native/build.sh" "$environment" 2>&1); then
    rm -rf "$environment/lib/traingrid" # what an earlier source was built to
    echo "The native FIFO reader and demultiplexer did not build: Python reads Pipe mode instead, at about half the speed," \
        "and hosts of several ranks cannot read with streams: host. $(echo "$failure" | head -n 1)" >&2
fi
