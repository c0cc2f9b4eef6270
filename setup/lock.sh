#!/bin/sh
# Resolves each group of setup/pyproject.toml into locked requirements with hashes: `app` into requirements.txt, others
# into setup/requirements/GROUP.txt. A version that is locked already stays, unless its file is deleted first.
set -eu
cd "$(dirname -- "$0")"
uv=$(./uv.sh)

lock() { # lock GROUP [OPTION ...]
    group=$1
    shift
    case $group in app) file=../requirements.txt ;; *) file=requirements/$group.txt ;; esac
    echo "$file ..." >&2
    "$uv" pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
        --custom-compile-command "make lock" --group "$group" --output-file "$file" "$@"
}

echo uv | "$uv" pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 \
    --custom-compile-command "make lock" - --output-file uv.txt
lock app --universal
for group in layer catalog-function orchestrator; do lock "$group" --universal --constraints ../requirements.txt; done
# With extras: for a dependency such as coverage[toml], pip 23 otherwise takes a newer version than the locked one, and
# refuses it because it has no hash (https://github.com/pypa/pip/issues/12345).
lock dev --universal --constraints ../requirements.txt --no-strip-extras
for group in docs images notebook scanners bench training training-torch; do lock "$group" --universal; done
lock training-dev --universal --constraints requirements/training.txt
lock training-torch-dev --universal --constraints requirements/training-torch.txt
lock training-gpu --python-platform x86_64-manylinux_2_28 --constraints requirements/training.txt
lock cuda-tools --python-platform x86_64-manylinux_2_28 --no-deps
