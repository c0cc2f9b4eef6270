#!/bin/sh
# Creates a Python environment anew from locked requirements.
# Usage: setup/environment.sh FOLDER [--pip] REQUIREMENTS ...     (--pip: the environment also contains pip)
set -eu
environment=$1
shift
uv=$("$(dirname -- "$0")/uv.sh")
case $1 in
--pip) # Python's own copy of pip; `uv venv --seed` would download an arbitrary version
    shift
    "${PYTHON:-python3.11}" -m venv --clear "$environment"
    ;;
*) "$uv" venv --quiet --clear --python "${PYTHON:-python3.11}" "$environment" ;;
esac
for requirements in "$@"; do set -- "$@" -r "$requirements"; shift; done
if ! "$uv" pip install --quiet --python "$environment" --require-hashes "$@"; then
    if [ "$(df -Pk "$environment" | awk 'END { print $4 }')" -lt 1024 ]; then
        echo "The disk is full. Free space for $environment, and run make again." >&2
    else
        echo "uv could not install the packages; the lines above are the reason. uv does not read pip's configuration:" \
            "for another index than PyPI, set UV_DEFAULT_INDEX." >&2
    fi
    exit 1
fi
