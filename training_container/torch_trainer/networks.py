"""Networks: ResNet-50 and a vision transformer of torchvision, and ResNet-8, 20 and 32 for small images."""

import torch
from torch import nn
from torch.nn.functional import relu
from torchvision import models

from training_container.recipe.config import Config

_SMALL = {"resnet8": 1, "resnet20": 3, "resnet32": 5}
"""Blocks in each of the three stages of a small network; its depth is 6 n + 2."""


class Classifier(nn.Module):
    """A network from images [batch, 3, size, size] in 0..255 to logits [batch, classes].

    Attributes:
        network: The network itself, whose images are in -1..1. Its weights are those of the exported model.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.network = build_network(config).to(memory_format=torch.channels_last)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        scaled = images.to(torch.float32) / 127.5 - 1.0
        logits: torch.Tensor = self.network(scaled.contiguous(memory_format=torch.channels_last))
        return logits


def build_network(config: Config) -> nn.Module:
    """Return a network with random weights, which depend on PyTorch's seed.

    ResNet-50 is v1.5, with the stride on the 3 x 3 convolution, and a block begins as an identity (Goyal et al. 2017).
    """
    if config.model in _SMALL:
        network: nn.Module = SmallResNet(_SMALL[config.model], config.classes)
    elif config.model == "vit_b_16":
        network = models.vit_b_16(num_classes=config.classes, image_size=config.image_size)
    else:
        network = models.resnet50(num_classes=config.classes, zero_init_residual=True)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0 - config.batch_norm_momentum  # PyTorch's is the share of the new value
    return network


def head_of(network: nn.Module) -> str:
    """Return the name of the last layer, whose shape depends on the number of classes."""
    names: list[str] = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    return names[-1]


class SmallResNet(nn.Module):
    """A stem and three stages of basic blocks with 16, 32 and 64 channels.

    Source: He et al. (arXiv:1512.03385), section 4.2. A shortcut that changes the shape is a projection, the paper's
    option B.
    """

    def __init__(self, blocks: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolution(3, 16), nn.BatchNorm2d(16), nn.ReLU())
        stages, inputs = [], 16
        for channels, first_stride in ((16, 1), (32, 2), (64, 2)):
            for block in range(blocks):
                stages.append(BasicBlock(inputs, channels, first_stride if block == 0 else 1))
                inputs = channels
        self.blocks = nn.Sequential(*stages)
        self.fc = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of images in -1..1."""
        logits: torch.Tensor = self.fc(self.blocks(self.stem(images)).mean((2, 3)))
        return logits


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(_convolution(inputs, channels, stride=stride), nn.BatchNorm2d(channels), nn.ReLU())
        self.second = nn.Sequential(_convolution(channels, channels), nn.BatchNorm2d(channels))
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != channels:
            self.shortcut = nn.Sequential(_convolution(inputs, channels, 1, stride), nn.BatchNorm2d(channels))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        return relu(self.second(self.first(images)) + self.shortcut(images))


def _convolution(inputs: int, channels: int, size: int = 3, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, channels, size, stride, padding=size // 2, bias=False)
