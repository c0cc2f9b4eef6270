"""Outer steps: their mathematics, and the accuracy of rounds on digits whose classes are split over four Regions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import mean

import numpy as np
import pytest
from sklearn.datasets import load_digits

from training_container.merge.outer_step import OuterStep, Weights, weighted_mean

Index = np.ndarray
STEPS, ROUNDS, REGIONS, HELD_OUT = 400, 4, 4, 400
FEDAVG, DILOCO = OuterStep(), OuterStep(learning_rate=0.7, momentum=0.6)


def test_the_mean_is_weighted_by_the_counts() -> None:
    first, second = ([np.full([2], value, np.float32), np.float32([value])] for value in (1.0, 4.0))
    assert [value.tolist() for value in weighted_mean(iter([first, second]), [1, 2])] == [[3.0, 3.0], [3.0]]


def test_a_step_without_momentum_and_with_rate_1_is_the_mean() -> None:
    start, end = [np.float32([1.0, 2.0])], [np.array([3.0, -2.0])]
    weights, velocity = FEDAVG(start, end, None)
    assert FEDAVG.is_mean
    assert weights[0].tolist() == end[0].tolist()
    assert velocity[0].tolist() == [-2.0, 4.0]


def test_two_steps_with_momentum_are_those_of_nesterov() -> None:
    """By hand, for one weight: g = start - mean, v' = 0.5 v + g, w' = w - 0.1 (g + 0.5 v')."""
    step = OuterStep(learning_rate=0.1, momentum=0.5)
    weights, velocity = step([np.float32([1.0])], [np.array([0.0])], None)
    assert (weights[0][0], velocity[0][0]) == (pytest.approx(0.85), pytest.approx(1.0))
    weights, velocity = step([np.float32([0.85])], [np.array([0.45])], [np.float32([1.0])])
    assert (weights[0][0], velocity[0][0]) == (pytest.approx(0.85 - 0.1 * (0.4 + 0.5 * 0.9)), pytest.approx(0.9))


@dataclass
class Digits:
    """A network of two hidden layers with 64 units, trained on digits by SGD with momentum 0.9 and rate 0.1."""

    seed: int
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        images, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(images))
        images, labels = images[order] / 16.0, labels[order]
        self.tests, self.answers = images[:HELD_OUT], labels[:HELD_OUT]
        self.images, self.labels = images[HELD_OUT:], labels[HELD_OUT:]
        self.random = np.random.default_rng(self.seed)
        self.regions = self.split()
        self.start: Weights = [
            part
            for units in (64, 64, 10)
            for part in (self.random.normal(0, (2 / 64) ** 0.5, (64, units)), np.zeros(units))
        ]

    def split(self) -> list[Index]:
        """Return the images of each Region: of each class, shares from a Dirichlet distribution of parameter 0.3."""
        parts: list[list[int]] = [[] for _ in range(REGIONS)]
        for digit in range(10):
            indexes = np.where(self.labels == digit)[0]
            self.random.shuffle(indexes)
            shares = self.random.dirichlet([0.3] * REGIONS)
            ends = (shares * len(indexes)).astype(int).cumsum()[:-1]
            for part, chosen in zip(parts, np.split(indexes, ends), strict=True):
                part.extend(chosen)
        return [np.array(part) for part in parts]

    def trained(self, weights: Weights, indexes: Index, steps: int) -> Weights:
        weights, velocity = list(weights), [np.zeros_like(value) for value in weights]
        for _ in range(steps):
            batch = self.random.choice(indexes, 32)
            gradients = gradient(weights, self.images[batch], self.labels[batch])
            velocity = [0.9 * value + change for value, change in zip(velocity, gradients, strict=True)]
            weights = [value - 0.1 * change for value, change in zip(weights, velocity, strict=True)]
        return weights

    def each(self, weights: Weights, steps: int) -> Iterator[Weights]:
        return (self.trained(weights, region, steps) for region in self.regions)

    def rounds(self, step: OuterStep) -> Weights:
        weights, velocity = self.start, None
        for _ in range(ROUNDS):
            average = weighted_mean(self.each(weights, STEPS // ROUNDS), self.counts)
            weights, velocity = step(weights, average, velocity)
        return weights

    @property
    def counts(self) -> list[int]:
        return [len(region) for region in self.regions]

    def top1(self, weights: Weights) -> float:
        return float((layers(weights, self.tests)[-1].argmax(1) == self.answers).mean())


def layers(weights: Sequence[np.ndarray], images: np.ndarray) -> list[np.ndarray]:
    first = np.maximum(images @ weights[0] + weights[1], 0)
    second = np.maximum(first @ weights[2] + weights[3], 0)
    return [first, second, second @ weights[4] + weights[5]]


def gradient(weights: Weights, images: np.ndarray, labels: np.ndarray) -> Weights:
    first, second, logits = layers(weights, images)
    probabilities = np.exp(logits - logits.max(1, keepdims=True))
    probabilities /= probabilities.sum(1, keepdims=True)
    probabilities[np.arange(len(labels)), labels] -= 1
    third = probabilities / len(labels)
    behind = (third @ weights[4].T) * (second > 0)
    front = (behind @ weights[2].T) * (first > 0)
    pairs = ((images, front), (first, behind), (second, third))
    return [part for inputs, change in pairs for part in (inputs.T @ change, change.sum(0))]


def ways(digits: Digits) -> dict[str, float]:
    """Return the top-1 of each way to train, all with as many steps."""
    local = list(digits.each(digits.start, STEPS))
    return {
        "a Region alone": mean(map(digits.top1, local)),
        "one mean": digits.top1(weighted_mean(local, [1] * REGIONS)),
        "one weighted mean": digits.top1(weighted_mean(local, digits.counts)),
        "FedAvg": digits.top1(digits.rounds(FEDAVG)),
        "DiLoCo": digits.top1(digits.rounds(DILOCO)),
        "one place": digits.top1(digits.trained(digits.start, np.arange(len(digits.images)), REGIONS * STEPS)),
    }


def test_rounds_approach_the_accuracy_of_all_data_in_one_place() -> None:
    """Means of three seeds. FedAvg and DiLoCo differ by less than seeds do (docs/rounds.md)."""
    seeds = [ways(Digits(seed)) for seed in range(3)]
    top1 = {name: mean(seed[name] for seed in seeds) for name in seeds[0]}
    assert top1["a Region alone"] < top1["one mean"] < top1["one weighted mean"] < 0.9, top1
    assert min(top1["FedAvg"], top1["DiLoCo"]) > 0.93, top1
    assert max(top1["FedAvg"], top1["DiLoCo"]) < top1["one place"], top1
