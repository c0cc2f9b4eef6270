"""Trains a small network to tell two spirals apart, in numpy, and prints its loss and accuracy after every epoch.

SageMaker's container contract provides the arguments and the variables: hyperparameters as `--name value`, the folder
of the channel `train` in SM_CHANNEL_TRAIN, and the folder whose content becomes model.tar.gz in SM_MODEL_DIR.
"""

import argparse
import os
from pathlib import Path

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning_rate", type=float, required=True)
    parser.add_argument("--epochs", type=int, default=40)
    options, _ = parser.parse_known_args()  # the grid may add hyperparameters

    table = np.loadtxt(Path(os.environ["SM_CHANNEL_TRAIN"]) / "spirals.csv", delimiter=",", skiprows=1)
    points, labels = table[:, :2], table[:, 2]
    training, held_out = slice(0, None, 2), slice(1, None, 2)

    random = np.random.default_rng(7)
    hidden, output = random.normal(0, 1.5, (3, 32)), random.normal(0, 0.3, 33)
    for epoch in range(1, options.epochs + 1):
        for _ in range(50):
            activations, probabilities = forward(points[training], hidden, output)
            error = (probabilities - labels[training]) / len(labels[training])
            back = np.outer(error, output[:-1]) * (1 - activations[:, :-1] ** 2)
            output = output - options.learning_rate * activations.T @ error
            hidden = hidden - options.learning_rate * with_ones(points[training]).T @ back
        _, probabilities = forward(points[held_out], hidden, output)
        likely = np.clip(np.where(labels[held_out] == 1, probabilities, 1 - probabilities), 1e-9, 1)
        accuracy = np.mean((probabilities > 0.5) == labels[held_out])
        print(f"epoch={epoch} loss={-np.log(likely).mean():.4f} accuracy={accuracy:.4f}", flush=True)

    np.savez(Path(os.environ["SM_MODEL_DIR"]) / "network.npz", hidden=hidden, output=output)


def forward(points: np.ndarray, hidden: np.ndarray, output: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the activations of the hidden layer, and the probability of label 1 of each point."""
    activations = with_ones(np.tanh(with_ones(points) @ hidden))
    return activations, 1 / (1 + np.exp(-np.clip(activations @ output, -30, 30)))


def with_ones(values: np.ndarray) -> np.ndarray:
    """Return the values with a column of ones, for the bias."""
    found: np.ndarray = np.column_stack([values, np.ones(len(values))])
    return found


if __name__ == "__main__":
    main()
