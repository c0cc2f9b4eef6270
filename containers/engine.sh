# Sourced by the other scripts: podman and buildah with their own storage and settings, in traingrid's cache.
# They cannot see or change other images and containers of the machine. The folder can be deleted while nothing runs
# (as root; `podman --root ~/.cache/traingrid/containers/storage system reset` if files cannot be deleted).
# shellcheck shell=sh

cache=${XDG_CACHE_HOME:-$HOME/.cache}/traingrid/containers
mkdir -p "$cache/tmp"
cat >"$cache/storage.conf" <<END
[storage]
driver = "${STORAGE_DRIVER:-overlay}"
graphroot = "$cache/storage"
runroot = "$cache/run"
END
export CONTAINERS_STORAGE_CONF="$cache/storage.conf" CONTAINERS_CONF="$here/containers.conf" TMPDIR="$cache/tmp"

missing=
for program in podman buildah runc debootstrap; do
    command -v $program >/dev/null || missing="$missing $program"
done
if [ -n "$missing" ] || [ "$(id -u)" != 0 ]; then
    echo "Building and running images here requires root, podman, buildah, runc and debootstrap; missing:" \
        "${missing:- root}. On Debian: 'sudo apt-get install podman buildah runc debootstrap'. Otherwise build" \
        "the Dockerfiles with docker." >&2
    exit 1
fi
