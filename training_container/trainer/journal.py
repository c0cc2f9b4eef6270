"""What a person sees of a training while it runs: lines in the log, and TensorBoard. Kept by rank 0."""

import shutil
from collections.abc import Mapping

from training_container.contract import Folders
from training_container.trainer import metric_lines
from training_container.trainer.config import Config
from training_container.trainer.gpu import Gpu
from training_container.trainer.progress import Progress
from training_container.trainer.progress_lines import ProgressLines
from training_container.trainer.tensorboard import TensorBoard
from training_container.trainer.timing import StepTimes


class Journal:
    """The log and TensorBoard of one training. For rank 0 alone.

    Args:
        folders: where TensorBoard's events go.
        config: how often there is a line, and where events are copied.
        continues: whether the training goes on from a checkpoint; then nothing of a former one is removed.
    """

    def __init__(self, folders: Folders, config: Config, *, continues: bool) -> None:
        if config.clear_log and not continues:
            shutil.rmtree(folders.tensorboard, ignore_errors=True)
        self._board = TensorBoard(folders.tensorboard, config.tensorboard_s3)
        self._lines = ProgressLines(config.progress_seconds, config.epochs)
        self._gpu = Gpu(local_rank=0)

    def step(self, progress: Progress, steps_per_epoch: int | None, times: StepTimes) -> None:
        """Print a line of progress where one is due."""
        if self._lines.due():
            print(self._lines.line(progress, steps_per_epoch, times.of_line() | self._gpu.use()))

    def epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Print an epoch's metrics, and give them to TensorBoard."""
        metrics = {**metrics, **self._gpu.use()}
        print(metric_lines.line(epoch, metrics))
        self._board.log(epoch, metrics)

    def sync(self) -> None:
        """Copy what TensorBoard has got to S3, which may take a while."""
        self._board.sync()
