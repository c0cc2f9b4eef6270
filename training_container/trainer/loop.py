"""Loop: the training loop, to be read from top to bottom. `train` starts it in every rank.

Manually, with two ranks:

    SAGEMAKER_BASE_DIR=/tmp/ml mpirun -np 2 python -m training_container.ranks.trainer_rank

with SageMaker's files in /tmp/ml/input (see contract/training_job.py). Horovod requires six changes for distributed
training; a comment marks each.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import tensorflow as tf

from training_container.contract.stopping import StoppedError, StopRequestedError
from training_container.contract.training_job import TrainingJob
from training_container.recipe.config import Config, HyperparameterError, unscaled_compression
from training_container.recipe.progress import Progress
from training_container.recipe.timing import StepTimes, groups
from training_container.recipe.training_state import TrainingState
from training_container.trainer import cluster
from training_container.trainer.artifacts import export
from training_container.trainer.checkpoints.checkpoints import Checkpoints, resume
from training_container.trainer.data.corrupt_records import corrupt_records_of_all_ranks
from training_container.trainer.data.input import training_data, validation_data
from training_container.trainer.initial_weights import begin_with_initial_model
from training_container.trainer.models import build_model
from training_container.trainer.precision import policy
from training_container.trainer.reporting.reporter import Reporter
from training_container.trainer.step import Batch, Outcome, TrainStep
from training_container.trainer.validation import Validation, are_finite, average_batch_norm_statistics
from training_container.trainer.weights import weights_digest

# One of so many steps runs in separate parts, to distinguish computing from averaging (see timing.py).
STEPS_PER_SAMPLE = 50


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
        HyperparameterError: Gradients would be sent in float16, but this host computes in another precision.
        RuntimeError: The number of ranks is not that of the job, or a checkpoint belongs to a different model or cannot
            be written.
    """
    # Horovod 1 and 2: initialize this process as a rank, with its own device.
    ranks = cluster.start(job)
    tf.keras.utils.set_random_seed(config.seed + ranks.rank)
    tf.keras.mixed_precision.set_global_policy(policy(config))
    if config.gradient_compression == "fp16" and policy(config) != "mixed_float16":
        raise HyperparameterError([unscaled_compression(policy(config))])
    training = Training(job, config, ranks, stop_requested)
    training.start()
    training.run()


class Training:
    """One training on one rank, from the newest checkpoint or the beginning to the exported network."""

    def __init__(
        self, job: TrainingJob, config: Config, ranks: cluster.Cluster, stop_requested: Callable[[], bool]
    ) -> None:
        self.folders, self.config, self.ranks, self.stop_requested = job.folders, config, ranks, stop_requested
        self.data = training_data(config, job.folders)
        self.validation_data = validation_data(config, job.folders, classes=self.data.classes)
        if config.early_stop_epochs and not self.validation_data:
            raise ValueError(
                f"Hyperparameter early_stop_epochs is {config.early_stop_epochs}, but the job has no channel "
                "'validation', which is required. Add the channel, or remove the hyperparameter."
            )
        self.model = build_model(config)
        # Horovod 3 and 4: the number of ranks scales the rate (schedule.py), and gradients are averaged (step.py).
        self.step = TrainStep(self.model, config)
        self.validate = Validation(self.model, config)
        self.state = TrainingState(config, ranks.size, lambda: self.data.steps_per_epoch)
        self.checkpoints = Checkpoints(
            job.folders.checkpoints,
            keep=config.keep_checkpoints,
            identity={"model": config.model, "classes": config.classes},
            asynchronous=True,
            **self.step.tracked,
        )
        self.times = StepTimes()
        self.metrics: dict[str, float] = {}
        self.saved: Progress | None = None
        self.exported_epoch: int | None = None
        self.reporter: Reporter | None = None

    def start(self) -> None:
        """Synchronize all ranks to the newest checkpoint, or without one to the initial model or state."""
        # Horovod 5: all ranks start from rank 0's weights, optimizer state and progress.
        saved = resume(self.checkpoints)
        self.saved = saved
        start_sentence = self.state.resume(saved) if saved else self.begin()
        # Horovod 6: only rank 0 writes checkpoints, the log, TensorBoard's events and the model.
        if self.ranks.is_main:
            self.reporter = Reporter(self.folders, self.config, continues=saved is not None)
            precision, ranks = policy(self.config), self.ranks.size
            print(f"Training {self.config.model} in {precision} on {ranks} rank(s). {start_sentence}".rstrip())

    def begin(self) -> str:
        """Begin with the weights of the initial model, if the job has one, and return a message about it."""
        text = begin_with_initial_model(self.model, self.config, self.folders)
        if text and self.step.averages:
            self.step.averages.restart()
        return text

    def run(self) -> None:
        """Train the remaining epochs, and export the network."""
        started = time.perf_counter()
        try:
            self.train_epochs()
        finally:
            self.checkpoints.finish()  # also of a training that stops or fails
        if self.reporter:
            self.reporter.end_profile(self.state.progress.step)
            self.reporter.sync()
            with self.step.averaged():
                export(self.model, self.config, self.folders.model, self.report(time.perf_counter() - started))

    def train_epochs(self) -> None:
        """Train and validate the remaining epochs, and select the network to export."""
        if not self.saved:
            self.state.begin(weights_digest(self.model.variables))
        while not self.state.is_over:
            if not self.state.progress.awaits_validation:
                self.train_epoch()
            self.finish_epoch()
        if self.config.early_stop_epochs and not self.state.is_best:
            self.restore_best()
        if not self.metrics and self.validation_data:  # no epoch was left to train
            self.metrics = self.validation_metrics()
        self.check_weights()

    def train_epoch(self) -> None:
        """Train the rest of the epoch."""
        state, progress, every = self.state, self.state.progress, self.config.checkpoint_every_steps
        batches = self.data.epoch(progress.epoch, skip=progress.step_in_epoch * self.config.accumulate_steps)
        started = time.perf_counter()
        previous: Outcome | None = None
        for group in groups(batches, self.config.accumulate_steps, self.times):
            with self.reporter.profiled(state.progress.step + 1) if self.reporter else nullcontext():
                outcome = self.train_step(group)
            state.count_steps(len(group))
            # The outcome is read while the device runs the next step, because reading it waits for the step's end. A
            # stop, and a loss that is not finite, are therefore noticed one step later, by all ranks alike.
            stop = previous is not None and self.read(previous, steps_before=1)
            previous = outcome
            if stop or (every and state.progress.step % every == 0):
                self.save_step(stop=self.read(outcome) or stop)
                previous = None
            if self.reporter:
                self.reporter.step(state.progress, state.steps_per_epoch, self.times)
        if previous and self.read(previous):
            self.save_step(stop=True)
        speed = (state.progress.images - progress.images) / (time.perf_counter() - started)
        self.metrics = {"images_per_second": speed, "images_per_second_per_rank": speed / self.ranks.size}

    def save_step(self, *, stop: bool) -> None:
        """Save a checkpoint after a step, and raise StoppedError if any rank was asked to stop."""
        self.checkpoint()
        if stop:
            raise StoppedError(f"Stopped after step {self.state.progress.step}; the checkpoint is written.")

    def read(self, outcome: Outcome, steps_before: int = 0) -> bool:
        """Count the loss of a step, and return True if a rank was asked to stop.

        Args:
            outcome: The outcome of the last step, or of an earlier one.
            steps_before: The number of steps that have started since.

        Raises:
            DivergedError: The loss is not finite.
        """
        loss = outcome.loss
        if not math.isfinite(loss):
            raise self.state.diverged(f"The loss is {loss} in {self.state.place(steps_before)}", self.saved)
        self.state.add_loss(loss)
        return outcome.stop

    def train_step(self, batches: Sequence[Batch]) -> Outcome:
        """Train on the batches of a step, together with all other ranks."""
        if self.state.progress.step % STEPS_PER_SAMPLE == STEPS_PER_SAMPLE // 2:
            return self.step.in_parts(batches, self.state.rate, self.times, self.stop_requested())
        return self.step(batches, self.state.rate, self.stop_requested())

    def finish_epoch(self) -> None:
        """Validate, report and save, if they are due."""
        config, progress = self.config, self.state.progress
        epoch = progress.epoch + 1
        is_last = epoch == config.epochs
        saves = is_last or epoch % config.checkpoint_every == 0
        validates = bool(self.validation_data) and (is_last or epoch % config.validation_every == 0)
        self.metrics |= {"train_loss": progress.loss_sum / max(progress.loss_steps, 1), "ranks": self.ranks.size}
        self.metrics |= {"learning_rate": float(self.step.optimizer.learning_rate)} | self.times.of_epoch()
        if config.tolerate_corrupt_records:
            self.metrics["corrupt_records"] = corrupt_records_of_all_ranks()
        path = self.validate_epoch(save=saves) if validates else None
        self.state.count_epoch(self.metrics.get("validation_top1"))
        if self.reporter:
            self.reporter.epoch(epoch, self.metrics)
        best = validates and self.state.is_best
        if validates and saves:  # validate_epoch has saved the variables
            self.saved = self.state.progress
            if path:
                self.checkpoints.update_progress(path, self.saved, best=best)
        elif saves or best or self.state.is_over:
            self.checkpoint(best=best)
        if self.reporter:
            self.reporter.sync()

    def validate_epoch(self, *, save: bool) -> Path | None:
        """Validate the network after an epoch. All ranks take part.

        Args:
            save: If true, save a checkpoint first, because validation may take longer than the time left after a
                request to stop.

        Returns:
            The checkpoint, on rank 0; None without one.
        """
        self.state.record_trained_epoch()
        previous, path = self.saved, self.checkpoint() if save else None
        self.metrics |= self.validation_metrics()
        loss = self.metrics["validation_loss"]
        if not math.isfinite(loss):
            if path:
                self.checkpoints.discard(path)  # otherwise the next start would continue from it
            raise self.state.diverged(f"The validation loss is {loss} after {self.state.place()}", previous)
        return path

    def validation_metrics(self) -> dict[str, float]:
        """Return the metrics of the network in the state in which it would be exported. All ranks take part.

        Raises:
            StoppedError: A rank was asked to stop meanwhile; the trained state is saved.
        """
        assert self.validation_data is not None  # noqa: S101  # for the type checker
        average_batch_norm_statistics(self.step.statistics)
        progress = self.state.progress
        try:
            with self.step.averaged():
                return self.validate(self.validation_data.epoch(progress.epoch, self.stop_requested))
        except StopRequestedError:
            if progress.awaits_validation and self.saved != progress:
                self.checkpoint()
            raise StoppedError(
                f"Stopped while validating after step {progress.step}; the checkpoint is written."
            ) from None

    def checkpoint(self, *, best: bool = False) -> Path | None:
        """Save a checkpoint, and return it on rank 0. All ranks take part."""
        average_batch_norm_statistics(self.step.statistics)
        self.check_weights()
        progress = self.state.progress
        self.saved = progress
        return self.checkpoints.save(progress, best=best) if self.ranks.is_main else None

    def check_weights(self) -> None:
        """Raise DivergedError if a weight is not finite: the last loss was computed before the last update."""
        averages = self.step.averages.averages if self.step.averages else ()
        if not are_finite([*self.model.variables, *averages]):
            raise self.state.diverged(f"A weight is not finite after {self.state.place()}", self.saved)

    def restore_best(self) -> None:
        """Restore the network of the best epoch after early stopping, if there is one, and print which is exported.

        All ranks take part.
        """
        best = resume(self.checkpoints, best=True)
        if best:
            self.metrics = self.metrics | self.validation_metrics()
            self.exported_epoch = best.epoch
        if self.ranks.is_main:
            print(self.state.export_sentence(best))

    def report(self, seconds: float) -> dict[str, object]:
        """Return the content of report.json: the hyperparameters and the results."""
        return {
            **dataclasses.asdict(self.config),
            "top1": self.metrics.get("validation_top1"),
            "top5": self.metrics.get("validation_top5"),
            "validation_loss": self.metrics.get("validation_loss"),
            "images_per_second": self.metrics.get("images_per_second"),
            "precision": policy(self.config),
            "ranks": self.ranks.size,
            "epochs_trained": self.state.progress.epoch,
            "exported_epoch": self.exported_epoch or self.state.progress.epoch,
            "steps_trained": self.state.progress.step,
            "training_images": self.data.images,
            "training_images_per_epoch": self.data.images_per_epoch,
            "class_names": self.data.classes,
            "initial_weights": self.state.progress.initial_weights,
            "seconds": round(seconds, 3),
        }
