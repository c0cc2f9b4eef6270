"""Two ranks train on digits in every input mode, with the same losses if they read the same records."""

import contextlib
import io
import json
import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.training.conftest import TINY
from tests.training.streams import feed, wrapped
from tests.training.two_ranks import TwoRanks
from training_container.contract.training_job import Folders, read_training_job
from training_container.recipe.config import Config
from training_container.script_api.records import read
from training_container.trainer.data.image_datasets import IMAGE, LABEL
from training_container.trainer.data.shards import balanced
from training_container.trainer.loop import train

EPOCHS = 2
# Five steps of two ranks; of 360 scans, 20 are left over on each rank.
DIGITS = TINY | {
    "epochs": str(EPOCHS),
    "warmup_epochs": "1",
    "steps_per_epoch": "0",
    "batch_size": "32",
    "cache": "false",
    "shuffle_files": "false",
    "shuffle_records": "100",
}
# Otherwise the length of a stream's first epoch would be unknown, and the learning rate depends on it.
OF_STREAMS = {"train_records": "360"}


def losses(*bases: str) -> list[list[str]]:
    """Train in these folders one after the other in one process. Return the losses of each epoch on rank 0."""
    texts = []
    for base in bases:
        job = read_training_job(Folders(base=Path(base)))
        with contextlib.redirect_stdout(io.StringIO()) as output:
            train(job, Config.from_hyperparameters(job.hyperparameters), lambda: False)
        texts.append(re.findall(r"\b((?:train_loss|validation_loss|validation_top1)=\S+)", output.getvalue()))
    return texts


def stream(folders: Folders, channel: str, content: bytes) -> None:
    """Write the channel's FIFOs as SageMaker does: once per epoch."""
    threading.Thread(target=feed, args=(folders.data, channel, [content] * EPOCHS), daemon=True).start()


def objects(files: Iterable[Path]) -> bytes:
    return b"".join(path.read_bytes() for path in files)


def pairs(files: Iterable[Path]) -> bytes:
    """Return images and labels as SageMaker streams them from an augmented manifest, wrapped in RecordIO."""
    import tensorflow as tf  # noqa: PLC0415  # only this test process needs it

    examples = (tf.train.Example.FromString(record).features.feature for path in files for record in read(path))
    return b"".join(
        wrapped(one[IMAGE].bytes_list.value[0], str(one[LABEL].int64_list.value[0]).encode()) for one in examples
    )


def declare(base: Path, *channels: str, mode: str = "Pipe", wrapper: str = "None") -> None:
    common = {"TrainingInputMode": mode, "S3DistributionType": "FullyReplicated", "RecordWrapperType": wrapper}
    settings = dict.fromkeys(channels, common)
    (base / "input" / "config" / "inputdataconfig.json").write_text(json.dumps(settings))


def test_files_and_streams_have_the_same_losses(
    host_folder: Callable[..., Path], campaigns: Path, tmp_path: Path
) -> None:
    files = {name: sorted((campaigns / "campaign-1" / name).iterdir()) for name in ("train", "validation")}
    by_file = host_folder(tmp_path / "by-file", DIGITS | {"shard_by": "file"})
    by_record = host_folder(tmp_path / "by-record", DIGITS | {"shard_by": "record"})
    per_rank, per_host, of_pairs = (
        host_folder(tmp_path / name, DIGITS | OF_STREAMS) for name in ("per-rank", "per-host", "of-pairs")
    )
    declare(per_rank, *(f"{name}_{rank}" for name in files for rank in range(2)))
    declare(per_host, *files)
    declare(of_pairs, *files, wrapper="RecordIO")
    for name, paths in files.items():
        for rank, own in enumerate(balanced([path.stat().st_size for path in paths], 2)):
            stream(Folders(base=per_rank), f"{name}_{rank}", objects(paths[index] for index in own))
        stream(Folders(base=per_host), name, objects(paths))
        stream(Folders(base=of_pairs), name, pairs(paths))
    bases = (by_file, per_rank, by_record, per_host, of_pairs)
    (tmp_path / "ranks").mkdir()
    with TwoRanks(tmp_path / "ranks", "gloo") as ranks:
        one, same_as_one, other, *same_as_other = ranks.run(losses, *map(str, bases))[0]
    assert [text.partition("=")[0] for text in one] == ["train_loss", "validation_loss", "validation_top1"] * EPOCHS
    assert one == same_as_one
    assert [other, other] == same_as_other
    assert one != other
