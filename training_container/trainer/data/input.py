"""Input: batches of images for one rank, in step with all others, in every input mode."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.contract.stopping import StopRequestedError
from training_container.contract.training_job import Folders
from training_container.recipe.config import Config
from training_container.recipe.epoch_length import epoch_of, steps_of_epoch
from training_container.trainer.cluster import any_rank
from training_container.trainer.data import augment, channels
from training_container.trainer.data.channels import ReadOptions
from training_container.trainer.data.corrupt_records import CorruptRecords
from training_container.trainer.data.image_datasets import CachedDataset, ImageDataset, StreamingDataset
from training_container.trainer.data.image_folder import ImageFolderError, check_classes, class_names
from training_container.trainer.data.lockstep import Batch, Lockstep, check_total
from training_container.trainer.data.record_datasets import FileChannel, PipeChannel
from training_container.trainer.data.shards import check_is_training

Channel = FileChannel | PipeChannel
_CACHE_BATCH = 256  # images that are decoded together to fill the cache


class TrainingData:
    """One rank's training batches. Every rank has the same number of batches.

    Attributes:
        classes: The names of the classes in the order of the model's outputs, if the channel is a folder of images.
    """

    def __init__(self, config: Config, channel: Channel, classes: tuple[str, ...] = ()) -> None:
        self.classes = classes
        self._config = config
        self._channel = channel
        self._corrupt = CorruptRecords(channel, config)
        self._dataset = _dataset(config, channel, classes, self._corrupt)
        self._lockstep, self._repeat = self._agreed()

    @property
    def steps_per_epoch(self) -> int | None:
        """The number of batches in an epoch, on every rank.

        Until the first epoch of a stream has been read, it is derived from the hyperparameter train_records, or None.
        """
        return self._lockstep.steps or self._config.train_records // (hvd.size() * self._config.batch_size) or None

    @property
    def images(self) -> int | None:
        """The number of records of all ranks; None until the first epoch of a stream has been read."""
        return self._lockstep.images

    @property
    def images_per_epoch(self) -> int | None:
        """The number of images of all ranks in an epoch, which may skip or repeat some; None if `images` is."""
        steps = self._lockstep.steps
        return steps * self._config.batch_size * hvd.size() if steps else None

    def epoch(self, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """Yield an epoch's batches: images [batch, size, size, 3] uint8, and labels [batch] int64.

        The batches are the same for the same seed, epoch and number of ranks. All ranks must iterate together.

        Args:
            epoch: The epoch's number, from 0.
            skip: The number of its batches that were trained before, if this training was resumed.

        Raises:
            RecordError: A record cannot be read, or is invalid for training.
            LockstepError: A rank's share ended early, or is smaller than a batch.
        """
        self._corrupt.restart()
        batch_size = self._config.batch_size
        images = self._dataset.images(epoch, skip * batch_size, repeat=self._repeat, train=True)
        batches = iter(_prefetched(self._augmented(images.batch(batch_size), epoch, skip)))
        checked = self._corrupt.checked(batches, epoch=epoch, first=skip, size=batch_size)
        yield from self._lockstep.epoch(checked, epoch, skip)
        self._corrupt.report(epoch)

    def _augmented(self, batches: tf.data.Dataset, epoch: int, skip: int) -> tf.data.Dataset:
        """Augment whole batches at once if the augmentation supports it, which is cheaper."""
        config = self._config
        change = {"affine": augment.apply_random_affine, "crop_and_flip": augment.shift_and_mirror}.get(
            config.augmentation
        )
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
        """Return the lockstep with the other ranks, and True if this rank must repeat records to keep up."""
        config, name = self._config, self._channel.name
        exact = config.cache or not config.tolerate_corrupt_records
        has_record_counts = isinstance(self._channel, FileChannel) and self._channel.reads_ranges
        is_counted = config.cache or has_record_counts or not config.train_records
        count = self._dataset.count if is_counted and exact else None
        expected = config.train_records
        if count is None:
            steps = config.steps_per_epoch or None
            # With a ShuffleConfig, SageMaker distributes a channel's objects differently to its hosts in every epoch.
            same = self._channel.streams != "host" or hvd.size() == hvd.local_size()
            lockstep = Lockstep(name, config.batch_size, steps=steps, exact=exact, same=same, min_images=expected)
            return lockstep, False
        counts = hvd.allgather(tf.constant([count], tf.int64), name="records_of_ranks").numpy().tolist()
        steps = steps_of_epoch(name, counts, config)
        if hvd.rank() == 0:
            print(epoch_of(name, counts, steps, config.batch_size, is_chosen=bool(config.steps_per_epoch)))
        lockstep = Lockstep(name, config.batch_size, steps=steps, images=sum(counts))
        return lockstep, steps * config.batch_size > count


class ValidationData:
    """One rank's share of the validation images. Shares may differ in size: ranks do not wait for each other."""

    def __init__(self, config: Config, channel: Channel, classes: tuple[str, ...] = ()) -> None:
        self._config = config
        self._channel = channel
        self._corrupt = CorruptRecords(channel, config)
        self._dataset = _dataset(config, channel, classes, self._corrupt)

    def epoch(
        self, epoch: int, stop_requested: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """Yield batches of (images, labels, weights [batch] float32). The last may be smaller; there may be none.

        Args:
            epoch: The epoch's number, from 0.
            stop_requested: A function that returns True if this rank was asked to stop; called before every batch.

        Raises:
            StopRequestedError: On every rank, because a rank was asked to stop before its last batch.
            RecordError: A record cannot be read, or is invalid.
            LockstepError: All ranks together have fewer records than the hyperparameter validation_records.
        """
        self._corrupt.restart()
        size = self._config.batch_size
        images = self._dataset.images(epoch, 0, repeat=False, train=False)
        batches = iter(_prefetched(images.batch(size)))
        records_read = 0
        cut = False
        for images, labels in self._corrupt.checked(batches, epoch=epoch, first=0, size=size):
            if cut := stop_requested():
                break
            records_read += int(labels.shape[0])
            yield images, labels, tf.ones(tf.shape(labels))
        if any_rank(cut):
            raise StopRequestedError
        self._corrupt.report(epoch)
        if self._config.validation_records:
            check_total(self._channel.name, records_read + self._corrupt.count, self._config.validation_records)


def training_data(config: Config, folders: Folders | None = None) -> TrainingData:
    """Return this rank's training data from the channel `train`, in any input mode. All ranks must call this together.

    Args:
        config: The options for reading and augmentation.
        folders: SageMaker's folders; from the environment by default.

    Raises:
        ChannelError, ShardError, ImageFolderError: The channel does not exist, or cannot be read.
        LockstepError: There are fewer records than ranks.
    """
    folder = Path(config.data_dir) if config.data_dir else None
    channel = channels.open("train", folders=folders, folder=folder, reading=_reading(config, train=True))
    if isinstance(channel, FileChannel):
        check_is_training(channel.files, channel.folder)
    classes = class_names_of_all_ranks(channel)
    if classes:
        check_classes(classes, config.classes)
    return TrainingData(config, channel, classes)


def validation_data(
    config: Config, folders: Folders | None = None, *, classes: tuple[str, ...] = ()
) -> ValidationData | None:
    """Return this rank's validation data from the channel `validation`, in any input mode; None without the channel.

    All ranks must call this together.

    Args:
        config: The options for reading.
        folders: SageMaker's folders; from the environment by default.
        classes: The names of the training images' classes, if those are a folder of images.

    Raises:
        ChannelError, ShardError, ImageFolderError: The channel cannot be read, or has images although train has
            records.
    """
    if not channels.exists("validation", folders):
        if hvd.rank() == 0:
            print("The job has no channel validation: it trains without validation.")
        return None
    channel = channels.open("validation", folders=folders, reading=_reading(config, train=False))
    if channel.holds_images and not classes:
        raise ImageFolderError(
            "Channel validation is a folder of images, but channel train has records, without the class names that "
            "folders are matched with. Use images for both channels, or TFRecord files for both."
        )
    return ValidationData(config, channel, classes)


def class_names_of_all_ranks(channel: Channel) -> tuple[str, ...]:
    """Return the sorted names of the class folders on all hosts, which may differ; empty if there are none."""
    if isinstance(channel, PipeChannel) or not channel.holds_images:
        return ()
    own_names = class_names(channel.folder, channel.files)
    return tuple(sorted(set().union(*hvd.allgather_object(own_names, name=f"classes_of_{channel.name}"))))


def _reading(config: Config, *, train: bool) -> ReadOptions:
    shuffled = train and not config.cache  # cached images are shuffled in memory
    return ReadOptions(
        seed=config.seed,
        shard_by=config.shard_by,
        shuffle_files=shuffled and config.shuffle_files,
        shuffle_records=config.shuffle_records if shuffled else 0,
        parallel_reads=config.parallel_reads,
        tolerate=config.tolerate_corrupt_records,
        timeout_seconds=config.pipe_timeout_seconds,
    )


def _dataset(config: Config, channel: Channel, classes: tuple[str, ...], corrupt: CorruptRecords) -> ImageDataset:
    """Return the channel's images: streamed, or, with `cache`, decoded once now and kept in memory."""
    streaming = StreamingDataset(channel, config, hvd.rank(), corrupt, classes)
    if not config.cache:
        return streaming
    images = streaming.images(epoch=0, first=0, repeat=False, train=False)
    batches = iter(images.batch(_CACHE_BATCH).prefetch(1))
    checked = corrupt.checked(batches, epoch=0, first=0, size=_CACHE_BATCH)
    cached = CachedDataset(checked, config, hvd.rank())  # reads all batches
    corrupt.report(epoch=0)
    return cached


def _prefetched(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Prepare two batches ahead and, with a GPU, copy them to its memory while it computes.

    The copies start before a step needs them. The threads of the data set are this rank's share of the host's cores;
    otherwise each rank of a host with eight GPUs would have one for every core.
    """
    gpus = tf.config.list_logical_devices("GPU")
    if not gpus:
        return batches.prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = max(1, (os.cpu_count() or 1) // hvd.local_size())
    ready = batches.with_options(options).prefetch(2)
    return ready.apply(tf.data.experimental.prefetch_to_device(gpus[0].name, buffer_size=2))
