#!/bin/sh
# Builds an image with buildah, and prints its id: the orchestrator's, a target of training_container/Dockerfile, or torch.
# Usage: containers/build.sh orchestrator|cpu|gpu|torch [OPTION ...]
#
# Options are those of buildah bud. EFA is off, unless they contain --build-arg EFA=VERSION (and EFA_SHA256, for another
# one than the Dockerfile's). The environment variable BASE selects a base image other than that of base.sh.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
. "$here/engine.sh"

target=$1
shift
base=${BASE:-$("$here/base.sh")}
settings=$(mktemp -d "$cache/tmp/build.XXXXXX")
trap 'rm -rf "$settings"' EXIT
"$here/downloads.sh" "$settings"
for name in apt.conf sources.list pip.conf certificates.pem; do
    set -- --secret "id=$name,src=$settings/$name" "$@"
done
if [ "$target" = orchestrator ]; then
    image=localhost/traingrid-orchestrator:latest
    cp "$here/../batch_job/Dockerfile" "$settings/Dockerfile"
elif [ "$target" = torch ]; then
    image=localhost/traingrid-training:torch
    cp "$here/../training_container/Dockerfile.torch" "$settings/Dockerfile"
    set -- --target torch --build-arg EFA=none "$@"
else
    image=localhost/traingrid-training:$target
    # buildah 1.28 builds every stage up to the target, so remove the stages of the other target.
    case $target in cpu*) other=gpu ;; *) other=cpu ;; esac
    awk -v other="^$other" '/^FROM / { skip = $2 ~ other || $4 ~ other } !skip' \
        "$here/../training_container/Dockerfile" >"$settings/Dockerfile"
    # Reuse a compiled Horovod, also from `make setup` if this machine runs the same Debian as the base image.
    wheels=$cache/wheels
    if grep -qs bookworm /etc/os-release; then wheels=${cache%/containers}; fi
    mkdir -p "$wheels"
    case $target in gpu*) set -- --build-arg EFA=none "$@" ;; esac
    set -- --target "$target" --volume "$wheels:/wheels/traingrid" "$@"
fi
echo "Building the $target image (log: $cache/build-$target.log) ..." >&2
# chroot requires no privileges other than root. A new image takes over the name; running containers keep the old image.
if ! nice -n 10 buildah bud --isolation chroot --layers --force-rm --pull-never --build-arg BASE="$base" \
    "$@" --file "$settings/Dockerfile" --iidfile "$settings/id" --tag "$image" "$here/.." \
    >"$cache/build-$target.log" 2>&1; then
    tail -n 40 "$cache/build-$target.log" >&2
    echo "The $target image was not built; the lines above are the end of the build's log." >&2
    exit 1
fi
podman image inspect --format "$image is {{.Size}} bytes, unpacked." "$image" >&2
cat "$settings/id"
