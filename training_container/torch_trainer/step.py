"""Step: one training step of one rank: gradients of its batches, their average over all ranks, and the update."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from training_container.recipe.config import Config
from training_container.recipe.timing import StepTimes
from training_container.torch_trainer.averages import MovingAverages
from training_container.torch_trainer.images import Batch
from training_container.torch_trainer.networks import Classifier

_ADAM_BETAS = (0.9, 0.999)


class StepOutcome:
    """The result of a step, which is the same on every rank. Reading it waits for the step to end on the device.

    Args:
        loss_and_stop: The mean of all ranks' losses, and of their flags to stop.
    """

    def __init__(self, loss_and_stop: torch.Tensor) -> None:
        # The copy to pinned memory ends before the next step, whose work the host has not to wait for.
        self._values = loss_and_stop.to("cpu", non_blocking=True)
        self._copied = torch.cuda.Event() if loss_and_stop.is_cuda else None
        if self._copied:
            self._copied.record()

    def read(self) -> tuple[float, bool]:
        """Return the mean of all ranks' losses, and True if any rank was asked to stop."""
        if self._copied:
            self._copied.synchronize()
        loss, stop = self._values.tolist()
        return loss, stop > 0


class TorchStep:
    """The training step of a network, and the state that it changes in addition to the weights.

    All ranks create it together, and begin with the weights of rank 0.

    Attributes:
        network: The network, on this rank's device.
        optimizer: SGD with Nesterov momentum, or AdamW.
        averages: The moving average of the weights and of the batch normalization statistics, or None.
        rate: The learning rate of the last step.
    """

    def __init__(self, network: Classifier, config: Config, device: torch.device, precision: torch.dtype) -> None:
        self.network, self._config, self._device, self._precision = network, config, device, precision
        # Each rank keeps its own statistics during the backward pass; `_outcome` averages them.
        parallel = DistributedDataParallel(network, broadcast_buffers=False, gradient_as_bucket_view=True)
        self._parallel: Any = parallel
        self._no_sync = parallel.no_sync
        if config.torch_compile:
            self._parallel = torch.compile(parallel)
        self.optimizer, self.rate = build_optimizer(network, config), 0.0
        self._weights = list(network.parameters())
        self._statistics = [buffer for buffer in network.buffers() if buffer.is_floating_point()]
        self.averages = MovingAverages(network, config.ema) if config.ema else None

    def arrange(self, batch: Batch) -> None:
        """Run a pass without an update, and without its effect on the statistics.

        DDP rearranges gradients after the first backward pass of each process, which changes the order in which the
        ranks are added, and so the last digit of their sum. A training that is resumed must add in the same order.
        """
        buffers = [buffer.clone() for buffer in self.network.buffers()]
        self._gradients(batch, 1)
        self.optimizer.zero_grad()
        for buffer, value in zip(self.network.buffers(), buffers, strict=True):
            buffer.copy_(value)

    def __call__(self, batches: Sequence[Batch], rate: float, *, stop: bool = False) -> StepOutcome:
        """Train on this rank's batches, with one update for all of them. All ranks take part.

        Args:
            batches: `accumulate_steps` batches, or fewer at the end of an epoch. Every rank has the same number.
            stop: True if this rank was asked to stop. The other ranks receive it with the loss.
        """
        with self._no_sync():
            losses = [self._gradients(batch, len(batches)) for batch in batches[:-1]]
        losses.append(self._gradients(batches[-1], len(batches)))
        return self._updated(losses, rate, stop=stop)

    def in_parts(self, batches: Sequence[Batch], rate: float, times: StepTimes, *, stop: bool = False) -> StepOutcome:
        """Run the same step with measurements: gradients are averaged after all are computed, not as soon as possible.

        The time of averaging includes waiting for the slowest rank.
        """
        with times.compute():
            with self._no_sync():
                losses = [self._gradients(batch, len(batches)) for batch in batches]
            self._synchronize()
        with times.allreduce():
            for weight in self._weights:
                dist.all_reduce(weight.grad)
                weight.grad /= dist.get_world_size()
            self._synchronize()
        with times.compute():
            outcome = self._updated(losses, rate, stop=stop)
            self._synchronize()
        return outcome

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Replace the weights by their moving averages, if enabled, and restore them afterwards."""
        with self.averages.in_place() if self.averages else contextlib.nullcontext():
            yield

    def tensors(self) -> dict[str, Any]:
        """Return the tensors that checkpoints contain, by name; loading into them changes the training."""
        names = {weight: name for name, weight in self.network.network.named_parameters()}
        state = {names[weight]: dict(entries) for weight, entries in self.optimizer.state.items()}
        averages = {"averages": self.averages.by_name()} if self.averages else {}
        return {"network": self.network.network.state_dict(), "optimizer": state, **averages}

    def is_finite(self) -> bool:
        """Return True if all numbers of the weights and statistics, and of their averages, are finite."""
        tensors = [*self._weights, *self._statistics, *(self.averages.averages if self.averages else ())]
        return bool(torch.stack([tensor.isfinite().all() for tensor in tensors]).all())

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of images that are in the host's memory, without gradients."""
        with torch.no_grad(), self._autocast():
            return self.network(images.to(self._device, non_blocking=True)).float()

    def _autocast(self) -> Any:
        return torch.autocast(self._device.type, self._precision, enabled=self._precision != torch.float32)

    def _gradients(self, batch: Batch, batches: int) -> torch.Tensor:
        """Add the gradients of a batch, and return its mean loss, both divided by the number of batches."""
        images, labels = (part.to(self._device, non_blocking=True) for part in batch)
        with self._autocast():
            logits = self._parallel(images)
        loss = cross_entropy(logits.float(), labels, label_smoothing=self._config.label_smoothing) / batches
        loss.backward()
        return loss.detach()

    def _updated(self, losses: Sequence[torch.Tensor], rate: float, *, stop: bool) -> StepOutcome:
        outcome = self._outcome(torch.stack(list(losses)).sum(), stop=stop)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.averages:
            self.averages.update()
        return outcome

    def _outcome(self, loss: torch.Tensor, *, stop: bool) -> StepOutcome:
        """Average loss, stop flag and statistics over ranks in one allreduce, so that all ranks have the same state.

        A loss that is not finite on one rank is not finite on any, so all end after the same step.
        """
        flag = torch.full_like(loss, float(stop))
        values = torch.cat([torch.stack([loss, flag]), *(statistic.flatten() for statistic in self._statistics)])
        dist.all_reduce(values)
        values /= dist.get_world_size()
        averages = values[2:].split([statistic.numel() for statistic in self._statistics])
        for statistic, average in zip(self._statistics, averages, strict=True):
            statistic.copy_(average.view_as(statistic))
        return StepOutcome(values[:2])

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()


def build_optimizer(network: torch.nn.Module, config: Config) -> torch.optim.Optimizer:
    """Return the optimizer, whose state exists before the first step, so that a checkpoint can be loaded into it."""
    kernels = [weight for name, weight in network.named_parameters() if is_decayed(name, weight)]
    undecayed = [weight for name, weight in network.named_parameters() if not is_decayed(name, weight)]
    groups = [{"params": kernels, "weight_decay": config.weight_decay}, {"params": undecayed, "weight_decay": 0.0}]
    fused = undecayed[0].is_cuda
    optimizer: torch.optim.Optimizer
    if config.optimizer == "adamw":
        optimizer = torch.optim.AdamW(groups, betas=_ADAM_BETAS, fused=fused)
    else:
        nesterov = config.momentum > 0
        optimizer = torch.optim.SGD(groups, lr=0.0, momentum=config.momentum, nesterov=nesterov, fused=fused)
    for weight in [*kernels, *undecayed]:
        optimizer.state[weight] = _initial_state(weight, config)
    return optimizer


def is_decayed(name: str, weight: torch.Tensor) -> bool:
    """Return True if weight decay applies: to kernels, but not to biases, norms and positions."""
    return name.endswith("weight") and weight.ndim > 1


def _initial_state(weight: torch.Tensor, config: Config) -> Mapping[str, torch.Tensor]:
    """Return the state of PyTorch's optimizers before the first step."""
    if config.optimizer == "adamw":
        step = torch.zeros((), device=weight.device if weight.is_cuda else "cpu")
        return {"step": step, "exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight)}
    return {"momentum_buffer": torch.zeros_like(weight)} if config.momentum else {}
