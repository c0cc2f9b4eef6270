#!/bin/sh
# Writes how this machine reaches Debian's mirror and Python's index, for a build only: no image keeps it.
# Usage: containers/downloads.sh FOLDER     (gets apt.conf, sources.list, pip.conf and certificates.pem)
set -eu
folder=$1
python=${PYTHON:-python3.11}

# Inside a build these lie in /run/secrets. Proxies and the like, and a list of sources in place of the image's own.
{
    apt-config dump 2>/dev/null | grep -E '^Acquire::https?::(Proxy|[^ ]*::Proxy)' || true
    echo 'Dir::Etc::SourceList "/run/secrets/sources.list";'
    echo 'Acquire::https::CAInfo "/run/secrets/certificates.pem";'
} >"$folder/apt.conf"
apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
    grep bookworm | sort -u >"$folder/sources.list" || true
[ -s "$folder/sources.list" ] || echo "deb http://deb.debian.org/debian bookworm main" >"$folder/sources.list"

# Only what a container can reach: an index that is a folder of this machine stays out.
{
    echo '[global]'
    "$python" -m pip config list 2>/dev/null | tr -d "'" |
        sed -nE 's/^(global|:env:)\.(index-url|extra-index-url|trusted-host|proxy|timeout|default-timeout)=(.*)$/\2 = \3/p' |
        grep -v 'file:' | sed 's/^default-timeout/timeout/' | sort -u -t= -k1,1 || true
    echo 'cert = /run/secrets/certificates.pem'
} >"$folder/pip.conf"
cp "${PIP_CERT:-${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}}" "$folder/certificates.pem"
