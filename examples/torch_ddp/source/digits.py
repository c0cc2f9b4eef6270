"""The handwritten digits: a channel's images and labels, and the order and shifts of an epoch's images."""

from pathlib import Path

import torch


def read(folder: Path, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a channel's images, uint8 [count, 1, 8, 8], and their digits, from the file digits.pt."""
    content = torch.load(folder / "digits.pt", map_location=device, weights_only=True)
    return content["images"], content["labels"]


def order(count: int, seed: int, epoch: int) -> torch.Tensor:
    """Return the order of an epoch's images, which is the same on every rank."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))


def shifted(images: torch.Tensor) -> torch.Tensor:
    """Return images in 0..1, each shifted by up to one pixel in both directions."""
    padded = torch.nn.functional.pad(images.float() / 255, (1, 1, 1, 1))
    rows, columns = torch.randint(3, (2, len(images), 1), device=images.device) + torch.arange(8, device=images.device)
    picks = torch.arange(len(images), device=images.device)[:, None, None]
    return padded[picks, 0, rows[:, :, None], columns[:, None, :]].unsqueeze(1)
