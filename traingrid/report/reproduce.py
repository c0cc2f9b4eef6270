"""Reproduction: the manifest, images, sources, settings and commands that train the same jobs again."""

from __future__ import annotations

import json
from collections import defaultdict
from shlex import quote
from typing import TYPE_CHECKING, Any

from traingrid.metrics.comparison import differing
from traingrid.report.elements import el, text
from traingrid.report.tables import Heading, cell, counted_rest, section, table
from traingrid.submission.manifest_text import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traingrid.job.job import Job
    from traingrid.report.content import Content
    from traingrid.report.elements import Markup

_MAX_LINES, _MAX_BYTES = 1000, 200_000
_MAX_ROWS = 200
_BY_TAG = "by its tag; the repository may have another image with this tag now"
_NO_LINES = "The lines of this submission, with their defaults, cannot be read."


def reproduce_section(content: Content) -> Markup:
    """Return the section with everything that a person needs to train the jobs again."""
    jobs = {run.key: run.job for run in content.runs if run.job}
    single = content.subject.series is None
    parts = [*_manifest(content), *_commands(content)] if single else [*_series(content), *_manifests(content)]
    if jobs:
        ordered = [jobs[key] for key in sorted(jobs)]
        parts += [*_images(ordered), *_settings(ordered)]
    else:
        parts.append(el("p", text(_NO_LINES)))
    return section("How to reproduce", *parts)


def _manifest(content: Content) -> Iterator[Markup]:
    (submission_item,) = content.heads
    version = f", version {submission_item.version}" if submission_item.version else ""
    digest = f", SHA-256 {submission_item.sha256}" if submission_item.sha256 else ""
    yield el("h3", text("Manifest"))
    yield el("p", text(f"{submission_item.manifest}{version}{digest}"), class_="small")
    if content.manifest is None:
        yield el("p", text("The manifest is not in S3 any longer."), class_="quiet small")
        return
    lines = lines_of(content.manifest[:_MAX_BYTES])
    first_lines = lines[:_MAX_LINES]
    yield el("pre", text("\n".join(first_lines)), class_="card")
    if omitted := counted_rest(len(first_lines), len(lines_of(content.manifest)), "lines"):
        yield omitted
    if any(run.item and any(attempt.reopened for attempt in run.item.tried) for run in content.runs):
        yield el("p", text("A user has retried jobs. The settings below are those of the last retry."), class_="small")


def _commands(content: Content) -> Iterator[Markup]:
    (submission_item,) = content.heads
    name = submission_item.manifest.rpartition("/")[2]
    version = f" --version-id {submission_item.version}" if submission_item.version else ""
    bucket, _, key = submission_item.manifest.removeprefix("s3://").partition("/")
    submission = submission_item.submission
    commands = [
        f"aws s3api get-object --bucket {quote(bucket)} --key {quote(key)}{version} {quote(name)}",
        f"traingrid submit --plan {quote(name)}    # prints the training jobs, with the defaults of the grid now",
        f"traingrid submit {quote(name)}",
        f"traingrid compare {submission}             # these runs, from the grid that has trained them",
        f"traingrid download {submission}            # their models",
    ]
    yield el("h3", text("Commands"))
    yield el("pre", text("\n".join(commands)), class_="card")


def _series(content: Content) -> Iterator[Markup]:
    """Yield the specification of a sweep or of rounds, as its journal has it, and its commands."""
    series = content.subject.series
    commands = [f"traingrid status {quote(str(series))}", f"traingrid compare {quote(str(series))}"]
    yield el("h3", text("Specification, without the keys that can be changed later"))
    yield el("pre", text(json.dumps(content.subject.spec, indent=1, sort_keys=True)[:_MAX_BYTES]), class_="card")
    yield el("h3", text("Commands"))
    yield el("pre", text("\n".join(commands)), class_="card")


def _manifests(content: Content) -> Iterator[Markup]:
    """Yield the table of the manifests of several submissions."""
    items = content.heads[:_MAX_ROWS]
    rows = [[*map(cell, (item.submission, item.jobs, item.manifest, item.version, item.sha256))] for item in items]
    headings = [
        *(Heading("submission"), Heading("jobs", "number"), Heading("manifest", "value")),
        *(Heading("version", "value"), Heading("SHA-256", "value")),
    ]
    yield el("h3", text("Manifests"))
    yield table("Manifests", headings, rows)
    if omitted := counted_rest(len(items), len(content.heads), "submissions"):
        yield omitted


def _images(jobs: Sequence[Job]) -> Iterator[Markup]:
    """Yield the table of images and sources."""
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for job in jobs:
        if job.image or job.algorithm:
            counts["image" if job.image else "algorithm", job.image or job.algorithm, _identity(job)] += 1
        if job.source:
            counts["source", f"{job.source} ({job.entry_point})", _source_hash(job.source)] += 1
    rows = [[*map(cell, (*described, count))] for described, count in counts.items()]
    headings = [Heading("kind"), Heading("address", "value"), Heading("identified", "value"), Heading("jobs", "number")]
    yield el("h3", text("Images and sources"))
    yield table("Images and sources", headings, rows[:_MAX_ROWS])
    if omitted := counted_rest(min(len(rows), _MAX_ROWS), len(rows), "images and sources"):
        yield omitted


def _identity(job: Job) -> str:
    if not job.image:
        return "by its name"
    return job.image.partition("@")[2] or _BY_TAG


def _source_hash(uri: str) -> str:
    """Return the SHA-256 of a source archive that traingrid uploaded, which is its name."""
    name = uri.rpartition("/")[2].removesuffix(".tar.gz")
    is_hash = len(name) == 64 and set(name) <= set("0123456789abcdef")
    return f"sha256:{name}" if is_hash else "by its address"


def _settings(jobs: Sequence[Job]) -> Iterator[Markup]:
    """Yield the settings that all jobs share, and those in which they differ."""
    flat = [dict(_dotted_fields("", job.model_dump(mode="json", exclude={"index", "line", "name"}))) for job in jobs]
    different = differing(flat)
    common = {name: value for name, value in flat[0].items() if name not in different}
    rows = [
        [cell(name), cell(value)] for name, value in sorted(common.items()) if value not in ("", "{}", "[]", "null")
    ]
    yield el("h3", text("Settings of all jobs, with every default"))
    yield table("Settings of all jobs", [Heading("field"), Heading("value", "value")], rows)
    if not different:
        return
    yield el("h3", text("Settings that differ"))
    first_jobs = list(zip(jobs, flat, strict=True))[:_MAX_ROWS]
    listed = [
        [*map(cell, (job.index, job.name, "\n".join(f"{name} = {fields.get(name, '')}" for name in sorted(different))))]
        for job, fields in first_jobs
    ]
    headings = [Heading("index", "number"), Heading("job", "name"), Heading("settings", "value lines")]
    yield table("Settings that differ", headings, listed)
    if omitted := counted_rest(len(first_jobs), len(jobs), "jobs; `traingrid describe` shows the line of each"):
        yield omitted


def _dotted_fields(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of nested settings with dotted names, and their values as texts."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _dotted_fields(f"{prefix}.{name}" if prefix else name, part)
    else:
        yield prefix, value if isinstance(value, str) else json.dumps(value)
