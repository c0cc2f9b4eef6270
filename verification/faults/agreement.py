"""Agreement check: compares parsed manifests with the values they were generated from, without traingrid's parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.manifest.line import jobs_of_lines
from verification.faults.generated_manifests import PREFIXES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.manifest.parse import Line
    from verification.faults.generated_manifests import Manifest

    _Reader = Callable[[Line, Job, Any], tuple[Any, Any]]

_DURATIONS = {"1h": 3600, "2d": 2 * 86400, "3d": 3 * 86400}


def disagreements(manifest: Manifest, lines: Sequence[Line], deployment: Deployment) -> Iterator[str]:
    """Yield a message for each difference between an accepted manifest and the values it was generated from.

    Args:
        manifest: The generated manifest, undamaged.
        lines: The lines that traingrid parsed.
        deployment: The grid that the manifest is for.
    """
    if len(lines) != len(manifest.lines):
        # In CSV, a line whose Region begins with # is a comment. JSON has no comments.
        if manifest.form == "json" or all(str(line["region"])[:1].isalpha() for line in manifest.lines):
            yield f"has {len(manifest.lines)} lines and is accepted with {len(lines)}"
        return
    jobs = {job.line: job for job in jobs_of_lines(lines, deployment, "0123abcd")}
    for expected_line, line in zip(manifest.lines, lines, strict=True):
        job = jobs[line.number]
        for name, value in _certain_fields(manifest, expected_line).items():
            read = _READERS.get(name)
            actual, expected = read(line, job, value) if read else (value, value)
            if actual != expected:
                yield f"specifies {name} {expected!r} in line {line.number}, but is parsed as {actual!r}"


def _certain_fields(manifest: Manifest, line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields whose values a line specifies unambiguously, as text or JSON depending on its form.

    Omits fields that the form cannot express, and text with characters that are special in CSV.
    """
    fields: dict[str, Any] = {}
    for name in ("region", "s3_uri", "name") if manifest.form == "plain" else tuple(line):
        value = line.get(name)
        if isinstance(value, dict) and (manifest.form == "json" or name in PREFIXES):
            entries = {key: _written(manifest, entry) for key, entry in value.items() if _is_certain(manifest, entry)}
            fields |= {name: entries} if entries else {}
        elif _is_certain(manifest, value):
            fields[name] = _written(manifest, value)
    return fields


def _is_certain(manifest: Manifest, value: Any) -> bool:
    if value is None or value in ("", {}, []):
        return False
    if manifest.form == "json":
        return True
    text = str(value)
    plain = text.isascii() and text.isprintable() and text == text.strip() and not set(text) & set('",#')
    return plain and not isinstance(value, list | dict)


def _written(manifest: Manifest, value: Any) -> Any:
    return value if manifest.form == "json" else str(value)


def _text(value: Any) -> str:
    """Return a value as a container receives it: booleans as in JSON, all other values as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(name: str) -> _Reader:
    def read(_line: Line, job: Job, value: Any) -> tuple[Any, Any]:
        texts: dict[str, str] = getattr(job, name)
        return {key: texts.get(key) for key in value}, {key: _text(entry) for key, entry in value.items()}

    return read


def _number(name: str) -> _Reader:
    return lambda _line, job, value: (str(getattr(job, name)), str(value))


def _duration(name: str) -> _Reader:
    return lambda _line, job, value: (getattr(job, name), _DURATIONS.get(value, getattr(job, name)))


def _metrics(_line: Line, job: Job, value: Any) -> tuple[Any, Any]:
    metrics = sorted(job.metrics)
    return metrics, sorted(set(value)) if isinstance(value, list) else metrics


_READERS: dict[str, _Reader] = {
    "region": lambda line, _job, value: (line.region, value),
    "s3_uri": lambda line, _job, value: (str(line.data), str(value).rstrip("/")),
    "name": lambda line, _job, value: (line.name, value),
    "image": lambda line, _job, value: (line.settings.image, value),
    "spot": lambda _line, job, value: (_text(job.spot), str(value).lower()),
    "checkpoints": lambda _line, job, value: (bool(job.checkpoints), str(value).lower() != "false"),
    "metrics": _metrics,
    "replicas": lambda _line, job, value: (set(value) - set(job.replicas), set()),
    "max_runtime": _duration("max_runtime_seconds"),
    "max_wait": _duration("max_wait_seconds"),
    "keep_alive": _duration("keep_alive_seconds"),
    **{name: _number(name) for name in ("instance_count", "volume_gb", "priority", "retries")},
    **{name: _texts(name) for name in ("hyperparameters", "environment", "tags")},
}
"""By field: a function from a line, its job and the specified value to the actual and the expected value."""
