#!/bin/sh
# Creates a base image of Debian 12 with Python 3.11, without a registry, and prints its name.
# Usage: containers/base.sh
#
# The image stays in the cache. To rebuild it with Debian's newest packages, `podman rmi` it (see engine.sh).
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
. "$here/engine.sh"

name=localhost/traingrid-base:bookworm
if ! podman image exists $name; then
    # Use the mirror of this machine. The image itself refers to Debian's own.
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(SITE)' 'Created-By: Packages' 2>/dev/null |
        awk '$1 == "Debian" && $2 == "bookworm" { print $3; exit }')
    root=$(mktemp -d "$cache/tmp/base.XXXXXX")
    trap 'rm -rf "$root"' EXIT
    echo "Creating the base image $name (once, about half a minute) ..." >&2
    if ! debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm "$root/image" \
        "${mirror:-http://deb.debian.org/debian}" >"$root/log" 2>&1; then
        tail -n 20 "$root/log" "$root/image/debootstrap/debootstrap.log" >&2 || true
        echo "debootstrap could not create Debian 12; the lines above are the end of its log." >&2
        exit 1
    fi
    rm -rf "$root/image/var/cache/apt/archives" "$root"/image/var/lib/apt/lists/* "$root"/image/var/log/*
    for suite in bookworm bookworm-updates; do echo "deb http://deb.debian.org/debian $suite main"; done \
        >"$root/image/etc/apt/sources.list"
    echo "deb http://deb.debian.org/debian-security bookworm-security main" >>"$root/image/etc/apt/sources.list"
    tar -C "$root/image" -c . | podman import --quiet --change CMD=/bin/sh - $name >/dev/null
fi
echo $name
