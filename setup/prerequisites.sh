#!/bin/sh
# Names what traingrid cannot install by itself, one sentence each, with the command that does.
# Usage: setup/prerequisites.sh [control] [training]
set -eu

missing=0

need() { # need "what it is" "Debian/Ubuntu packages" "Homebrew formula"
    missing=1
    echo "$1 is missing: 'sudo apt-get install $2' on Debian/Ubuntu, '$3' on macOS." >&2
}

for part in "${@:-control}"; do
    case "$part" in
    control)
        "${PYTHON:-python3.11}" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null ||
            need "Python 3.11 with venv" "python3.11 python3.11-venv" "brew install python@3.11"
        node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' 2>/dev/null && command -v npm >/dev/null ||
            need "Node.js 20 or newer with npm" "nodejs npm" "brew install node"
        ;;
    training)
        command -v "${CXX:-c++}" >/dev/null || command -v g++ >/dev/null ||
            need "A C++ compiler (Horovod is built from source)" "g++ make" "xcode-select --install"
        "${PYTHON:-python3.11}" -c 'import sysconfig, os, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' 2>/dev/null ||
            need "Python 3.11's header files" "python3.11-dev" "brew install python@3.11"
        ;;
    *)
        echo "usage: $0 [control] [training]" >&2
        exit 2
        ;;
    esac
done
exit $missing
