#!/bin/sh
# Runs podman with traingrid's own storage and settings.
# Usage: containers/podman.sh ARGUMENT ...
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
. "$here/engine.sh"
exec podman "$@"
