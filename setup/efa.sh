#!/bin/sh
# Installs EFA for NCCL in a GPU image: AWS's libfabric and the plugin aws-ofi-nccl, from AWS's EFA installer.
# Usage: setup/efa.sh VERSION SHA256 [ROOT]     (VERSION none installs nothing; ROOT, default /, is for tests)
#
# Nothing of the archive is unpacked before its checksum is verified. The options are those of the EC2 user guide for
# containers (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-installer-containers.html):
# the host has the driver and the limits, and a build has no adapter that could be tested.
set -eu
version=$1 checksum=$2 root=${3:-}
if [ "$version" = none ]; then
    echo "EFA is off: between hosts, NCCL uses TCP."
    exit
fi
fail() {
    echo "EFA $version was not installed: $1" >&2
    echo "To build an image without EFA, set efa: none for the image in grid.yaml (--build-arg EFA=none)." >&2
    exit 1
}

export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends ca-certificates curl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=aws-efa-installer-$version.tar.gz
curl -fsS --retry 3 -o "$work/$archive" "https://efa-installer.amazonaws.com/$archive" ||
    fail "https://efa-installer.amazonaws.com/$archive cannot be downloaded."
found=$(sha256sum "$work/$archive" | cut -d ' ' -f 1)
[ "$found" = "$checksum" ] || fail "the SHA-256 of $archive is $found, and EFA_SHA256 is $checksum."
tar -xzf "$work/$archive" -C "$work"
cd "$work/aws-efa-installer"
./efa_installer.sh -y --skip-kmod --skip-limit-conf --no-verify || fail "efa_installer.sh failed; see the lines above."

# For a plugin that does not name the folder of libfabric itself.
printf '%s\n' /opt/amazon/efa/lib /opt/amazon/efa/lib64 >"$root/etc/ld.so.conf.d/libfabric.conf"

# The installer's Open MPI has the names of Debian's libraries, with which Horovod was compiled.
others=$(dpkg-query --show --showformat '${Package}\n' 'openmpi*-aws' 2>/dev/null || true)
# shellcheck disable=SC2086  # a word for each package
[ -z "$others" ] || apt-get purge -y $others

plugin() { find "$root/opt/amazon/ofi-nccl" -name 'libnccl-net*.so' 2>/dev/null | sort | head -n 1; }
# The release notes name the plugin for Debian 13, and not for Debian 12. Packages for Ubuntu 22.04 need an older glibc.
[ -n "$(plugin)" ] || apt-get install -y ./DEBS/UBUNTU2204/x86_64/libnccl-ofi_*.deb || true
library=$(plugin)
[ -n "$library" ] || fail "the installer has no NCCL plugin for this system, without which NCCL uses TCP."

# NCCL opens libnccl-net.so, and the plugin libcudart.so, if it was compiled so. The loader finds both names in its
# default folder; its cache has libraries by their own names only.
libraries=$root/usr/lib/x86_64-linux-gnu
ln -sf "$library" "$libraries/libnccl-net.so"
for runtime in "$root"/opt/training/lib/python3*/site-packages/nvidia/cuda_runtime/lib/libcudart.so.*; do
    ln -sf "$runtime" "$libraries/libcudart.so"
done
ldconfig
missing=$(ldd "$library" 2>/dev/null | grep 'not found' || true)
[ -z "$missing" ] || fail "$library lacks libraries:$missing."
fabric=$(ldd "$library" 2>/dev/null | sed -n 's/.*libfabric\.so\.1 => \([^ ]*\).*/\1/p')
case $fabric in
"" | /opt/amazon/efa/*) ;;
*) fail "NCCL's plugin would load $fabric, which is not AWS's libfabric." ;; # Debian's Open MPI needs Debian's
esac
rm -rf "$root"/var/lib/apt/lists/*
echo "EFA $version: NCCL's plugin is $library."
