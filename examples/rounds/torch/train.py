"""Handwritten digits with PyTorch in rounds: `begin` loads the global weights, and `save` writes those of this Region.

The files of the channels are those of examples/torch_ddp/write_digits.py. `epochs` and `seed` are set by the rounds.
"""

import argparse
import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from trainer import metrics, round_weights


def digits(channel: str) -> TensorDataset:
    """Return the scans of a channel, and their digits."""
    tensors = torch.load(Path(os.environ[f"SM_CHANNEL_{channel}"]) / "digits.pt", weights_only=True)
    return TensorDataset(tensors["images"].float().div(255), tensors["labels"])


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    """Return the share of scans whose digit the model finds."""
    images, labels = data.tensors
    model.eval()
    with torch.inference_mode():
        return float((model(images).argmax(1) == labels).float().mean())


def main() -> None:
    """Train the last global model on the scans of this Region."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    options = parser.parse_args()

    torch.manual_seed(options.seed)  # all Regions begin the first round with the same weights
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    model.load_state_dict(round_weights.begin(model.state_dict()))
    train, held_out = digits("TRAIN"), digits("VALIDATION")
    metrics.report(global_validation_top1=accuracy(model, held_out))  # of the last global model
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9)
    for epoch in range(1, options.epochs + 1):
        model.train()
        for images, labels in DataLoader(train, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        metrics.report(epoch=epoch, loss=loss.item(), validation_top1=accuracy(model, held_out))
    round_weights.save(model.state_dict(), records=len(train), averaged=dict(model.named_buffers()))


if __name__ == "__main__":
    main()
