#!/bin/sh
# Creates a base image similar to the public python:3.11-slim-bookworm, without a registry, and prints its name.
# Usage: containers/public_base.sh
#
# It has Debian 12 without Debian's Python, and a shared CPython 3.11 in /usr/local: a copy of this machine's ($PYTHON).
# The public image has one that was compiled for it, with another patch version. apt and pip use the same mirrors as
# this machine, so that a Dockerfile builds without secrets or arguments. No published image is based on it.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
. "$here/engine.sh"

name=localhost/traingrid-public-base:bookworm
if ! podman image exists $name; then
    "$here/base.sh" >/dev/null
    root=$(mktemp -d "$cache/tmp/public.XXXXXX")
    trap 'rm -rf "$root"' EXIT
    echo "Creating the base image $name (once, about a minute) ..." >&2
    "$here/downloads.sh" "$root"
    cat >"$root/Dockerfile" <<'END'
FROM localhost/traingrid-base:bookworm
COPY sources.list /etc/apt/sources.list
COPY apt.conf /etc/apt/apt.conf.d/99downloads
COPY certificates.pem /etc/ssl/certs/downloads.pem
COPY pip.conf /etc/pip.conf
RUN apt-get update \
    && apt-get purge -y --auto-remove python3 python3-venv python3-minimal python3.11 python3.11-minimal \
    && apt-get install -y --no-install-recommends ca-certificates netbase tzdata libbz2-1.0 libexpat1 libffi8 liblzma5 \
        libncursesw6 libreadline8 libsqlite3-0 libssl3 libuuid1 libnsl2 libtirpc3 zlib1g \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY python/ /usr/local/
RUN ln -sf python3.11 /usr/local/bin/python3 && ln -sf python3 /usr/local/bin/python && ldconfig && python3 -c 'import ssl'
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
CMD ["python3"]
END
    sed -i 's,/run/secrets/certificates.pem,/etc/ssl/certs/downloads.pem,' "$root/apt.conf" "$root/pip.conf"
    sed -i '/SourceList/d' "$root/apt.conf"
    prefix=$("${PYTHON:-python3.11}" -c 'import sys; print(sys.base_prefix)')
    mkdir -p "$root/python"
    (cd "$prefix" && tar -c --exclude=site-packages --exclude=__pycache__ --exclude=test --exclude='*.a' \
        bin/python3.11 include/python3.11 lib/python3.11 lib/libpython3*.so*) | tar -C "$root/python" -x
    mkdir -p "$root/python/lib/python3.11/site-packages"
    if ! buildah bud --isolation chroot --pull-never --tag $name "$root" >"$cache/public-base.log" 2>&1; then
        tail -n 40 "$cache/public-base.log" >&2
        echo "The base image was not created; the lines above are the end of the log." >&2
        exit 1
    fi
fi
echo $name
