"""Traces: reads the public traces of spot capacity of "Can't Be Late" (https://github.com/skypilot-org/spot-traces).

They have no licence, so none is part of this repository. Nine zones with one V100 for 45 days from 15 February 2023, a
sample every 195 s; three zones with 16 V100s for 11 or 16 days from 27 August 2023, a sample every 300 s.
"""

import json
from collections.abc import Mapping
from pathlib import Path

ONE_NODE = "availability/1-node/aws-02-15-2023"
SIXTEEN_NODES = "availability/16-node/aws-08-27-2023"
REGIONS = ("us-east-1", "us-east-2", "us-west-2")
_GAPS = {ONE_NODE: 195.0, SIXTEEN_NODES: 300.0}
_NODES = {ONE_NODE: 1, SIXTEEN_NODES: 16}


def zones(folder: Path, part: str) -> Mapping[str, bytes]:
    """Return whether each zone of a part has capacity for all nodes, for each sample.

    Raises:
        SystemExit: The folder does not hold the traces.
    """
    capacity = {}
    for file in sorted((folder / part).glob("*.json")):
        trace = json.loads(file.read_text())
        if trace["metadata"]["gap_seconds"] != _GAPS[part]:
            raise SystemExit(f"{file} has a sample every {trace['metadata']['gap_seconds']} s, not {_GAPS[part]}.")
        capacity[file.name.partition("_")[0]] = bytes(nodes >= _NODES[part] for nodes in trace["data"])
    if not capacity:
        source = "Clone https://github.com/skypilot-org/spot-traces, and unpack its archives there."
        raise SystemExit(f"{folder / part} has no traces. {source}")
    return capacity


def gap(part: str) -> float:
    """Return the seconds between two samples of a part."""
    return _GAPS[part]


def regions(of_zones: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return whether any zone of each Region has capacity, for each sample."""
    return {
        region: bytes(map(max, zip(*(zone for name, zone in of_zones.items() if name.startswith(region)), strict=True)))
        for region in REGIONS
    }
