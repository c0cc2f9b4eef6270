import pytest

from training_container.recipe.config import Config
from training_container.recipe.schedule import epochs_done, learning_rate

SCHEDULE = {"learning_rate": 0.1, "warmup_epochs": 5, "epochs": 25}


def test_the_rate_warms_up_and_decays_as_a_cosine() -> None:
    config = Config(**SCHEDULE, lr_schedule="cosine")
    rates = [learning_rate(config, 8, epoch) for epoch in (0, 2.5, 5, 15, 25)]
    assert rates == pytest.approx([0.1, 0.45, 0.8, 0.4, 0.0])


def test_the_rate_decays_as_a_polynomial_of_the_given_power() -> None:
    quadratic, straight = Config(**SCHEDULE), Config(**SCHEDULE, lr_power=1)
    assert [learning_rate(quadratic, 8, epoch) for epoch in (5, 15, 20, 25)] == pytest.approx([0.8, 0.2, 0.05, 0.0])
    assert [learning_rate(straight, 8, epoch) for epoch in (5, 15, 20, 25)] == pytest.approx([0.8, 0.4, 0.2, 0.0])


@pytest.mark.parametrize("lr_schedule", ["polynomial", "cosine"])
def test_the_rate_is_zero_after_the_end(lr_schedule: str) -> None:
    assert learning_rate(Config(**SCHEDULE, lr_schedule=lr_schedule, lr_power=1.5), 8, 26.0) == pytest.approx(0.0)


def test_one_rank_needs_no_warm_up() -> None:
    config = Config(**SCHEDULE)
    assert learning_rate(config, 1, 0) == learning_rate(config, 1, 5) == pytest.approx(0.1)


def test_a_training_shorter_than_its_default_warm_up_still_reaches_the_peak() -> None:
    config = Config.from_hyperparameters({"learning_rate": "0.1", "epochs": "4"})
    assert learning_rate(config, 2, 2.0) == pytest.approx(0.2)
    assert learning_rate(config, 2, 1.0) == pytest.approx(0.15)


def test_a_given_warm_up_is_completed() -> None:
    config = Config(learning_rate=0.1, epochs=4, warmup_epochs=4)
    assert [learning_rate(config, 2, epoch) for epoch in (0, 2, 4)] == pytest.approx([0.1, 0.15, 0.2])


def test_the_rate_is_constant_while_an_epochs_length_is_unknown() -> None:
    assert epochs_done(0, 700, None) == 0.0
    assert epochs_done(1, 350, 700) == 1.5
    assert epochs_done(1, 701, 700) == 2.0
