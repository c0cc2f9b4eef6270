"""setup/efa.sh, with fakes of the programs that would change a system, and of AWS's archive."""

import hashlib
import os
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.python_programs import write_program

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "setup/efa.sh"
RECORDS = """\
import os, sys
from pathlib import Path
name = Path(sys.argv[0]).name
with open(os.environ["CALLS"], "a") as calls:
    print(name, *sys.argv[1:], file=calls)
root = Path(os.environ["SYSTEM"])
if name == "curl":
    Path(sys.argv[sys.argv.index("-o") + 1]).write_bytes(Path(os.environ["ARCHIVE"]).read_bytes())
elif name == "dpkg-query":
    print("openmpi40-aws\\nopenmpi50-aws")
elif name == "apt-get" and "UBUNTU2204" in sys.argv[-1]:
    if "*" in sys.argv[-1]:
        sys.exit("E: no such file")
    plugin = root / "opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("of a package for Ubuntu")
elif name == "ldd":
    print("\\tlibfabric.so.1 =>", os.environ["FABRIC"], "(0x7f00)")
"""
INSTALLER = """#!/bin/sh
echo "efa_installer.sh $*" >>"$CALLS"
[ -z "$PLUGIN" ] || { mkdir -p "$SYSTEM/opt/amazon/ofi-nccl/lib64" && : >"$SYSTEM/opt/amazon/ofi-nccl/lib64/$PLUGIN"; }
"""


@dataclass
class Build:
    """A system in a folder, and AWS's archive for it."""

    folder: Path
    variables: dict[str, str] = field(
        default_factory=lambda: {"PLUGIN": "libnccl-net-ofi.so", "FABRIC": "/opt/amazon/efa/lib/libfabric.so.1"}
    )

    def __post_init__(self) -> None:
        """Create them."""
        for name in ("etc/ld.so.conf.d", "usr/lib/x86_64-linux-gnu", "var/lib/apt/lists"):
            (self.root / name).mkdir(parents=True)
        self.runtime = self.root / "opt/training/lib/python3.11/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12"
        self.runtime.parent.mkdir(parents=True)
        self.runtime.write_text("")
        (self.folder / "programs").mkdir()
        for name in ("curl", "apt-get", "dpkg-query", "ldconfig", "ldd"):
            write_program(self.folder / "programs" / name, RECORDS)
        self.pack("DEBS/UBUNTU2204/x86_64/libnccl-ofi_1.20.0-1_amd64.deb")

    @property
    def root(self) -> Path:
        """The folder in place of /."""
        return self.folder / "system"

    def pack(self, *packages: str) -> None:
        """Write the archive, with the installer and these packages."""
        installer = self.folder / "efa_installer.sh"
        installer.write_text(INSTALLER)
        installer.chmod(0o755)
        with tarfile.open(self.folder / "archive", "w:gz") as packed:
            for name in ("efa_installer.sh", *packages):
                packed.add(installer, arcname=f"aws-efa-installer/{name}")

    def run(self, version: str = "1.49.0", checksum: str = "") -> "subprocess.CompletedProcess[str]":
        """Run the script; by default with the checksum of the archive."""
        checksum = checksum or hashlib.sha256((self.folder / "archive").read_bytes()).hexdigest()
        environment = {**os.environ, **self.variables, "PATH": f"{self.folder / 'programs'}:{os.environ['PATH']}"}
        environment |= {"CALLS": str(self.folder / "calls"), "SYSTEM": str(self.root)}
        environment |= {"ARCHIVE": str(self.folder / "archive"), "TMPDIR": str(self.folder)}
        command = [str(SCRIPT), version, checksum, str(self.root)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def calls(self) -> list[str]:
        """Return the commands that were run."""
        calls = self.folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []

    def link(self, name: str) -> Path:
        """Return the target of a link in the loader's default folder."""
        return (self.root / "usr/lib/x86_64-linux-gnu" / name).readlink()


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build(tmp_path)


def test_the_installer_runs_and_nccl_finds_its_plugin(build: Build) -> None:
    done = build.run()
    assert done.returncode == 0, done.stderr
    calls = build.calls()
    assert any(call.endswith("https://efa-installer.amazonaws.com/aws-efa-installer-1.49.0.tar.gz") for call in calls)
    assert "efa_installer.sh -y --skip-kmod --skip-limit-conf --no-verify" in calls
    plugin = build.root / "opt/amazon/ofi-nccl/lib64/libnccl-net-ofi.so"
    assert build.link("libnccl-net.so") == plugin
    assert build.link("libcudart.so") == build.runtime
    assert (build.root / "etc/ld.so.conf.d/libfabric.conf").read_text().startswith("/opt/amazon/efa/lib\n")
    assert done.stdout.endswith(f"EFA 1.49.0: NCCL's plugin is {plugin}.\n")
    assert not list(build.folder.glob("tmp.*")), "700 MB that the image does not need"


def test_the_other_open_mpi_is_removed(build: Build) -> None:
    """Its libraries have the names of Debian's, with which Horovod was compiled."""
    build.run()
    assert "apt-get purge -y openmpi40-aws openmpi50-aws" in build.calls()


def test_nothing_of_another_archive_runs(build: Build) -> None:
    done = build.run(checksum="a" * 64)
    assert done.returncode == 1
    found = hashlib.sha256((build.folder / "archive").read_bytes()).hexdigest()
    assert f"the SHA-256 of aws-efa-installer-1.49.0.tar.gz is {found}, and EFA_SHA256 is {'a' * 64}." in done.stderr
    assert "set efa: none for the image in grid.yaml" in done.stderr
    assert not [call for call in build.calls() if call.startswith("efa_installer")]


def test_efa_off_runs_nothing(build: Build) -> None:
    done = build.run("none")
    assert (done.returncode, build.calls()) == (0, [])
    assert done.stdout == "EFA is off: between hosts, NCCL uses TCP.\n"


def test_a_system_without_the_plugin_gets_that_of_a_compatible_one(build: Build) -> None:
    build.variables["PLUGIN"] = ""
    done = build.run()
    assert done.returncode == 0, done.stderr
    assert build.link("libnccl-net.so").read_text() == "of a package for Ubuntu"


def test_a_build_without_any_plugin_fails(build: Build) -> None:
    build.variables["PLUGIN"] = ""
    build.pack()
    done = build.run()
    assert done.returncode == 1
    assert "the installer has no NCCL plugin for this system, without which NCCL uses TCP." in done.stderr


@pytest.mark.parametrize(
    ("fabric", "reason"),
    [
        ("not found", "libnccl-net-ofi.so lacks libraries:\tlibfabric.so.1 => not found"),
        (
            "/lib/x86_64-linux-gnu/libfabric.so.1",
            "NCCL's plugin would load /lib/x86_64-linux-gnu/libfabric.so.1, which is not AWS's libfabric.",
        ),
    ],
)
def test_a_plugin_without_awss_libfabric_fails_the_build(build: Build, fabric: str, reason: str) -> None:
    build.variables["FABRIC"] = fabric
    done = build.run()
    assert done.returncode == 1
    assert reason in done.stderr


def test_an_archive_that_cannot_be_downloaded_is_named(build: Build) -> None:
    (build.folder / "programs/curl").write_text("#!/bin/sh\nexit 22\n")
    done = build.run()
    assert done.returncode == 1
    assert "https://efa-installer.amazonaws.com/aws-efa-installer-1.49.0.tar.gz cannot be downloaded." in done.stderr
