"""A small vision transformer (https://arxiv.org/abs/2010.11929) for scans of 8 x 8 pixels."""

import torch
from torch import nn

PATCH, TOKENS, WIDTH, DEPTH, HEADS, CLASSES = 2, 16, 64, 2, 4, 10
MEAN, DEVIATION = 0.3, 0.37  # of the pixels


class VisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, kernel_size=PATCH, stride=PATCH)
        self.position = nn.Parameter(0.02 * torch.randn(1, TOKENS, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, dim_feedforward=2 * WIDTH, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, DEPTH, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(TOKENS * WIDTH, CLASSES)  # of all tokens: 1,437 scans are too few to learn a class token

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits, [batch, 10], of images, [batch, 1, 8, 8] in 0..1."""
        tokens = self.patches((images - MEAN) / DEVIATION).flatten(2).transpose(1, 2) + self.position
        logits: torch.Tensor = self.head(self.encoder(tokens).flatten(1))
        return logits
