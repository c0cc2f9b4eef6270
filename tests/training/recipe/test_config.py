import pytest

from training_container.contract.training_job import ContractError, from_flags
from training_container.recipe.config import TORCH, Config, HyperparameterError


def test_defaults_are_resnet50_on_imagenet() -> None:
    config = Config.from_hyperparameters({})
    assert (config.model, config.classes, config.image_size, config.epochs) == ("resnet50", 1000, 224, 90)
    assert (config.batch_size, config.rate_of_one_rank, config.lr_schedule) == (256, 0.1, "polynomial")
    assert (config.warmup_epochs, config.momentum, config.label_smoothing) == (10, 0.9, 0.1)


def test_a_whole_number_may_be_a_float_as_pandas_writes_it() -> None:
    config = Config.from_hyperparameters({"epochs": "90.0", "seed": "7.", "classes": "+10.00"})
    assert (config.epochs, config.seed, config.classes) == (90, 7, 10)
    assert type(config.epochs) is int


def test_text_is_converted_to_typed_values() -> None:
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
        ("epochs", "1,000", "'epochs' is '1,000'; it must be a whole number"),
        ("epochs", "9e1", "a whole number from 1"),
        ("epochs", "0", "a whole number from 1"),
        ("learning_rate", "nan", "it must be a number from 0 to 100"),
        ("learning_rate", "fast", "it must be a number"),
        ("cache", "yes", "'cache' is 'yes'; it must be true or false"),
        ("model", "vgg", "'model' is 'vgg'; it must be one of: resnet50, resnet32"),
        ("tensorboard_s3", "/tmp/events", "'tensorboard_s3' is '/tmp/events'; it must begin with 's3://' or be empty"),
        ("lr_decay_mode", "steps", "'lr_schedule' is 'steps'; it must be one of: polynomial, cosine"),
        ("accumulate_steps", "0", "'accumulate_steps' is '0'; it must be a whole number from 1 to"),
        ("ema", "1", "'ema' is '1'; it must be a number from 0 to 0.999999"),
        ("warmup_epochs", "91", "'warmup_epochs' is 91, but there are only 90 epochs"),
    ],
)
def test_an_invalid_hyperparameter_is_reported_with_its_rule(name: str, text: str, words: str) -> None:
    with pytest.raises(HyperparameterError) as caught:
        Config.from_hyperparameters({name: text})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({"xla": "true"}, "'xla' is one of the trainer for TensorFlow, but this image has the trainer for PyTorch."),
        ({"precision": "mixed_float16"}, "it must be one of: auto, float32, mixed_bfloat16."),
        ({"optimizer": "adamw", "momentum": "0.9"}, "'momentum' is given, but the optimizer is adamw"),
        ({"workrs": "2"}, "'workrs' is unknown. Did you mean 'workers'?"),
    ],
)
def test_the_trainer_for_pytorch_refuses_what_it_lacks(texts: dict[str, str], sentence: str) -> None:
    with pytest.raises(HyperparameterError) as caught:
        Config.from_hyperparameters(texts, TORCH)
    assert sentence in str(caught.value)


def test_the_trainer_for_tensorflow_refuses_what_it_lacks() -> None:
    with pytest.raises(HyperparameterError) as caught:
        Config.from_hyperparameters({"workers": "2", "model": "vit_b_16"})
    assert "'workers' is one of the trainer for PyTorch" in str(caught.value)
    assert "'vit_b_16'; it must be one of: resnet50, resnet32, resnet20, resnet8." in str(caught.value)


@pytest.mark.parametrize(
    ("texts", "rate"),
    [
        ({"batch_size": "96"}, 0.0375),
        ({"batch_size": "64", "accumulate_steps": "8"}, 0.2),
        ({"base_learning_rate": "0.256", "batch_size": "128"}, 0.128),
        ({"learning_rate": "0.05", "batch_size": "64", "accumulate_steps": "8"}, 0.05),
    ],
)
def test_the_rate_follows_the_global_batch_unless_it_is_given_for_one_rank(texts: dict[str, str], rate: float) -> None:
    assert Config.from_hyperparameters(texts).rate_of_one_rank == pytest.approx(rate)


def test_two_rates_are_refused() -> None:
    with pytest.raises(HyperparameterError, match="'learning_rate' is given, and 'base_learning_rate', too"):
        Config.from_hyperparameters({"learning_rate": "0.1", "base_learning_rate": "0.1"})


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_gradients_in_float16_require_loss_scaling(precision: str) -> None:
    texts = {"gradient_compression": "fp16", "precision": precision}
    with pytest.raises(HyperparameterError, match=f"with precision {precision} the loss is not scaled"):
        Config.from_hyperparameters(texts)
    for scaled in ("mixed_float16", "auto"):
        Config.from_hyperparameters(texts | {"precision": scaled})


def test_all_invalid_hyperparameters_are_reported_at_once() -> None:
    with pytest.raises(HyperparameterError) as caught:
        Config.from_hyperparameters({"epochs": "x", "modle": "resnet8", "seed": "-1"})
    assert [line.split("'")[1] for line in str(caught.value).splitlines()] == ["epochs", "modle", "seed"]


def test_a_stream_timeout_of_at_least_the_stall_limit_is_refused() -> None:
    with pytest.raises(
        HyperparameterError, match="'pipe_timeout_seconds' is 600, but must be less than stall_seconds, 300: all"
    ):
        Config.from_hyperparameters({"pipe_timeout_seconds": "600", "stall_seconds": "300"})
    for stall_seconds in ("0", "601"):
        Config.from_hyperparameters({"pipe_timeout_seconds": "600", "stall_seconds": stall_seconds})


def test_only_the_default_warm_up_is_limited_to_half_of_the_epochs() -> None:
    assert Config.from_hyperparameters({"epochs": "12", "warmup_epochs": "9"}).warmup_epochs == 9
    assert Config.from_hyperparameters({"epochs": "12"}).warmup_epochs == 6
    assert Config.from_hyperparameters({"epochs": "40"}).warmup_epochs == 10


def test_the_original_recipes_command_line_is_accepted() -> None:
    line = "--num_epochs 30 --b=128 --lr_decay_mode poly --warmup_epochs 5 --data_dir /data/train --clear_log"
    config = Config.from_hyperparameters(from_flags(line.split()))
    assert (config.epochs, config.batch_size, config.lr_schedule) == (30, 128, "polynomial")
    assert (config.warmup_epochs, config.data_dir, config.clear_log) == (5.0, "/data/train", True)


def test_an_alias_and_its_hyperparameter_may_agree_but_not_differ() -> None:
    assert Config.from_hyperparameters({"epochs": "30", "num_epochs": "30"}).epochs == 30
    with pytest.raises(HyperparameterError) as caught:
        Config.from_hyperparameters({"epochs": "30", "num_epochs": "90"})
    assert "'epochs' is given twice: epochs is '30' and num_epochs is '90'" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [("90", "Argument '90' is not a flag"), ("--b 1 --b 2", "Flag --b is repeated"), ("-- 1", "'--' is not a flag")],
)
def test_an_invalid_command_line_is_reported(line: str, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        from_flags(line.split())
    assert words in str(caught.value)


def test_a_flags_value_may_be_negative() -> None:
    assert from_flags(["--seed", "-1"]) == {"seed": "-1"}
