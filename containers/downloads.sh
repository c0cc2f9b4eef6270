#!/bin/sh
# Writes this machine's settings for Debian's mirror and Python's package index, for builds. Images do not keep them.
# Usage: containers/downloads.sh FOLDER     (writes apt.conf, sources.list, pip.conf and certificates.pem)
set -eu
folder=$1
python=${PYTHON:-python3.11}

# During a build these files are in /run/secrets: proxies and similar settings, and a list of sources for the image.
{
    apt-config dump 2>/dev/null | grep -E '^Acquire::https?::(Proxy|[^ ]*::Proxy)' || true
    echo 'Dir::Etc::SourceList "/run/secrets/sources.list";'
    echo 'Acquire::https::CAInfo "/run/secrets/certificates.pem";'
} >"$folder/apt.conf"
apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
    grep bookworm | sort -u >"$folder/sources.list" || true
[ -s "$folder/sources.list" ] || echo "deb http://deb.debian.org/debian bookworm main" >"$folder/sources.list"

# Only settings that a container can use: an index in a folder of this machine is omitted.
{
    echo '[global]'
    "$python" -m pip config list 2>/dev/null | tr -d "'" |
        sed -nE 's/^(global|:env:)\.(index-url|extra-index-url|trusted-host|proxy|timeout|default-timeout)=(.*)$/\2 = \3/p' |
        grep -v 'file:' | sed 's/^default-timeout/timeout/' | sort -u -t= -k1,1 || true
    echo 'cert = /run/secrets/certificates.pem'
} >"$folder/pip.conf"
cp "${PIP_CERT:-${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}}" "$folder/certificates.pem"
