"""Reference recipe: the training of a ResNet-8, written again without the trainer, DDP, optimizers and modules.

It computes in float64, rank by rank in one process.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn.functional import batch_norm, conv2d

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The numbers of a recipe, as in docs/hyperparameters.md."""

    ranks: int
    batch: int
    accumulated: int
    epochs: int
    warmup_epochs: float
    rate: float
    momentum: float
    decay: float
    smoothing: float
    ema: float
    norm_momentum: float

    def trained(self, start: Tensors, images: torch.Tensor, labels: torch.Tensor) -> tuple[Tensors, list[float]]:
        """Return the averaged weights and statistics after the training, and the mean loss of each epoch.

        Each rank has a contiguous part of the images, and trains on them in their order.
        """
        state = {name: value.double() for name, value in start.items() if value.is_floating_point()}
        velocity = {name: torch.zeros_like(value) for name, value in state.items() if "running" not in name}
        average, losses, done = dict(state), [], 0
        shares = [(images[part], labels[part]) for part in torch.arange(len(images)).chunk(self.ranks)]
        batches = len(shares[0][1]) // self.batch
        steps = math.ceil(batches / self.accumulated)
        for epoch in range(self.epochs):
            epoch_losses = []
            for step in range(steps):
                numbers = range(step * self.accumulated, min((step + 1) * self.accumulated, batches))
                loss, gradients, statistics = self._gradients(state, shares, numbers)
                rate = self._rate(epoch + step / steps)
                for name, gradient in gradients.items():
                    decayed = gradient + self.decay * state[name] * (state[name].ndim > 1)
                    velocity[name] = self.momentum * velocity[name] + decayed
                    state[name] = state[name] - rate * (decayed + self.momentum * velocity[name])
                state |= statistics
                done += 1
                share = min(self.ema, (1 + done) / (10 + done))
                average = {name: share * average[name] + (1 - share) * value for name, value in state.items()}
                epoch_losses.append(loss)
            losses.append(sum(epoch_losses) / steps)
        return average, losses

    def _rate(self, epoch: float) -> float:
        peak = self.rate * self.ranks
        if epoch < self.warmup_epochs:
            return self.rate + (peak - self.rate) * epoch / self.warmup_epochs
        return peak * (1 + math.cos(math.pi * (epoch - self.warmup_epochs) / (self.epochs - self.warmup_epochs))) / 2

    def _gradients(
        self, state: Tensors, shares: list[tuple[torch.Tensor, torch.Tensor]], numbers: range
    ) -> tuple[float, Tensors, Tensors]:
        """Return the mean loss, and the mean gradients and statistics, of all ranks."""
        weights = {name: value.clone().requires_grad_() for name, value in state.items() if "running" not in name}
        total, statistics = torch.zeros((), dtype=torch.float64), []
        for images, labels in shares:
            own = {name: value.clone() for name, value in state.items() if "running" in name}
            for number in numbers:
                chosen = slice(number * self.batch, (number + 1) * self.batch)
                logits = resnet8(weights, own, images[chosen].double() / 127.5 - 1, self.norm_momentum)
                targets = torch.full_like(logits, self.smoothing / logits.shape[1])
                targets[range(self.batch), labels[chosen]] += 1 - self.smoothing
                total = total - (targets * logits.log_softmax(1)).sum(1).mean() / len(numbers) / self.ranks
            statistics.append(own)
        total.backward()
        gradients = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
        return (
            total.item(),
            gradients,
            {name: sum(own[name] for own in statistics) / self.ranks for name in statistics[0]},
        )


def resnet8(weights: Tensors, statistics: Tensors, images: torch.Tensor, momentum: float) -> torch.Tensor:
    """Return the logits, and change the statistics."""

    def norm(name: str, x: torch.Tensor) -> torch.Tensor:
        running = [statistics[f"{name}.running_{kind}"] for kind in ("mean", "var")]
        scale, shift = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return batch_norm(x, *running, scale, shift, training=True, momentum=1 - momentum, eps=1e-5)

    x = norm("stem.1", conv2d(images, weights["stem.0.weight"], padding=1)).relu()
    for number, stride in enumerate((1, 2, 2)):
        block = f"blocks.{number}"
        y = norm(f"{block}.first.1", conv2d(x, weights[f"{block}.first.0.weight"], stride=stride, padding=1)).relu()
        y = norm(f"{block}.second.1", conv2d(y, weights[f"{block}.second.0.weight"], padding=1))
        if number:
            x = norm(f"{block}.shortcut.1", conv2d(x, weights[f"{block}.shortcut.0.weight"], stride=stride))
        x = (x + y).relu()
    return x.mean((2, 3)) @ weights["fc.weight"].T + weights["fc.bias"]
