"""Generated manifests: hypothesis strategies for mostly valid lines, as careless programs write them, and damage."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

Form = Literal["plain", "csv", "json"]

NAMES = st.text(alphabet="abcXYZ019_.-", min_size=1, max_size=12)
VALUES = st.one_of(
    st.integers(-(10**6), 10**6), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20)
)
GARBAGE = st.recursive(
    VALUES | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "name": st.text(max_size=20),
    "image": st.sampled_from(["resnet", "resnett", "a/b:1"]),
    "hyperparameters": st.dictionaries(NAMES, VALUES, max_size=4),
    "environment": st.dictionaries(NAMES, VALUES, max_size=4),
    "tags": st.dictionaries(NAMES, VALUES, max_size=4),
    "instance_count": st.integers(-2, 8),
    "volume_gb": st.integers(-2, 800),
    "spot": st.booleans(),
    "max_runtime": st.sampled_from(["1h", "2d", "29d", "x"]),
    "max_wait": st.sampled_from(["1h", "3d"]),
    "checkpoints": st.booleans(),
    "metrics": st.lists(NAMES, max_size=3),
    "priority": st.integers(-1, 3),
    "retries": st.integers(-1, 31),
}
PREFIXES = {"hyperparameters": "hp.", "environment": "env.", "tags": "tag.", "replicas": "replica."}
"""Column prefixes of the fields that are mappings."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A manifest and the values it was generated from.

    Attributes:
        lines: The fields of each line.
        damaged: True if bytes were changed after generation.
    """

    content: bytes
    form: Form
    lines: list[dict[str, Any]]
    damaged: bool


@st.composite
def manifest_lines(draw: st.DrawFn, buckets: Mapping[str, str]) -> dict[str, Any]:
    """Return a line's fields: mostly valid, and with one odd value in every fifth line.

    Args:
        buckets: A readable bucket for each training Region.
    """
    regions = list(buckets)
    region = draw(st.sampled_from(regions))
    line: dict[str, Any] = {"region": region, "s3_uri": f"s3://{buckets[region]}/{draw(NAMES)}"}
    for name in draw(st.lists(st.sampled_from([*FIELDS, "replicas"]), unique=True, max_size=5)):
        if name == "replicas":
            bucket_by_region = draw(
                st.dictionaries(st.sampled_from(regions), st.sampled_from(list(buckets.values())), max_size=2)
            )
            line[name] = {other_region: f"s3://{bucket}/x" for other_region, bucket in bucket_by_region.items()}
        else:
            line[name] = draw(FIELDS[name])
    if draw(st.integers(0, 4)) == 0:
        line[draw(st.sampled_from([*line, "role", "epochs"]))] = draw(GARBAGE)
    return line


@st.composite
def manifests(draw: st.DrawFn, buckets: Mapping[str, str]) -> Manifest:
    """Return a manifest of one to four lines in one of the three forms; every third manifest is damaged."""
    lines = draw(st.lists(manifest_lines(buckets), min_size=1, max_size=4))
    form: Form = draw(st.sampled_from(FORMS))
    content = WRITERS[form](lines)
    chance = draw(st.randoms(use_true_random=False))
    damaged = chance.random() < 1 / 3
    if damaged:
        for _ in range(chance.randint(1, 3)):
            content = damage(content, chance)
    return Manifest(content=content, form=form, lines=lines, damaged=damaged)


def damage(content: bytes, chance: random.Random) -> bytes:
    """Return content with one byte changed, removed or inserted, or with one line duplicated."""
    place = chance.randrange(len(content) + 1)
    match chance.randrange(4):
        case 0:
            return content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]
        case 1:
            return content[:place] + content[place + 1 :]
        case 2:
            return content[:place] + bytes([chance.randrange(256)]) + content[place:]
        case _:
            lines = content.splitlines(keepends=True) or [b""]
            line = chance.randrange(len(lines))
            return b"".join([*lines[: line + 1], *lines[line:]])


def as_csv(lines: list[dict[str, Any]]) -> bytes:
    """Return lines as CSV with a header, without quoting, as a careless program writes it."""
    flat = []
    for line in lines:
        cells: dict[str, Any] = {}
        for name, value in line.items():
            if name in PREFIXES and isinstance(value, dict):
                cells |= {f"{PREFIXES[name]}{key}": entry for key, entry in value.items()}
            else:
                cells[name] = " ".join(map(str, value)) if isinstance(value, list) else value
        flat.append(cells)
    columns = list(dict.fromkeys(name for cells in flat for name in cells))
    return "\n".join(
        [",".join(columns), *(",".join(str(cells.get(name, "")) for name in columns) for cells in flat)]
    ).encode(errors="surrogatepass")


def as_json_lines(lines: list[dict[str, Any]]) -> bytes:
    """Return lines as JSON Lines."""
    return "\n".join(map(json.dumps, lines)).encode()


def as_plain(lines: list[dict[str, Any]]) -> bytes:
    """Return lines in the plain form, which has only the columns region, s3_uri and name."""
    rows = (
        ",".join(str(line[name]) for name in ("region", "s3_uri", "name") if line.get(name) is not None)
        for line in lines
    )
    return "\n".join(rows).encode(errors="surrogatepass")


WRITERS: Mapping[Form, Callable[[list[dict[str, Any]]], bytes]] = {
    "plain": as_plain,
    "csv": as_csv,
    "json": as_json_lines,
}
FORMS: tuple[Form, ...] = tuple(WRITERS)
