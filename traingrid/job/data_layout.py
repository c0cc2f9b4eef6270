"""Data layout: finds the channels of a data folder by its content (docs/input.md, "Channels of a folder").

A line with `s3_uri` names a folder, and grid.yaml the names of channels that it may have, of which the first one is
required. In this order:

1. Folders: a channel is the folder with its name, `train/`.
2. Prefixes: if the folder has files of a further channel, such as `validation-00000-of-00128`, a channel is all files
   whose names begin with its name and a hyphen. research/inception/inception/data/build_imagenet_data.py of
   https://github.com/tensorflow/models writes this layout into one folder, and train_imagenet_resnet_hvd.py of
   https://github.com/aws-samples/deep-learning-models reads it. SageMaker "uses all objects that match the specified
   key name prefix" (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3DataSource.html).
3. One folder: all files are the first channel.

A few pages of delimited listings decide, so the number of files does not matter.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.aws.s3_uri import S3Uri, prefix_of
from traingrid.errors import UsageError
from traingrid.job.channels import manifest_uri
from traingrid.strict_json import JsonError, json_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Protocol

    from traingrid.job.job import Inputs, Job

    class Listing(Protocol):
        """The method of `traingrid.aws.s3.Storage` that finds a layout."""

        def entries(self, prefix: S3Uri, token: str = "") -> tuple[list[str], str]:
            """See `Storage.entries`."""

    class Reading(Protocol):
        """The method of `traingrid.aws.s3.Storage` that reads a layout."""

        def read_if_exists(self, uri: S3Uri) -> bytes | None:
            """See `Storage.read_if_exists`."""

    class LayoutStorage(Listing, Reading, Protocol):
        """The methods of `traingrid.aws.s3.Storage` that agree on a layout."""

        def write_if_none(self, uri: S3Uri, content: bytes, content_type: str) -> bool:
            """See `Storage.write_if_none`."""


_PAGES = 10
"""The maximum number of pages, of 1,000 entries each, that one question reads."""
_AGREED = "channels"
_SHOWN_FOLDERS = 3
_KIND = re.compile(r"(train|validation|valid|val|test)(?![A-Za-z])(?!.*[A-Za-z].*/)", re.IGNORECASE)
"""As in training_container/trainer/data/shards.py: the trainer checks files, but the names of streams it cannot see."""
_OTHER_FORMATS = frozenset(
    {
        *(".csv", ".tsv", ".txt", ".md", ".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".xml", ".parquet", ".arrow"),
        *(".feather", ".npy", ".npz", ".pt", ".pth", ".safetensors", ".h5", ".hdf5", ".pkl", ".pickle", ".zip", ".tar"),
        *(".gz", ".tgz", ".bz2", ".xz", ".zst", ".wav", ".flac", ".mp3", ".mp4", ".tif", ".tiff", ".dcm", ".nii"),
    }
)
"""Suffixes of files that are neither TFRecords, which have any name, nor images that the built-in trainer decodes."""
_OTHER_FORMAT = "is neither a TFRecord file nor an image, and the image's own trainer reads only these."
_IMAGES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif"})
"""As in training_container/trainer/data/image_folder.py: those that the trainer for PyTorch refuses."""
_ONLY_RECORDS = "is an image, but the trainer for PyTorch, which launcher torchrun starts, reads only TFRecords."
_AS_RECORDS = (
    "Write the images into TFRecords in the ImageNet schema, or remove launcher for the trainer for TensorFlow, which "
    "reads folders of images."
)
OWN_PROGRAM = "Add source and entry_point with a script that reads it to the line, or upload TFRecords."
"""The next step for data that the built-in trainer does not read."""
_INPUTS = "or write inputs in place of s3_uri, with the URI of each channel."


class LayoutError(UsageError):
    """The content of a folder does not determine its channels."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The channels of a data folder.

    Attributes:
        parts: The rest of each channel's prefix in the folder, by channel: `train/`, `train-`, or nothing.
        absent: The channels without data.
        unread: With `absent`, the folders that no channel reads, such as `val/`.
    """

    parts: Mapping[str, str]
    absent: tuple[str, ...] = ()
    unread: tuple[str, ...] = field(default=(), compare=False)

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return the channels in the folder of `inputs`, which are those of all names as folders."""
        base = str(folder_of(inputs)).rstrip("/")
        return {
            name: inputs[name].model_copy(update={"uri": f"{base}/{part}"})
            for name, part in self.parts.items()
            if name in inputs
        }

    def __str__(self) -> str:
        """Return the channels as a sentence without its subject, the folder."""
        sources = " and ".join(f"{name} from {_words(part)}" for name, part in self.parts.items())
        absent = f"; no {' and no '.join(self.absent)}, because the folder has no data for it" if self.absent else ""
        unread = f"; no channel reads {' and '.join(self.unread)}" if self.unread else ""
        return f"channel{'s' * (len(self.parts) > 1)} {sources}{absent}{unread}"


def folders_of(channel_names: Sequence[str]) -> Layout:
    """Return the layout in which each channel is a folder."""
    return _layout(channel_names, {name: f"{name}/" for name in channel_names})


def folder_of(inputs: Inputs) -> S3Uri:
    """Return the folder of a job's channels before their layout is known."""
    name, channel = next(iter(inputs.items()))
    return S3Uri.parse(channel.uri.removesuffix(f"{name}/"))


def layout_of(objects: Listing, folder: S3Uri, channel_names: Sequence[str]) -> Layout:
    """Return the layout of a folder.

    Args:
        objects: S3 in the Region of the folder.
        channel_names: The channels that it may have; the first one is required.

    Raises:
        LayoutError: The folder has no data, or several layouts at once, or no data for the first channel.
        ClientError: S3 refused a call.
    """
    first_channel = channel_names[0]
    root = S3Uri(folder.bucket, f"{folder.key}/" if folder.key else "")
    folders = [name for name in channel_names if _has_data(objects, _folder_below(root, f"{name}/"))]
    matches = {name: _matches(objects, root, name) for name in channel_names if name not in folders}
    files = [name for name, entries in matches.items() if not all(entry.endswith("/") for entry in entries)]
    if folders and files:
        text = f"{root} has the folder {folders[0]}/ and files {files[0]}-*, so its channels are not certain."
        raise LayoutError(text, f"Move the files into a folder {files[0]}/, {_INPUTS}")
    names_used = folders or ([] if files == [first_channel] else files)
    if not names_used:
        if _has_data(objects, root):
            return _layout(channel_names, {first_channel: ""})
        text = f"no data found under {root}."
        raise LayoutError(text, "Upload the data, or correct s3_uri. Names that begin with _ or . are no data.")
    if first_channel not in names_used:
        places = f"neither a folder {first_channel}/ nor files {first_channel}-*"
        text = f"{root} has data for {names_used[0]}, but none for {first_channel}: {places}."
        raise LayoutError(text, f"Rename or upload the data for {first_channel}, {_INPUTS}")
    if not folders:
        _check_prefixes(root, {name: matches[name] for name in names_used})
    layout = _layout(channel_names, {name: name + ("/" if folders else "-") for name in names_used})
    if folders and layout.absent:
        return replace(layout, unread=_other_folders(objects, root, names_used))
    return layout


def agreed_layout(objects: LayoutStorage, job: Job, training_job: str, listing: Listing | None) -> Layout:
    """Return the layout of a job's folder as the first process found it, because the folder may change.

    Every process that may create the training job must send the same request. The first one writes its result as an
    object that is never replaced, beside the ManifestFiles of ranks.

    Args:
        objects: S3 in the job's Region.
        listing: The same; None if the folder must not be listed, for folders with the names of the channels.

    Raises:
        LayoutError: See `layout_of`. Nothing was written.
        UsageError: Another program has written the object.
        ClientError: S3 refused a call.
    """
    uri = manifest_uri(job, training_job, _AGREED)
    stored_layout = objects.read_if_exists(uri)
    if stored_layout is None:
        channel_names = list(job.inputs)
        layout = layout_of(listing, folder_of(job.inputs), channel_names) if listing else folders_of(channel_names)
        content = json.dumps(dict(layout.parts)).encode()
        stored_layout = (
            content if objects.write_if_none(uri, content, "application/json") else objects.read_if_exists(uri)
        )
    return _stored_layout(stored_layout or b"", uri, job, training_job)


def layout_as_trained(objects: Reading, job: Job, training_job: str) -> Layout | None:
    """Return the layout with which a training job was created; None if it has none, or was not created yet.

    Args:
        objects: S3 in the job's Region.

    Raises:
        UsageError: Another program has written the object with the layout.
        ClientError: S3 refused a call.
    """
    uri = manifest_uri(job, training_job, _AGREED)
    stored_layout = objects.read_if_exists(uri) if job.by_layout else None
    return None if stored_layout is None else _stored_layout(stored_layout, uri, job, training_job)


def _stored_layout(content: bytes, uri: S3Uri, job: Job, training_job: str) -> Layout:
    try:
        parts = json_object(content)
    except JsonError:
        parts = {}
    if not parts or not all(part in (f"{name}/", f"{name}-", "") for name, part in parts.items()):
        text = f"{uri} must be the JSON object of the channels of {training_job}."
        raise UsageError(text, "Delete it and retry the job, which lists its folder again.")
    return _layout(list(job.inputs), parts)


def check_mounts(layout: Layout, inputs: Inputs, backends: Sequence[str]) -> None:
    """Raise LayoutError if a cluster would have to mount a prefix: a volume can only show a folder.

    https://kubernetes.io/docs/concepts/storage/volumes/#using-subpath
    """
    fast = [name for name in layout.parts if inputs[name].input_mode == "FastFile" and layout.parts[name].endswith("-")]
    if fast and "eks" in backends:
        text = (
            f"The channel {fast[0]} is the files {fast[0]}-* of a folder, and a volume of EKS can only show a folder."
        )
        raise LayoutError(text, "Write input_mode File, or move the files of each channel into a folder with its name.")


def check_streams(objects: Listing, job: Job, inputs: Inputs) -> None:
    """Check that the built-in trainer does not train on a stream of all files of a folder, also those for validation.

    Args:
        objects: S3 in the job's Region.
        inputs: The channels of its training job.

    Raises:
        LayoutError: The first names in the folder are those of files or folders for both purposes.
        ClientError: S3 refused a call.
    """
    if not streams_folder(job, inputs):
        return
    root, name_by_purpose = prefix_of(inputs["train"].uri), dict[bool, str]()
    for entry in _entries(objects, root):
        name = entry.removeprefix(root.key)
        if (kind := _KIND.match(name)) and names.is_data(name.rstrip("/")):
            name_by_purpose.setdefault(kind[1].lower() == "train", name)
    if len(name_by_purpose) > 1:
        names_text = f"{name_by_purpose[True]} and {name_by_purpose[False]}"
        text = f"The channel train would stream all of {root}, such as {names_text}."
        step = "Name the files train-* and validation-*, and write s3_uri with this folder in place of inputs."
        raise LayoutError(text, step)


def check_formats(objects: Listing, job: Job, inputs: Inputs) -> None:
    """Check that the built-in trainer gets no files of a format that it does not read, by the first name of a channel.

    Args:
        objects: S3 in the job's Region.
        inputs: The channels of its training job.

    Raises:
        LayoutError: A channel begins with such a file.
        ClientError: S3 refused a call.
    """
    program = job.hyperparameters.get(names.IMAGE_PROGRAM, names.TRAINER_PROGRAM)
    if job.source or not job.metric_history or program != names.TRAINER_PROGRAM:  # no trainer of the grid's image
        return
    for channel in inputs.values():
        if not channel.uri or channel.lists_objects:
            continue
        prefix = prefix_of(channel.uri)
        file = S3Uri(prefix.bucket, _first_file(objects, prefix))
        if _has_suffix(file.key, _OTHER_FORMATS):
            raise LayoutError(f"{file} {_OTHER_FORMAT}", OWN_PROGRAM)
        if job.launcher == "torchrun" and _has_suffix(file.key, _IMAGES):
            raise LayoutError(f"{file} {_ONLY_RECORDS}", _AS_RECORDS)


def file_of_other_format(objects: Listing, prefix: S3Uri) -> S3Uri | None:
    """Return the first file of a channel if its name is that of a format that the built-in trainer does not read.

    Args:
        prefix: The beginning of the channel's keys.
    """
    key = _first_file(objects, prefix)
    return S3Uri(prefix.bucket, key) if _has_suffix(key, _OTHER_FORMATS) else None


def streams_folder(job: Job, inputs: Inputs) -> bool:
    """Return True if the built-in trainer trains on a stream of a folder, the names of whose files it does not see."""
    train = inputs.get("train")
    if train is None or train.input_mode != "Pipe" or job.source or job.is_algorithm:
        return False
    return train.uri.endswith("/") and not train.lists_objects


def _layout(channel_names: Sequence[str], parts: Mapping[str, str]) -> Layout:
    return Layout(parts=parts, absent=tuple(name for name in channel_names if name not in parts))


def _folder_below(root: S3Uri, part: str) -> S3Uri:
    return S3Uri(root.bucket, root.key + part)


def _other_folders(objects: Listing, root: S3Uri, used: Sequence[str]) -> tuple[str, ...]:
    """Return the first folders with data below the root that are no channels: perhaps one has another name."""
    entries = (entry.removeprefix(root.key) for entry in _entries(objects, root) if entry.endswith("/"))
    folders = (name for name in entries if not names.is_hidden(name) and name.rstrip("/") not in used)
    return tuple(
        itertools.islice((name for name in folders if _has_data(objects, _folder_below(root, name))), _SHOWN_FOLDERS)
    )


def _check_prefixes(root: S3Uri, matches: Mapping[str, Sequence[str]]) -> None:
    """Raise LayoutError if a prefix also matches a folder, of which SageMaker would read all objects, too."""
    for name, entries in matches.items():
        if subfolder := next((entry for entry in entries if entry.endswith("/")), None):
            folder = subfolder.removeprefix(root.key)
            text = f"{root} has files {name}-* and the folder {folder}, which SageMaker would read as {name}, too."
            raise LayoutError(text, f"Rename {folder}, {_INPUTS}")


def _has_data(objects: Listing, folder: S3Uri) -> bool:
    """Return True if a folder, whose key ends with a slash, or one below it has a file that is data."""
    return bool(_first_file(objects, folder))


def _first_file(objects: Listing, prefix: S3Uri) -> str:
    """Return the key of the first file that is data below a prefix; empty if there is none."""
    for entry in _entries(objects, prefix):
        if names.is_data(entry[len(prefix.key) :].rstrip("/")):
            key = _first_file(objects, S3Uri(prefix.bucket, entry)) if entry.endswith("/") else entry
            if key:
                return key
    return ""


def _has_suffix(key: str, suffixes: AbstractSet[str]) -> bool:
    return PurePosixPath(key).suffix.lower() in suffixes


def _matches(objects: Listing, root: S3Uri, name: str) -> list[str]:
    """Return the files and folders of a folder that begin with a channel's name, without those that are no data."""
    entries = _entries(objects, _folder_below(root, f"{name}-"))
    return [entry for entry in entries if names.is_data(entry.removeprefix(root.key).rstrip("/"))]


def _entries(objects: Listing, prefix: S3Uri) -> Iterator[str]:
    token = ""
    for _ in range(_PAGES):
        entries, token = objects.entries(prefix, token)
        yield from entries
        if not token:
            return


def _words(part: str) -> str:
    return f"{part}*" if part.endswith("-") else part or "all files of the folder"
