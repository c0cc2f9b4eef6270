"""Loop: the training loop, to be read from top to bottom. `train` starts it in every rank, with torchrun.

Manually, with two ranks:

    SAGEMAKER_BASE_DIR=/tmp/ml torchrun --nproc_per_node 2 --no_python python -m training_container.ranks.trainer_rank

with SageMaker's files in /tmp/ml/input (see contract/training_job.py), and the launcher torchrun in them.
"""

import dataclasses
import hashlib
import math
import time
from collections.abc import Callable

import torch

from training_container.contract.stopping import StoppedError, StopRequestedError
from training_container.contract.training_job import TrainingJob
from training_container.recipe import metric_lines
from training_container.recipe.config import TORCH, Config
from training_container.recipe.gpu import Gpu
from training_container.recipe.progress import Progress
from training_container.recipe.progress_lines import ProgressLines
from training_container.recipe.timing import StepTimes, groups
from training_container.recipe.training_state import TrainingState
from training_container.script_api import ranks as script_ranks
from training_container.script_api import torch_checkpoints
from training_container.script_api.profiles import torch_profiler
from training_container.torch_trainer import checkpoints
from training_container.torch_trainer.device import connected_device, leave, precision_of, timeout_of
from training_container.torch_trainer.exports import begin_with_initial_model, export
from training_container.torch_trainer.images import Batch, TrainingImages, validation_images
from training_container.torch_trainer.networks import Classifier
from training_container.torch_trainer.step import StepOutcome, TorchStep
from training_container.torch_trainer.validation import validation_metrics

STEPS_PER_SAMPLE = 50
"""One of so many steps runs in separate parts, to distinguish computing from averaging (recipe/timing.py)."""


def train(job: TrainingJob, config: Config, stop_requested: Callable[[], bool]) -> None:
    """Train on this rank, in step with all others.

    Args:
        job: The job as seen by this host.
        stop_requested: A function that returns True if this rank was asked to stop. If any rank was, all stop after the
            same step.

    Raises:
        StoppedError: On every rank, after a request to stop and its checkpoint.
        DivergedError: On every rank, after the first step whose loss is not finite on any rank, or before weights that
            are not finite would be saved or exported.
        HyperparameterError: The image lacks a program that a hyperparameter requires.
    """
    place = script_ranks.current()
    device = connected_device(job, config, place)
    torch.manual_seed(config.seed)
    try:
        images = TrainingImages(config, place, timeout_of(job, config))
        training = TorchTraining(config, place, device, images, stop_requested)
        training.start()
        training.run()
    except StoppedError:
        leave()
        raise
    leave()


class TorchTraining:
    """One training on one rank, from the newest checkpoint or the beginning to the exported network."""

    def __init__(
        self,
        config: Config,
        place: script_ranks.Ranks,
        device: torch.device,
        images: TrainingImages,
        stop_requested: Callable[[], bool],
    ) -> None:
        self.config, self.place, self.device, self.stop_requested = config, place, device, stop_requested
        self.images = images
        self.validation = validation_images(config, place)
        if config.early_stop_epochs and not self.validation:
            raise ValueError(
                f"Hyperparameter early_stop_epochs is {config.early_stop_epochs}, but the job has no channel "
                "'validation', which is required. Add the channel, or remove the hyperparameter."
            )
        self.precision = precision_of(config, device)
        network = Classifier(config)
        self.origin = begin_with_initial_model(network, config, place.folders)
        network.to(device)
        self.step = TorchStep(network, config, device, self.precision)
        self.state = TrainingState(config, place.size, lambda: self.images.steps)
        self.times = StepTimes()
        self.lines = ProgressLines(config.progress_seconds, config.epochs)
        self.gpu = Gpu(place.local_rank)
        self.metrics: dict[str, float] = {}
        self.saved: Progress | None = None
        self.exported_epoch: int | None = None

    def start(self) -> None:
        """Continue from the newest checkpoint, or begin with the initial weights."""
        shape = (self.config.batch_size, 3, self.config.image_size, self.config.image_size)
        self.step.arrange((torch.zeros(shape, dtype=torch.uint8), torch.zeros(shape[0], dtype=torch.int64)))
        self.state.begin(weights_digest(self.step.network))
        self.saved = checkpoints.resume(self.place.folders, self.step)
        sentence = self.state.resume(self.saved) if self.saved else self.origin
        if self.place.is_main:
            precision = str(self.precision).removeprefix("torch.")
            print(f"Training {self.config.model} in {precision} on {self.place.size} rank(s). {sentence}".rstrip())

    def run(self) -> None:
        """Train and validate the remaining epochs, and export the network."""
        started = time.perf_counter()
        try:
            with torch_profiler(self.state.progress.step) as profiler:
                while not self.state.is_over:
                    if not self.state.progress.awaits_validation:
                        self.train_epoch(profiler.step)
                    self.finish_epoch()
            if self.config.early_stop_epochs and not self.state.is_best:
                self.restore_best()
            if not self.metrics and self.validation:  # no epoch was left to train
                self.metrics = self.validate()
            self.check_weights()
        finally:
            torch_checkpoints.finish()  # also of a training that stops or fails
        if self.place.is_main:
            with self.step.averaged():
                report = self.report(time.perf_counter() - started)
                export(self.step.network, self.config, self.place.folders.model, report)

    def train_epoch(self, end_step: Callable[[], object]) -> None:
        """Train the rest of the epoch.

        Args:
            end_step: Called after each step.
        """
        state, progress, every = self.state, self.state.progress, self.config.checkpoint_every_steps
        batches = self.images.epoch(progress.epoch, skip=progress.step_in_epoch * self.config.accumulate_steps)
        started = time.perf_counter()
        previous: StepOutcome | None = None
        for group in groups(batches, self.config.accumulate_steps, self.times):
            outcome = self.train_step(group)
            end_step()
            state.count_steps(len(group))
            # The outcome is read while the device runs the next step, because reading it waits for the step's end. A
            # stop, and a loss that is not finite, are therefore noticed one step later, by all ranks alike.
            stop = previous is not None and self.read(previous, steps_before=1)
            previous = outcome
            if stop or (every and state.progress.step % every == 0):
                self.save_step(stop=self.read(outcome) or stop)
                previous = None
            if self.place.is_main and self.lines.is_due():
                print(self.lines.line(state.progress, state.steps_per_epoch, self.times.of_line() | self.gpu.use()))
        if previous and self.read(previous):
            self.save_step(stop=True)
        speed = (state.progress.images - progress.images) / (time.perf_counter() - started)
        self.metrics = {"images_per_second": speed, "images_per_second_per_rank": speed / self.place.size}

    def train_step(self, batches: list[Batch]) -> StepOutcome:
        """Train on the batches of a step, together with all other ranks."""
        if self.state.progress.step % STEPS_PER_SAMPLE == STEPS_PER_SAMPLE // 2:
            return self.step.in_parts(batches, self.state.rate, self.times, stop=self.stop_requested())
        return self.step(batches, self.state.rate, stop=self.stop_requested())

    def read(self, outcome: StepOutcome, steps_before: int = 0) -> bool:
        """Count the loss of a step, and return True if a rank was asked to stop.

        Args:
            steps_before: The number of steps that have started since.

        Raises:
            DivergedError: The loss is not finite.
        """
        loss, stop = outcome.read()
        if not math.isfinite(loss):
            raise self.state.diverged(f"The loss is {loss} in {self.state.place(steps_before)}", self.saved)
        self.state.add_loss(loss)
        return stop

    def save_step(self, *, stop: bool) -> None:
        """Save a checkpoint after a step, and raise StoppedError if any rank was asked to stop."""
        self.save()
        if stop:
            raise StoppedError(f"Stopped after step {self.state.progress.step}; the checkpoint is written.")

    def finish_epoch(self) -> None:
        """Save a checkpoint, validate and report, if they are due."""
        config, progress = self.config, self.state.progress
        epoch = progress.epoch + 1
        is_last = epoch == config.epochs
        saves = is_last or epoch % config.checkpoint_every == 0
        validates = bool(self.validation) and (is_last or epoch % config.validation_every == 0)
        self.metrics |= {"train_loss": progress.loss_sum / max(progress.loss_steps, 1), "ranks": self.place.size}
        self.metrics |= {"learning_rate": self.step.rate} | self.times.of_epoch()
        if validates:
            # Validation may take longer than the time left after a request to stop. A start that continues from this
            # checkpoint validates again, with the same result.
            self.state.record_trained_epoch()
            if saves and self.saved != self.state.progress:
                self.save()
            self.metrics |= self.validate()
        self.state.count_epoch(self.metrics.get("validation_top1"))
        if self.place.is_main:
            print(metric_lines.line(epoch, {**self.metrics, **self.gpu.use()}))
        if saves and not validates:
            self.save()
        if validates and config.early_stop_epochs and self.state.is_best and self.place.is_main:
            checkpoints.save_best(self.place.folders, self.step, self.state.progress)

    def validate(self) -> dict[str, float]:
        """Return the metrics of the network in the state in which it would be exported. All ranks take part.

        Raises:
            StoppedError: A rank was asked to stop meanwhile; the trained state is saved.
            DivergedError: The loss is not finite.
        """
        assert self.validation is not None  # noqa: S101  # for the type checker
        progress = self.state.progress
        self.step.network.eval()
        try:
            with self.step.averaged():
                batches = self.validation.epoch(progress.epoch)
                metrics = validation_metrics(batches, self.step.logits, self.device, self.stop_requested, self.config)
        except StopRequestedError:
            if progress.awaits_validation and self.saved != progress:
                self.save()
            raise StoppedError(
                f"Stopped while validating after step {progress.step}; the checkpoint is written."
            ) from None
        self.step.network.train()
        if not math.isfinite(loss := metrics["validation_loss"]):
            raise self.state.diverged(f"The validation loss is {loss} after {self.state.place()}", self.saved)
        return metrics

    def save(self) -> None:
        """Save a checkpoint. All ranks take part."""
        self.check_weights()
        self.saved = self.state.progress
        checkpoints.save(self.place.folders, self.step, self.saved, self.config)

    def check_weights(self) -> None:
        """Raise DivergedError if a weight is not finite: the last loss was computed before the last update."""
        if not self.step.is_finite():
            raise self.state.diverged(f"A weight is not finite after {self.state.place()}", self.saved)

    def restore_best(self) -> None:
        """Restore the network of the best epoch after early stopping, if there is one, and print which is exported."""
        best = checkpoints.restore_best(self.place.folders, self.step)
        if best:
            self.metrics = self.metrics | self.validate()
            self.exported_epoch = best.epoch
        if self.place.is_main:
            print(self.state.export_sentence(best))

    def report(self, seconds: float) -> dict[str, object]:
        """Return the content of report.json: the hyperparameters and the results."""
        progress = self.state.progress
        return {
            **dataclasses.asdict(self.config),
            "framework": TORCH,
            "top1": self.metrics.get("validation_top1"),
            "top5": self.metrics.get("validation_top5"),
            "validation_loss": self.metrics.get("validation_loss"),
            "images_per_second": self.metrics.get("images_per_second"),
            "precision": str(self.precision).removeprefix("torch."),
            "ranks": self.place.size,
            "epochs_trained": progress.epoch,
            "exported_epoch": self.exported_epoch or progress.epoch,
            "steps_trained": progress.step,
            "training_images": self.images.count,
            "initial_weights": progress.initial_weights,
            "seconds": round(seconds, 3),
        }


def weights_digest(network: torch.nn.Module) -> str:
    """Return the SHA-256 of the types, shapes and values of a network's tensors, in their order."""
    digest = hashlib.sha256()
    for value in network.state_dict().values():
        digest.update(f"{value.dtype}{list(value.shape)}".encode())
        digest.update(value.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
