import pytest

from training_container.trainer.config import Config, HyperparameterError
from training_container.trainer.schedule import learning_rate


def test_defaults_are_resnet50_on_imagenet() -> None:
    config = Config.from_hyperparameters({})
    assert (config.model, config.classes, config.image_size, config.epochs) == ("resnet50", 1000, 224, 90)


def test_text_becomes_typed() -> None:
    config = Config.from_hyperparameters(
        {"epochs": "3", "learning_rate": "1e-2", "cache": "True", "warmup_epochs": "1"}
    )
    assert (config.epochs, config.learning_rate, config.cache, config.warmup_epochs) == (3, 0.01, True, 1.0)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("learning_rat", "0.1", "'learning_rat' is unknown. Did you mean 'learning_rate'?"),
        ("zzz", "1", "'zzz' is unknown. There are: model, classes"),
        ("epochs", "2.5", "'epochs' is '2.5'; it must be a whole number from 1 to"),
        ("epochs", "0", "a whole number from 1"),
        ("learning_rate", "nan", "it must be a number from 1e-09 to 100"),
        ("learning_rate", "fast", "it must be a number"),
        ("cache", "yes", "'cache' is 'yes'; it must be true or false"),
        ("model", "vgg", "'model' is 'vgg'; it must be one of: resnet50, resnet8"),
        ("warmup_epochs", "91", "warmup_epochs is 91, but there are only 90 epochs"),
    ],
)
def test_a_wrong_hyperparameter_is_named_with_its_rule(name: str, text: str, words: str) -> None:
    with pytest.raises(HyperparameterError) as caught:
        Config.from_hyperparameters({name: text})
    assert words in str(caught.value)


def test_all_wrong_hyperparameters_are_named_at_once() -> None:
    with pytest.raises(HyperparameterError) as caught:
        Config.from_hyperparameters({"epochs": "x", "modle": "resnet8", "seed": "-1"})
    assert [line.split("'")[1] for line in str(caught.value).splitlines()] == ["epochs", "modle", "seed"]


def test_the_rate_warms_up_to_all_ranks_and_ends_at_zero() -> None:
    config = Config(learning_rate=0.1, warmup_epochs=5, epochs=25)
    rates = [learning_rate(config, 8, epoch) for epoch in (0, 2.5, 5, 15, 25)]
    assert rates == pytest.approx([0.1, 0.45, 0.8, 0.4, 0.0])


def test_one_rank_needs_no_warm_up() -> None:
    config = Config(learning_rate=0.1, warmup_epochs=5, epochs=25)
    assert learning_rate(config, 1, 0) == learning_rate(config, 1, 5) == pytest.approx(0.1)
