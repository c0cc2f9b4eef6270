"""kubeconfig: the file with which `kubectl` uses the clusters of this server, as the user of their account.

It has the entries that `aws eks update-kubeconfig` writes
(https://docs.aws.amazon.com/eks/latest/userguide/create-kubeconfig.html); `kubectl` gets its tokens from `print_token`.
Entries of a user stay in the file.
"""

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

KUBECONFIG = "kubeconfig"
"""Name of the file in the server's folder."""
_LISTS = ("clusters", "users", "contexts")
_EMPTY: Mapping[str, Any] = {"apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": ""}


class Kubeconfig:
    """The file of a server.

    Args:
        folder: The server's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def start(self) -> None:
        """Write a file without clusters, because the clusters of the previous server have ended."""
        with self._lock:
            self._write({**_EMPTY, **{name: [] for name in _LISTS}})

    def add(self, described: Mapping[str, Any]) -> None:
        """Add a cluster and make it the current one; its name in the file is its ARN."""
        arn = str(described["arn"])
        address = {
            "server": described["endpoint"],
            "certificate-authority-data": described["certificateAuthority"]["data"],
        }
        new_entries = {
            "clusters": {"name": arn, "cluster": address},
            "users": {"name": arn, "user": {"exec": self._command(arn)}},
            "contexts": {"name": arn, "context": {"cluster": arn, "user": arn}},
        }
        with self._lock:
            content = self._entries_without(arn)
            for name, entry in new_entries.items():
                content[name].append(entry)
            self._write({**content, "current-context": arn})

    def remove(self, arn: str) -> None:
        """Remove a cluster."""
        with self._lock:
            content = self._entries_without(arn)
            current_context = content["contexts"][-1]["name"] if content["contexts"] else ""
            current = current_context if content.get("current-context") == arn else content.get("current-context", "")
            self._write({**content, "current-context": current})

    def _entries_without(self, arn: str) -> dict[str, Any]:
        content = yaml.safe_load((self._folder / KUBECONFIG).read_text()) or {}
        lists = {name: [entry for entry in content.get(name) or [] if entry["name"] != arn] for name in _LISTS}
        return {**_EMPTY, **content, **lists}

    def _write(self, content: Mapping[str, Any]) -> None:
        new = self._folder / f"{KUBECONFIG}.new"
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            yaml.safe_dump(dict(content), file, sort_keys=False)
        new.replace(self._folder / KUBECONFIG)

    def _command(self, arn: str) -> dict[str, Any]:
        """Return the command that prints a token.

        Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
        """
        return {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-m", "localcloud.server.print_token", str(self._folder), arn],
            "env": [{"name": "PYTHONPATH", "value": str(Path(__file__).parents[2])}],
            "interactiveMode": "Never",
        }
