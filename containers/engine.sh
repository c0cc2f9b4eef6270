# Sourced by the other scripts: podman and buildah with storage and settings of their own, in traingrid's cache.
# Nothing of the machine's other images and containers is seen or touched. Deleting the folder is safe while nothing runs
# (as root; `podman --root ~/.cache/traingrid/containers/storage system reset` where files resist).
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
    echo "Images are built and run here by root with podman, buildah, runc and debootstrap; missing:" \
        "${missing:- root}. On Debian: 'sudo apt-get install podman buildah runc debootstrap'; elsewhere build" \
        "the Dockerfiles with docker." >&2
    exit 1
fi
