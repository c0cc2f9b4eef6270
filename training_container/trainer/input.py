"""Batches of images for one rank, in step with all others, from every input mode."""

from collections.abc import Callable, Iterator
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.contract import Folders
from training_container.stopping import StopRequestedError
from training_container.trainer import augment, channels
from training_container.trainer.cluster import any_rank
from training_container.trainer.config import Config
from training_container.trainer.diagnosis import guarded
from training_container.trainer.image_folder import ImageFolderError, check_classes, class_names
from training_container.trainer.left_out import LeftOut
from training_container.trainer.lockstep import Batch, Lockstep, LockstepError, check_total, epoch_of, missing
from training_container.trainer.pipe_channel import PipeChannel
from training_container.trainer.reading import Reading
from training_container.trainer.sources import Channel, Kept, Passing, Source

_KEEPING = 256  # images that are decoded at once to be kept in memory


class TrainingData:
    """One rank's training batches, the same number on every rank.

    Attributes:
        classes: the names of the classes in the order of the model's outputs, where the channel is a folder of images.
    """

    def __init__(self, config: Config, channel: Channel, classes: tuple[str, ...] = ()) -> None:
        self.classes = classes
        self._config = config
        self._channel = channel
        self._left_out = LeftOut(channel.name, config.tolerate_corrupt_records)
        self._source = _source(config, channel, classes, self._left_out)
        self._lockstep, self._repeat = self._agreed()

    @property
    def steps_per_epoch(self) -> int | None:
        """Batches that make an epoch, on every rank.

        Until the first epoch of a stream has been read, what hyperparameter train_records makes of it; else None.
        """
        return self._lockstep.steps or self._config.train_records // (hvd.size() * self._config.batch_size) or None

    @property
    def images(self) -> int | None:
        """Records of all ranks; None until the first epoch of a stream has been read."""
        return self._lockstep.images

    @property
    def images_per_epoch(self) -> int | None:
        """Images of all ranks that an epoch trains on: it may leave some out or take some twice; None as `images`."""
        steps = self._lockstep.steps
        return steps * self._config.batch_size * hvd.size() if steps else None

    def epoch(self, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """Yield an epoch's batches: images [batch, size, size, 3] float32 in 0..255, and labels [batch] int64.

        The same seed, epoch and number of ranks make the same batches; all ranks iterate together.

        Args:
            epoch: its number from 0.
            skip: how many of its batches were trained before, by a training that this one resumes.

        Raises:
            RecordError: a record cannot be read or trained on.
            LockstepError: a rank's share ended before it should, or is smaller than a batch.
        """
        self._left_out.begin()
        batch_size = self._config.batch_size
        images = self._source.images(epoch, skip * batch_size, repeat=self._repeat, train=True)
        batches = guarded(
            iter(self._augmented(images.batch(batch_size), epoch, skip).prefetch(2)),
            self._channel,
            self._config,
            epoch=epoch,
            first=skip,
            size=batch_size,
        )
        yield from self._lockstep.epoch(self._left_out.checked(batches), epoch, skip)
        self._left_out.tell(epoch)

    def _augmented(self, batches: tf.data.Dataset, epoch: int, skip: int) -> tf.data.Dataset:
        """Change whole batches at once where the augmentation allows it, which is cheap."""
        config = self._config
        change = {"affine": augment.moved, "crop_and_flip": augment.shifted_and_flipped}.get(config.augmentation)
        if change is None or (config.augmentation == "crop_and_flip" and not config.cache):
            return batches
        seed = augment.mixed_seed(config.seed, epoch, hvd.rank(), 1)

        def changed(number: tf.Tensor, batch: Batch) -> Batch:
            images, labels = batch
            return change(images, tf.stack([seed, number * config.batch_size])), labels

        return batches.enumerate(start=skip).map(
            tf.autograph.experimental.do_not_convert(changed), num_parallel_calls=tf.data.AUTOTUNE
        )

    def _agreed(self) -> tuple[Lockstep, bool]:
        """Return the lockstep with the other ranks, and whether this rank must go round its share to keep up."""
        config, name = self._config, self._channel.name
        exact = config.cache or not config.tolerate_corrupt_records
        known = config.cache or not config.train_records
        count = self._source.count if known and exact else None
        expected = config.train_records
        if count is None:
            steps = config.steps_per_epoch or None
            # With a ShuffleConfig SageMaker deals a channel's objects anew to its hosts in every epoch.
            same = self._channel.streams != "host" or hvd.size() == hvd.local_size()
            lockstep = Lockstep(name, config.batch_size, steps=steps, exact=exact, same=same, expected=expected)
            return lockstep, False
        counts = hvd.allgather(tf.constant([count], tf.int64), name="records_of_ranks").numpy().tolist()
        if min(counts) == 0:
            raise LockstepError(
                f"Channel {name} has {sum(counts)} records, but rank {counts.index(0)} of {len(counts)} would have "
                "none. Start fewer ranks, check the channel's S3 prefix, or let shard_by be record."
            )
        if sum(counts) < expected:
            raise LockstepError(missing(name, sum(counts), expected))
        steps = config.steps_per_epoch or max(min(counts) // config.batch_size, 1)
        if hvd.rank() == 0:
            print(epoch_of(name, counts, steps, config.batch_size, wanted=bool(config.steps_per_epoch)))
        lockstep = Lockstep(name, config.batch_size, steps=steps, images=sum(counts))
        return lockstep, steps * config.batch_size > count


class ValidationData:
    """One rank's share of the validation images, as uneven as it comes: no rank waits for another."""

    def __init__(self, config: Config, channel: Channel, classes: tuple[str, ...] = ()) -> None:
        self._config = config
        self._channel = channel
        self._left_out = LeftOut(channel.name, config.tolerate_corrupt_records)
        self._source = _source(config, channel, classes, self._left_out)

    def epoch(
        self, epoch: int, stop_requested: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """Yield batches of (images, labels, weights [batch] float32), the last as short as it comes; maybe none.

        Args:
            epoch: its number from 0.
            stop_requested: whether this rank was told to stop, asked before every batch.

        Raises:
            StopRequestedError: on every rank, because a rank was told to stop before its last batch.
            RecordError: a record cannot be read or validated on.
            LockstepError: all ranks together have fewer records than hyperparameter validation_records says.
        """
        self._left_out.begin()
        size = self._config.batch_size
        images = self._source.images(epoch, 0, repeat=False, train=False)
        batches = guarded(
            iter(images.batch(size).prefetch(2)), self._channel, self._config, epoch=epoch, first=0, size=size
        )
        read = 0
        cut = False
        for images, labels in self._left_out.checked(batches):
            if cut := stop_requested():
                break
            read += int(labels.shape[0])
            yield images, labels, tf.ones(tf.shape(labels))
        if any_rank(cut):
            raise StopRequestedError
        self._left_out.tell(epoch)
        if self._config.validation_records:
            check_total(self._channel.name, read + self._left_out.count, self._config.validation_records)


def training_data(config: Config, folders: Folders | None = None) -> TrainingData:
    """Return this rank's training data: the channel `train`, in whichever mode it comes. All ranks take part.

    Args:
        config: how it is read and augmented.
        folders: where SageMaker put things; from the environment where not given.

    Raises:
        ChannelError, ShardError, ImageFolderError: there is no such channel, or it cannot be read.
        LockstepError: there are fewer records than ranks.
    """
    folder = Path(config.data_dir) if config.data_dir else None
    channel = channels.open("train", folders=folders, folder=folder, reading=_reading(config, train=True))
    classes = class_names_of_all_ranks(channel)
    if classes:
        check_classes(classes, config.classes)
    return TrainingData(config, channel, classes)


def validation_data(
    config: Config, folders: Folders | None = None, *, classes: tuple[str, ...] = ()
) -> ValidationData | None:
    """Return this rank's validation data: the channel `validation`, in whichever mode it comes; None without one.

    All ranks take part.

    Args:
        config: how it is read.
        folders: where SageMaker put things; from the environment where not given.
        classes: the names of the training images' classes, where those are a folder of images.

    Raises:
        ChannelError, ShardError, ImageFolderError: the channel cannot be read, or has images where train has records.
    """
    if not channels.exists("validation", folders):
        return None
    channel = channels.open("validation", folders=folders, reading=_reading(config, train=False))
    if channel.holds_images and not classes:
        raise ImageFolderError(
            "Channel validation is a folder of images, but the training images are records, whose classes have no "
            "names to know the folders by. Give both channels images, or both TFRecord files."
        )
    return ValidationData(config, channel, classes)


def class_names_of_all_ranks(channel: Channel) -> tuple[str, ...]:
    """Return the sorted names of the folders of classes on all hosts, each of which may hold some only; else none."""
    if isinstance(channel, PipeChannel) or not channel.holds_images:
        return ()
    own = class_names(channel.folder, channel.files)
    return tuple(sorted(set().union(*hvd.allgather_object(own, name=f"classes_of_{channel.name}"))))


def _reading(config: Config, *, train: bool) -> Reading:
    shuffled = train and not config.cache  # what is kept in memory is shuffled there
    return Reading(
        seed=config.seed,
        shard_by=config.shard_by,
        shuffle_files=shuffled and config.shuffle_files,
        shuffle_records=config.shuffle_records if shuffled else 0,
        parallel_reads=config.parallel_reads,
        tolerate=config.tolerate_corrupt_records,
        timeout_seconds=config.pipe_timeout_seconds,
    )


def _source(config: Config, channel: Channel, classes: tuple[str, ...], left_out: LeftOut) -> Source:
    passing = Passing(channel=channel, config=config, rank=hvd.rank(), left_out=left_out, classes=classes)
    if not config.cache:
        return passing
    batches = iter(passing.images(0, 0, repeat=False, train=False).batch(_KEEPING).prefetch(1))
    sound = guarded(batches, channel, config, epoch=0, first=0, size=_KEEPING)
    kept = Kept(left_out.checked(sound), config, hvd.rank())
    left_out.tell(0)
    return kept
