"""Handwritten digits with PyTorch's DistributedDataParallel: a script of torchrun that uses nothing of traingrid.

    torchrun --standalone --nproc-per-node 2 train.py --learning_rate 0.01

It reads the folder SM_CHANNEL_TRAIN and writes the model to SM_MODEL_DIR, as in SageMaker's own containers.
"""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def digits(folder: str) -> TensorDataset:
    tensors = torch.load(Path(folder) / "digits.pt", weights_only=True)
    return TensorDataset(tensors["images"].float().div(255), tensors["labels"])


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    images, labels = data.tensors
    with torch.inference_mode():
        return float((model(images).argmax(1) == labels).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    options = parser.parse_args()

    dist.init_process_group("gloo")  # "nccl" on GPUs
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate)
    train, held_out = digits(os.environ["SM_CHANNEL_TRAIN"]), digits(os.environ["SM_CHANNEL_VALIDATION"])
    sampler = DistributedSampler(train)  # this rank's share
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for images, labels in DataLoader(train, batch_size=32, sampler=sampler):
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch={epoch + 1} loss={loss.item():.4f} accuracy={accuracy(network, held_out):.4f}", flush=True)
    if dist.get_rank() == 0:
        torch.save(network.state_dict(), Path(os.environ["SM_MODEL_DIR"]) / "model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
