"""Line validation: checks every field of one manifest row, and combinations of fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from traingrid.job.launchers import ADDED, launcher_of
from traingrid.job.ownership import tags_of
from traingrid.manifest import eks_checks, plan_fields, values
from traingrid.manifest.algorithm_checks import wrong_algorithm
from traingrid.manifest.channel_checks import channel, wrong_channels
from traingrid.manifest.columns import FIELDS, MAPPINGS, unknown_field
from traingrid.manifest.errors import LineError
from traingrid.manifest.initial_model_checks import initial_model, wrong_initial_model
from traingrid.manifest.keep_alive_rules import keep_alive_rules
from traingrid.manifest.launcher_checks import wrong_launcher
from traingrid.manifest.limits import most
from traingrid.manifest.line import MAX_NAME_CHARACTERS, Line, hyperparameters, is_algorithm, is_ours
from traingrid.manifest.move_checks import copy_source
from traingrid.manifest.profile_checks import profile, wrong_profile
from traingrid.manifest.queue_checks import wrong_queue
from traingrid.manifest.trainer_checks import wrong_hyperparameters
from traingrid.manifest.training_plan_checks import plans_of
from traingrid.manifest.values import RefusedError, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traingrid.aws.s3_uri import S3Uri
    from traingrid.job.job import Inputs
    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.rows import Row

_T = TypeVar("_T")
# A line with more errors than this is not a manifest line, and further errors add no information.
_MAX_ERRORS = 20
_PREFIXES = {mapping: prefix for prefix, mapping in MAPPINGS.items()}
_FOLDER = "Write s3://bucket/prefix, the folder above train/ and validation/."
# The number of tags that traingrid adds to every training job.
_OUR_TAGS = len(tags_of("", "", 0, ""))
# The number of hyperparameters that name a program (backends/sagemaker_request.py).
_PROGRAM = 2


def checked_line(row: Row, rules: Rules) -> Line | list[LineError]:
    """Return the row as a checked line, or all its errors."""
    return _Check(row, rules).line()


@dataclass
class _Check:
    row: Row
    rules: Rules
    errors: list[LineError] = field(default_factory=list)

    def line(self) -> Line | list[LineError]:
        row = self.row
        if row.values.keys() - _KNOWN:
            for name in [name for name in row.values if name not in _KNOWN][:_MAX_ERRORS]:
                self.errors.append(unknown_field(row.number, name, csv_form=row.csv))
        region = self._read("region", self.rules.region, required="Name one of the grid's training Regions.") or ""
        wanted = region or str(row.values.get("region"))  # so that one invalid Region causes one error
        data, inputs = self._data(wanted)
        settings = self._settings(wanted) if len(row.values) > 2 else {}
        replicas = self._replicas(wanted, inputs, settings) if "replicas" in row.values else {}
        source = self._read("copy_from", partial(copy_source, region=wanted, row=row.values, rules=self.rules))
        name = self._read("name", _name) or _name_of(data, inputs)
        for error in (
            *(() if self.errors else wrong_launcher(settings, self.rules.grid)),
            *plan_fields.wrong_residency((wanted, *replicas), settings, self.rules.grid),
            *plan_fields.wrong_types(settings, self.rules.grid),
            *wrong_profile(settings, self.rules.grid),
        ):
            self._refuse(*error)
        if not self.errors:
            self._check_channels((data or inputs, *replicas.values()), settings)
        if not self.errors and row.values.get("training_plan") not in (None, "", {}):
            self._plans((region, *replicas), settings)
        if self.errors:
            return self.errors[:_MAX_ERRORS]
        line = Line(
            number=row.number,
            region=region,
            name=name,
            data=data,
            inputs=inputs,
            settings=settings,
            replicas=replicas,
            copy_from=source,
        )
        for label, value, refused in eks_checks.wrong_backends(line, self.rules.deployment):
            self._refuse(label, value, refused)
        for label, value, refused in wrong_queue(line, self.rules.deployment):
            self._refuse(label, value, refused)
        for name, entry, value, refused in (
            *wrong_algorithm(line, self.rules.deployment),
            *wrong_hyperparameters(line, self.rules.grid),
        ):
            self._refuse(self._label(name, entry), value, refused)
        return self.errors[:_MAX_ERRORS] or line

    def _read(self, name: str, read: Callable[[Any], _T], required: str = "") -> _T | None:
        """Return a field's value, or None if the field is absent or invalid; record an error if it is invalid."""
        value = self.row.values.get(name)
        if value is None or value == "":
            if required:
                self._refuse(name, "", RefusedError("a value is required", required))
            return None
        return self._entry(name, value, read)

    def _entry(self, label: str, value: object, read: Callable[[Any], _T]) -> _T | None:
        try:
            return read(value)
        except RefusedError as refused:
            self._refuse(label, value, refused)
        return None

    def _refuse(self, label: str, value: object, refused: RefusedError) -> None:
        shown = "" if refused.secret or value == "" else literal(value)
        self.errors.append(
            LineError(
                line=self.row.number, field=label, value=shown, reason=refused.reason, next_step=refused.next_step
            )
        )

    def _label(self, name: str, entry: str) -> str:
        """Return the name of a mapping's entry in an error: its column in CSV, its path in JSON."""
        if not entry:
            return name
        entry = entry if entry.isprintable() and len(entry) <= 64 else literal(entry[:64])
        return f"{_PREFIXES[name]}{entry}" if self.row.csv else f"{name}.{entry}"

    def _mapping(self, name: str) -> dict[str, Any]:
        found = self.row.values.get(name)
        if isinstance(found, dict | None):
            return found or {}
        self._refuse(name, found, RefusedError("must be an object", 'Write {"name": value}.'))
        return {}

    def _texts(self, name: str, read: Callable[[str, Any], str]) -> dict[str, str]:
        entries: dict[str, str] = {}
        for key, value in self._mapping(name).items():
            if len(self.errors) >= _MAX_ERRORS:
                break
            try:
                entries[key] = read(key, value)
            except RefusedError as refused:
                self._refuse(self._label(name, key), value, refused)
        return entries

    def _data(self, region: str) -> tuple[S3Uri | None, Inputs]:
        given = [name for name in ("s3_uri", "inputs") if self.row.values.get(name) not in (None, "", {})]
        if len(given) == 2:
            reason = "s3_uri and inputs cannot be combined"
            self._refuse("s3_uri", self.row.values["s3_uri"], RefusedError(reason, "Remove one of them."))
            return None, {}
        if given == ["inputs"]:
            return None, self._inputs(region)
        if not given and self.row.values.get("s3_uri") is None:
            self._refuse("s3_uri", "", RefusedError("s3_uri or inputs is required", _FOLDER))
            return None, {}
        uri = self.row.values["s3_uri"]
        return self._entry("s3_uri", uri or "", lambda uri: self.rules.data(uri, region, _FOLDER)), {}

    def _inputs(self, region: str) -> Inputs:
        found = {}
        for name, value in self._mapping("inputs").items():
            label = self._label("inputs", name)
            read = self._entry(label, value, partial(channel, name, region=region, rules=self.rules))
            if read:
                found[name] = read
        return found

    def _settings(self, region: str) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "hyperparameters": self._texts("hyperparameters", values.hyperparameter),
            "environment": self._texts("environment", values.variable),
            "tags": self._texts("tags", values.tag),
            "instance_type": self._read("instance_type", self.rules.instance_type),
            "output": self._read("output", lambda uri: self.rules.output(uri, region)),
            "checkpoints": self._read("checkpoints", lambda value: self._checkpoints(value, region)),
            "source": self._read("source", lambda uri: self._source(uri, region)),
            "init_from": self._read("init_from", initial_model),
            "profile": self._read("profile", profile),
            "instance_types": self._read("instance_types", self._types),
            **{name: self._read(name, read) for name, read in _SETTINGS.items()},
        }
        for name, read in (("image", self.rules.image), ("algorithm", self.rules.algorithm)):
            if self._read(name, partial(read, region=region)):
                settings[name] = self.row.values[name]  # unresolved: a replica resolves it in its own Region
        found = {name: value for name, value in settings.items() if value not in (None, {})}
        self._check_combinations(found)
        self._check_numbers(found)
        return found

    def _types(self, value: object) -> tuple[str, ...]:
        listed = plan_fields.words(value, "Write a list of instance types.")
        return tuple(self.rules.instance_type(name) for name in listed)

    def _checkpoints(self, value: object, region: str) -> bool | str:
        is_uri = isinstance(value, str) and "://" in value
        return self.rules.output(value, region) if is_uri else values.flag(value)

    def _source(self, uri: object, region: str) -> str:
        next_step = "Write s3://bucket/…/sourcedir.tar.gz; only `traingrid submit` packs and uploads a local folder."
        parsed = str(self.rules.data(uri, region, next_step))
        if not parsed.endswith(".tar.gz"):
            raise RefusedError("must be a .tar.gz archive", next_step)
        return values.text(parsed, "HyperParameterValue", next_step)

    def _replicas(self, region: str, inputs: Inputs, settings: dict[str, Any]) -> dict[str, S3Uri | Inputs]:
        found: dict[str, S3Uri | Inputs] = {}
        for other, value in self._mapping("replicas").items():
            label = self._label("replicas", other)
            read = partial(self._replica, other, region=region, inputs=inputs, settings=settings)
            place = self._entry(label, value, read)
            if place is not None:
                found[other] = place
        return found

    def _replica(
        self, other: str, value: object, region: str, inputs: Inputs, settings: dict[str, Any]
    ) -> S3Uri | Inputs:
        self.rules.region(other)
        if other == region:
            raise RefusedError("must differ from the job's own Region", "Remove this replica.")
        if "source" in settings:
            raise RefusedError("the line's source is in one Region only", "Remove source or the replicas.")
        if "image" in settings:
            self.rules.image(settings["image"], other)
        if not inputs:
            return self.rules.data(value, other, _FOLDER)
        if mounted := [name for name, original in inputs.items() if original.file_system]:
            reason = f"the channel {mounted[0]} is on a file system, which is in one Region only"
            raise RefusedError(reason, "Remove the replicas.")
        uris = value if isinstance(value, dict) else dict.fromkeys(inputs, value)
        if uris.keys() != inputs.keys() or (len(inputs) > 1 and not isinstance(value, dict)):
            example = ", ".join(f'"{name}": "s3://…"' for name in inputs)
            raise RefusedError("must have the same channels as inputs", f"Write {{{example}}} (JSON Lines).")
        return {
            name: channel(name, {**original.model_dump(exclude_unset=True), "uri": uris[name]}, other, self.rules)
            for name, original in inputs.items()
        }

    def _plans(self, regions: tuple[str, ...], settings: dict[str, Any]) -> None:
        """Set the training plans of a line, by Region."""
        found: dict[str, str] = {}
        for region, value, plan in plans_of(self.row.values["training_plan"], regions, settings, self.rules):
            if isinstance(plan, RefusedError):
                self._refuse(self._label("training_plan", region), value, plan)
            else:
                found[region] = plan
        if found:
            settings["training_plan"] = found

    def _check_combinations(self, found: dict[str, Any]) -> None:
        grid = self.rules.grid
        runtime, longest = found.get("max_runtime", grid.job.max_runtime), grid.training.max_runtime
        given = self.row.values  # a field with an invalid value counts as present
        algorithm = "algorithm" in given or is_algorithm(found, grid)
        most_output = _most_output_characters()
        rules = (
            ("algorithm", "image" in given, "algorithm and image cannot be combined", "Remove one of them."),
            ("metrics", algorithm, "an algorithm defines its own metrics", "Remove metrics."),
            ("source", algorithm, "an algorithm has its own program", "Remove source."),
            ("source", "entry_point" not in given, "source requires entry_point", "Name the program in the archive."),
            ("entry_point", "source" not in given, "entry_point requires source", "Name the program's archive."),
            (
                "max_runtime",
                runtime > longest,
                f"must be at most {longest} s, the limit of this grid",
                "Reduce it; the limit is max_runtime of `training` in grid.yaml.",
            ),
            (
                "output",
                is_ours(found, grid) and self.rules.output_uri_characters(found.get("output", "")) > most_output,
                f"its URI has more than {most_output} characters, too many for a variable of the grid's image",
                "Write a shorter folder.",
            ),
            ("max_wait", not found.get("spot"), "only valid for spot jobs", "Write spot true, or remove max_wait."),
            ("max_wait", found.get("max_wait", 0) < runtime, "must be at least max_runtime", "Increase max_wait."),
        )
        for name, wrong, reason, next_step in (*rules, *keep_alive_rules(found, given, grid)):
            if name in found and wrong:
                self._refuse(name, self.row.values[name], RefusedError(reason, next_step))

    def _check_numbers(self, found: dict[str, Any]) -> None:
        grid = self.rules.grid
        variables = len(found.get("environment", {})) + is_ours(found, grid) + ("profile" in found)
        started = 0 if is_algorithm(found, grid) else ADDED[launcher_of(found, grid.job)]
        added = _PROGRAM * ("source" in found) + started
        numbers = (
            ("hyperparameters", len(hyperparameters(found, grid)) + added, most("HyperParameters")),
            ("environment", variables, most("TrainingEnvironmentMap")),
            ("tags", len(found.get("tags", {})) + _OUR_TAGS, most("TagList")),
        )
        for name, number, greatest in numbers:
            if number > greatest:
                reason = f"with those of the grid, there are {number} entries, and SageMaker allows at most {greatest}"
                self._refuse(name, "", RefusedError(reason, "Remove some entries."))

    def _check_channels(self, places: Iterable[S3Uri | Inputs], settings: dict[str, Any]) -> None:
        reported = set()
        grid = self.rules.grid
        for place in places:
            for label, value, refused in (
                *wrong_channels(place, settings, grid),
                *wrong_initial_model(place, settings, grid),
            ):
                if (label, refused.reason) not in reported:
                    self._refuse(label, value, refused)
                reported.add((label, refused.reason))


_KNOWN = frozenset(FIELDS)
_SETTINGS = values.SETTINGS | plan_fields.SETTINGS | eks_checks.SETTINGS


@cache
def _most_output_characters() -> int:
    """Return the maximum length of an output URI that is the beginning of TRAINGRID_TENSORBOARD."""
    return most("TrainingEnvironmentValue") - len("tensorboard/")


def _name(name: object) -> str:
    next_step = "Write a shorter name of printable characters."
    if not isinstance(name, str):
        raise RefusedError("must be text", next_step)
    if len(name) > MAX_NAME_CHARACTERS:
        raise RefusedError(f"must have at most {MAX_NAME_CHARACTERS} characters; got {len(name)}", next_step)
    if not name.isprintable():
        raise RefusedError("must not contain control characters", next_step)
    return name


def _name_of(data: S3Uri | None, inputs: Inputs) -> str:
    name = str(data or next((channel.location for channel in inputs.values()), ""))
    return name.rstrip("/").rpartition("/")[2][:MAX_NAME_CHARACTERS]
