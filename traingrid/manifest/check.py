"""Line validation: reads every field of one manifest row, and runs the checks of fields together."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from traingrid.manifest import readers
from traingrid.manifest.channel import channel
from traingrid.manifest.checks import CHECKS
from traingrid.manifest.columns import similar_field, unknown_field
from traingrid.manifest.copy_source import copy_source
from traingrid.manifest.entry_names import STEP, mixed_up
from traingrid.manifest.errors import LineError
from traingrid.manifest.fields import FIELDS, NO_SETTINGS, SETTINGS, LineSettings
from traingrid.manifest.limits import limit_problem, most
from traingrid.manifest.line import Line
from traingrid.manifest.problem import Problem, RefusedError, literal, problem_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from traingrid.aws.s3_uri import S3Uri
    from traingrid.job.job import Inputs
    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.field import Reader
    from traingrid.manifest.rows import Row

_T = TypeVar("_T")
# A line with more errors than this is not a manifest line, and further errors add no information.
_MAX_ERRORS = 20
_PLAIN_FIELDS = 3
"""A Region, a folder and a name."""
_FOLDER = "Write s3://bucket/prefix, the folder with the data."


class LineCheck:
    """Checks the lines of one manifest.

    Args:
        rules: The allow-lists of the deployment.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        # The Regions of plain lines without a problem. The checks have the same result for all of them, unless a queue
        # limits the bytes of the request, of which the URI is a part.
        self._plain_regions: set[str] = set()

    def checked(self, row: Row) -> Line | list[LineError]:
        """Return the row as a checked line, or all its errors."""
        unknown = [name for name in row.values if name not in FIELDS][:_MAX_ERRORS]
        errors = [unknown_field(row.number, name, csv_form=row.csv) for name in unknown]
        reading = _Reading(row, self._rules)
        line = reading.line()
        is_plain = len(row.values) <= _PLAIN_FIELDS and _is_plain(line) and self._rules.grid.job.launch == "direct"
        if is_plain and line.region in self._plain_regions and not errors and not reading.problems:
            return line
        problems = [*reading.problems, *(problem for check in CHECKS[0] for problem in check(line, self._rules))]
        for group in CHECKS[1:]:
            if errors or problems:
                break
            problems = [problem for check in group for problem in check(line, self._rules)]
        misspelled = {similar_field(name, csv_form=row.csv) for name in unknown} | row.misspelled
        errors += [_error(row, problem) for problem in problems if not _concerns(problem, misspelled)]
        if is_plain and not errors:
            self._plain_regions.add(line.region)
        return errors[:_MAX_ERRORS] or line


def _is_plain(line: Line) -> bool:
    """Return True if a line has only a Region and a folder that is short enough for the URI of any channel in it."""
    if line.data is None or line.settings is not NO_SETTINGS or line.replicas or line.copy_from:
        return False
    uri = str(line.data)
    return len(uri) + most("ChannelName") < most("S3Uri") and not limit_problem("S3Uri", uri)


def _concerns(problem: Problem, fields: Collection[str]) -> bool:
    """Return True if a problem names one of the fields whose names are misspelled on its line.

    It may only follow from the misspelling; if it does not, it is reported once the name is right.
    """
    words = set(re.findall(r"\w+", f"{problem.field} {problem.reason} {problem.next_step}")) if fields else set()
    return not words.isdisjoint(fields)


def _error(row: Row, problem: Problem) -> LineError:
    """Return a problem with the line's number and the name of the entry: its column in CSV, its path in JSON."""
    name = problem.field
    value = row.values.get(name) if problem.value is None else problem.value
    if entry := problem.entry:
        entry = entry if entry.isprintable() and len(entry) <= 64 else literal(entry[:64])
        name = f"{FIELDS[name].prefix}{entry}" if row.csv else f"{name}.{entry}"
    value_text = "" if problem.secret or value == "" else literal(value)
    return LineError(line=row.number, field=name, value=value_text, reason=problem.reason, next_step=problem.next_step)


@lru_cache(maxsize=256)
def _field_names(names: tuple[str, ...]) -> frozenset[str]:
    """Return the names as a set, one for all lines with the same fields."""
    return frozenset(names)


class _Reading:
    """Reads the fields of a row one by one, and collects the problems of those that are invalid.

    Args:
        rules: The allow-lists of the deployment.

    Attributes:
        problems: The problems of the fields that have been read.
    """

    def __init__(self, row: Row, rules: Rules) -> None:
        self._row = row
        self._rules = rules
        self._region = str(row.values.get("region"))
        self.problems: list[Problem] = []

    def line(self) -> Line:
        """Return the line, without the fields that are invalid."""
        values, rules = self._row.values, self._rules
        region = self._read("region", rules.region)
        if values.get("region") in (None, ""):
            self._refuse("region", "", "a value is required", "Name one of the grid's training Regions.")
        data, inputs = self._data()
        settings = self._settings() if len(values) > 2 else NO_SETTINGS
        replicas = self._replicas(inputs, settings) if "replicas" in values else {}
        read_copy_source = partial(copy_source, region=self._region, row=values, rules=rules)
        return Line(
            number=self._row.number,
            region=region or self._region,  # so that one invalid Region causes one error
            name=self._read("name", readers.name) or _name_of(data, inputs),
            data=data,
            inputs=inputs,
            settings=settings,
            replicas=replicas,
            copy_from=self._read("copy_from", read_copy_source) if "copy_from" in values else None,
            fields=_field_names(tuple(name for name, value in values.items() if value not in (None, "", {}))),
        )

    def _refuse(self, field: str, value: object, reason: str, next_step: str) -> None:
        self.problems.append(Problem(field, value, reason, next_step))

    def _read(self, name: str, read: Callable[[Any], _T]) -> _T | None:
        """Return a field's value, or None if the field is absent or invalid."""
        value = self._row.values.get(name)
        return None if value is None or value == "" else self._entry(name, "", value, read)

    def _entry(self, field: str, entry: str, value: object, read: Callable[[Any], _T]) -> _T | None:
        try:
            return read(value)
        except RefusedError as error:
            self.problems.append(problem_of(field, value, error, entry))
        return None

    def _mapping(self, name: str) -> dict[str, Any]:
        value = self._row.values.get(name)
        if isinstance(value, dict | None):
            return value or {}
        self._refuse(name, value, "must be an object", 'Write {"name": value}.')
        return {}

    def _entries(self, name: str, read: Callable[[str, object], _T]) -> dict[str, _T]:
        """Return the valid entries of a mapping."""
        entries: dict[str, _T] = {}
        for entry, given_value in self._mapping(name).items():
            if len(self.problems) >= _MAX_ERRORS:
                break
            value = self._entry(name, entry, given_value, partial(read, entry))
            if value is not None:
                entries[entry] = value
        return entries

    def _data(self) -> tuple[S3Uri | None, Inputs]:
        values = self._row.values
        data_fields = [name for name in ("s3_uri", "inputs") if values.get(name) not in (None, "", {})]
        if len(data_fields) == 2:
            self._refuse("s3_uri", values["s3_uri"], "s3_uri and inputs cannot be combined", "Remove one of them.")
            return None, {}
        if data_fields == ["inputs"]:
            read_channel = partial(channel, region=self._region, rules=self._rules)
            return None, self._entries("inputs", read_channel)
        uri = values.get("s3_uri")
        if uri is None:
            self._refuse("s3_uri", "", "s3_uri or inputs is required", _FOLDER)
            return None, {}
        return self._entry("s3_uri", "", uri, lambda uri: self._rules.data(uri, self._region, _FOLDER)), {}

    def _settings(self) -> LineSettings:
        """Return the fields of the line that have a value; the problems of wrong values are added to `problems`."""
        settings: dict[str, Any] = {}
        for name, field in SETTINGS.items():
            if self._row.values.get(name) in (None, "", {}):
                continue
            if field.read_entry:
                settings[name] = self._entries(name, field.read_entry)
                if name == "hyperparameters" and not self._row.csv:  # columns of CSV are checked once, in the header
                    self.problems += [
                        Problem(name, "", f"the hyperparameter {reason}", STEP, entry=entry)
                        for entry, reason in mixed_up(settings[name])
                    ]
            elif field.read:
                settings[name] = self._read(name, self._in_region(field.read))
        if "training_plan" in self._row.values:
            settings["training_plan"] = self._training_plans()
        return LineSettings(**settings) if settings else NO_SETTINGS

    def _in_region(self, read: Reader) -> Callable[[object], Any]:
        return lambda value: read(value, self._rules, self._region)

    def _training_plans(self) -> dict[str, str]:
        """Return the training plans of the line by Region, from an ARN in its own Region or from a mapping."""
        value = self._row.values["training_plan"]
        if isinstance(value, dict):
            return self._entries("training_plan", self._training_plan)
        plan = self._read("training_plan", lambda arn: self._rules.training_plan(arn, self._region))
        return {self._region: plan} if plan else {}

    def _training_plan(self, region: str, arn: object) -> str:
        replicas = self._row.values.get("replicas")
        regions = [self._region]
        if isinstance(replicas, dict):
            regions += replicas
        if region not in regions:
            next_step = f"Write {' or '.join(regions)}, or add the data of that Region to replicas."
            raise RefusedError("the line has no data in this Region", next_step)
        return self._rules.training_plan(arn, region)

    def _replicas(self, inputs: Inputs, settings: LineSettings) -> dict[str, S3Uri | Inputs]:
        return self._entries("replicas", partial(self._replica, inputs=inputs, settings=settings))

    def _replica(self, region: str, value: object, inputs: Inputs, settings: LineSettings) -> S3Uri | Inputs:
        """Return the data of a replica: its folder, or its channels with their URIs."""
        rules = self._rules
        rules.region(region)
        if region == self._region:
            raise RefusedError("must differ from the job's own Region", "Remove this replica.")
        if settings.source:
            raise RefusedError("the line's source is in one Region only", "Remove source or the replicas.")
        if settings.image:
            rules.image(settings.image, region)
        if not inputs:
            return rules.data(value, region, _FOLDER)
        if mounted_channels := [name for name, original in inputs.items() if original.file_system]:
            reason = f"the channel {mounted_channels[0]} is on a file system, which is in one Region only"
            raise RefusedError(reason, "Remove the replicas.")
        uris = value if isinstance(value, dict) else dict.fromkeys(inputs, value)
        if uris.keys() != inputs.keys() or (len(inputs) > 1 and not isinstance(value, dict)):
            example = ", ".join(f'"{name}": "s3://…"' for name in inputs)
            raise RefusedError("must have the same channels as inputs", f"Write {{{example}}} (JSON Lines).")
        return {
            name: channel(name, {**original.model_dump(exclude_unset=True), "uri": uris[name]}, region, rules)
            for name, original in inputs.items()
        }


def _name_of(data: S3Uri | None, inputs: Inputs) -> str:
    name = str(data or next((channel.location for channel in inputs.values()), ""))
    return name.rstrip("/").rpartition("/")[2][: readers.MAX_NAME_CHARACTERS]
