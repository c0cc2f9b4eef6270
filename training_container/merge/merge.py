"""Merge: merges the models of the channel `models` into one, and evaluates the result against each of them."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from training_container.contract.stopping import StoppedError, StopRequestedError
from training_container.contract.training_job import TrainingJob
from training_container.merge.evaluation import Evaluation
from training_container.merge.networks import Ensemble, assign, models_of, read_weights, recompute_statistics
from training_container.merge.options import CHANNEL, MergeOptions
from training_container.merge.outer_state import start_weights
from training_container.merge.outer_step import OuterStep, Sums, weighted_mean
from training_container.merge.parts import MergePart
from training_container.merge.progress import counted
from training_container.merge.reports import Network, check_average, check_ensemble, counts_of
from training_container.merge.velocity import read_velocity, write_velocity
from training_container.recipe.config import Config
from training_container.trainer import cluster
from training_container.trainer.artifacts import export
from training_container.trainer.data.input import ValidationData, training_data, validation_data
from training_container.trainer.models import build_model
from training_container.trainer.validation import Validation


def merge_networks(
    job: TrainingJob, options: MergeOptions, parts: Sequence[MergePart], stop_requested: Callable[[], bool]
) -> None:
    """Merge networks, evaluate the result, and export it.

    Args:
        options: The validated options, with the method average or ensemble.
        stop_requested: A function that returns True if the merge was asked to stop.

    Raises:
        MergeError: The models cannot be merged.
        StoppedError: The merge was asked to stop. It begins again when the job is retried.
    """
    networks = [Network.read(part) for part in parts]
    if options.method == "average":
        check_average(networks)
    else:
        check_ensemble(networks)
    cluster.start(job)
    tf.keras.mixed_precision.set_global_policy("float32")  # the same for all networks, wherever they were trained
    try:
        NetworkMerge(job, options, networks, stop_requested).run()
    except StopRequestedError:
        raise StoppedError("Stopped before the end of the merge; a retry begins again.") from None


class NetworkMerge:
    """The merge of networks whose facts agree."""

    def __init__(
        self,
        job: TrainingJob,
        options: MergeOptions,
        networks: Sequence[Network],
        stop_requested: Callable[[], bool],
    ) -> None:
        self.job, self.options, self.networks, self.stop_requested = job, options, networks, stop_requested
        self.counts = counts_of(networks, options.weight_by)
        self.config = reading_config(networks[0].config)
        self.data = self._validation_data()

    def run(self) -> None:
        """Merge, evaluate and export."""
        title = f"{self.options.method} of {len(self.networks)}"
        total = len(self.networks)
        merged = self._average() if self.options.method == "average" else Ensemble(list(models_of(self.networks)))
        evaluation = Evaluation(
            merged=self._evaluate(merged, f"the {title}"),
            parts=[
                (str(network), self._evaluate(model, f"{network} ({number} of {total})"))
                for number, (network, model) in enumerate(
                    zip(self.networks, models_of(self.networks), strict=True), start=1
                )
            ],
        )
        print("\n".join(evaluation.lines(title)))
        print(evaluation.metrics())
        print("Exporting the merged network ...")
        export(merged, self.config, self.job.folders.model, self._report(evaluation))

    def _validation_data(self) -> ValidationData:
        data = validation_data(self.config, self.job.folders, classes=self.networks[0].class_names)
        assert data is not None  # noqa: S101  # for the type checker: options.check() requires the channel
        return data

    def _evaluate(self, model: tf.keras.Model, name: str) -> dict[str, float]:
        batches = counted(self.data.epoch(0, self.stop_requested), f"Evaluating {name}")
        return Validation(model, self.config)(batches)

    def _average(self) -> tf.keras.Model:
        """Return a network with the mean weights, or those after an outer step, and with statistics of batch norm."""
        model = build_model(self.config)
        mean = weighted_mean((read_weights(network, model) for network in self.networks), self.counts)
        assign(model, [value.astype(np.float32) for value in self._after_outer_step(mean, model)])
        if self.options.statistics == "recompute":
            batches = counted(self._training_batches(), "Computing the statistics of batch norm")
            images = recompute_statistics(model, self.config, batches, self.options.statistics_images)
            print(f"The statistics of batch norm are those of {images} training images.")
        return model

    def _after_outer_step(self, mean: Sums, model: tf.keras.Model) -> Sums:
        """Return the weights after the outer step; statistics of batch norm, which no gradient changes, are the mean.

        The velocity of the next round's step is written beside the model.
        """
        options = self.options
        step = OuterStep(learning_rate=options.outer_learning_rate, momentum=options.outer_momentum)
        if step.is_mean:
            return mean
        channel = self.job.channels[CHANNEL]
        start = start_weights(channel, self.networks[0])
        before = read_velocity(channel, self.networks[0].part.folder.parent, options)
        weights, velocity = step(start, mean, before)
        write_velocity(velocity, self.job.folders)
        print(f"Outer step {options.outer_round}: learning rate {step.learning_rate:g}, momentum {step.momentum:g}.")
        trained = {id(variable) for variable in model.trainable_variables}
        return [
            after if id(variable) in trained else average
            for variable, after, average in zip(model.variables, weights, mean, strict=True)
        ]

    def _training_batches(self) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        for batch in training_data(self.config, self.job.folders).epoch(0):
            if self.stop_requested():
                raise StopRequestedError
            yield batch

    def _report(self, evaluation: Evaluation) -> dict[str, object]:
        """Return the content of report.json: as that of the trainer, with the parts and their metrics."""
        same = {network.initial_weights for network in self.networks}
        return {
            **dataclasses.asdict(self.config),
            "top1": evaluation.merged["validation_top1"],
            "top5": evaluation.merged.get("validation_top5"),
            "validation_loss": evaluation.merged["validation_loss"],
            "class_names": self.networks[0].class_names,
            # Averages of models with a common start can be averaged again.
            "initial_weights": same.pop() if self.options.method == "average" else "",
            "merge_method": self.options.method,
            "merged_from": [
                _metrics_of_part(network, count, metrics)
                for network, count, (_, metrics) in zip(self.networks, self.counts, evaluation.parts, strict=True)
            ],
        }


def reading_config(config: Config) -> Config:
    """Return the hyperparameters of a part as those of the merge, which reads other channels."""
    return dataclasses.replace(
        config, data_dir="", train_records=0, validation_records=0, steps_per_epoch=0, precision="float32"
    )


def _metrics_of_part(network: Network, count: float, metrics: Mapping[str, float]) -> dict[str, object]:
    return {"submission": network.part.submission, "index": network.part.index, "weight": count, **metrics}
