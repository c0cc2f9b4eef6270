"""Attributes of the SDK's classes: each is converted, unused for a reason, or refused by name."""

import typing
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel
from sagemaker.core.shapes import shapes
from sagemaker.core.training import configs
from sagemaker.core.workflow.parameters import ParameterString
from sagemaker.core.workflow.pipeline_context import PipelineSession
from sagemaker.train import ModelTrainer, distributed

import traingrid as tg
from traingrid.api.trainer_attributes import ATTRIBUTES, REFUSED_CLASSES

Trainers = Callable[..., Any]
REFUSED = [
    (owner, name)
    for owner, table in ATTRIBUTES.items()
    for name, attribute in table.items()
    if attribute.next_step and owner != "DataSource"  # its values are refused by their class
]
S3 = {"s3_data_type": "S3Prefix", "s3_uri": "s3://ragab-ml/x"}
VALUES: dict[str, Any] = {  # the type of any other attribute is text
    "training_image_config": shapes.TrainingImageConfig(training_repository_access_mode="Vpc"),
    "model_package_config": shapes.ModelPackageConfig(model_package_group_arn="arn:x"),
    "_is_nova_recipe": True,
    "_is_llmft_recipe": True,
    "_temp_recipe_train_dir": SimpleNamespace(cleanup=lambda: None),
    "keep_alive_period_in_seconds": 600,
    "max_pending_time_in_seconds": 7200,
    "instance_groups": [shapes.InstanceGroup(instance_type="a", instance_count=1, instance_group_name="b")],
    "smp": distributed.SMP(random_seed=1),
    "instance_placement_config": shapes.InstancePlacementConfig(),
    "instance_preferences": [shapes.InstancePreference(instance_type="ml.p3.16xlarge", instance_count=1)],
    "selected_instance_count": 1,
    "security_group_ids": ["sg-1"],
    "subnets": ["subnet-1"],
    "enable_network_isolation": True,
    "enable_inter_container_traffic_encryption": True,
    "attribute_names": ["x"],
    "instance_group_names": ["x"],
    "model_access_config": shapes.ModelAccessConfig(accept_eula=True),
    "hub_access_config": shapes.HubAccessConfig(hub_content_arn="arn:x"),
}


def fields(model: type[BaseModel]) -> dict[str, Any]:
    private = typing.get_type_hints(model)
    return {name: field.annotation for name, field in model.model_fields.items()} | {
        name: private[name] for name in model.__private_attributes__
    }


def models(annotation: Any) -> set[type[BaseModel]]:
    """Return the pydantic models in an annotation, such as a union or a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return {model for part in typing.get_args(annotation) for model in models(part)}


def converted_models() -> set[type[BaseModel]]:
    """Return ModelTrainer and every class of a value that the conversion accepts somewhere below it."""
    found: set[type[BaseModel]] = set()
    left: list[type[BaseModel]] = [ModelTrainer, distributed.MPI, distributed.Torchrun, configs.InputData]
    while left:
        model = left.pop()
        found.add(model)
        table = ATTRIBUTES.get(model.__name__, {})
        for name, annotation in fields(model).items():
            if name in table and (table[name].next_step or not table[name].fields) and name != "data_source":
                continue
            left += models(annotation) - found
    return {model for model in found if model.__name__ not in (*REFUSED_CLASSES, "DistributedConfig")}


def test_the_walk_reaches_nested_classes() -> None:
    reached = {model.__name__ for model in converted_models()}
    assert reached >= {"Compute", "Channel", "S3DataSource", "ShuffleConfig", "Tag", "MetricDefinition", "MPI"}


@pytest.mark.parametrize("model", sorted(converted_models(), key=repr), ids=lambda model: model.__name__)
def test_every_attribute_of_the_installed_sdk_has_a_treatment(model: type[BaseModel]) -> None:
    """If this fails, the SDK has a new attribute: convert or refuse it in traingrid/api/trainer_attributes.py."""
    assert set(fields(model)) == set(ATTRIBUTES[model.__name__])


def test_every_table_belongs_to_a_class_of_the_sdk() -> None:
    assert set(ATTRIBUTES) == {model.__name__ for model in converted_models()}


def with_value(create: Trainers, owner: str, name: str, value: Any) -> Any:
    """Return a trainer with one attribute set."""
    if owner == "ModelTrainer":
        found = create()
        private = name.startswith("_")
        found.__pydantic_private__[name] = value  # without the check of its type
        if not private:
            del found.__pydantic_private__[name]
            setattr(found, name, value)
        return found
    if owner == "Compute":
        by_hand = name == "instance_preferences"  # with it, the SDK rejects the attributes that it replaces
        usual = {} if by_hand else {"instance_type": "ml.p3.16xlarge", "instance_count": 1}
        return create(compute=configs.Compute(**usual, **{name: value}))
    if owner == "Channel":
        source = shapes.DataSource(s3_data_source=shapes.S3DataSource(**S3))
        return create(input_data_config=[shapes.Channel(channel_name="train", data_source=source, **{name: value})])
    if owner == "S3DataSource":
        source = shapes.DataSource(s3_data_source=shapes.S3DataSource(**S3, **{name: value}))
        return create(input_data_config=[shapes.Channel(channel_name="train", data_source=source)])
    if owner == "Torchrun":
        return create(distributed=distributed.Torchrun(**{name: value}))
    argument = {
        "Networking": "networking",
        "StoppingCondition": "stopping_condition",
        "OutputDataConfig": "output_data_config",
        "CheckpointConfig": "checkpoint_config",
    }[owner]
    return create(**{argument: getattr(configs, owner)(**{name: value})})


@pytest.mark.parametrize(("owner", "name"), REFUSED)
def test_a_refused_attribute_is_named_with_the_next_step(trainer: Trainers, owner: str, name: str) -> None:
    given = with_value(trainer, owner, name, VALUES.get(name, "x"))
    with pytest.raises(tg.UsageError, match=rf"{name} cannot be converted into a line\.") as raised:
        tg.from_model_trainer(given, ["us-east-1"])
    assert raised.value.next_step == ATTRIBUTES[owner][name].next_step


FILES = shapes.FileSystemDataSource(
    file_system_id="fs-1", file_system_access_mode="ro", file_system_type="EFS", directory_path="/x"
)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"distributed": distributed.Torchrun(smp=distributed.SMP(random_seed=1))}, "smp cannot be converted"),
        (
            {"input_data_config": [configs.InputData(channel_name="train", data_source=FILES)]},
            r"input_data_config\[0\].data_source is a FileSystemDataSource",
        ),
        (
            {"input_data_config": [shapes.Channel(channel_name="x", data_source={"file_system_data_source": FILES})]},
            r"data_source.file_system_data_source is a FileSystemDataSource",
        ),
        ({"environment": {"A": ParameterString(name="A")}}, "environment is a PipelineVariable"),
        (
            {"training_image": ParameterString(name="Image"), "base_job_name": "x"},
            "training_image is a PipelineVariable",
        ),
    ],
)
def test_a_value_of_a_refused_class_is_named(trainer: Trainers, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(tg.UsageError, match=message):
        tg.from_model_trainer(trainer(**changed), ["us-east-1"])


def test_a_custom_distributed_class_is_named(trainer: Trainers) -> None:
    class Mine(distributed.DistributedConfig):  # type: ignore[misc]  # the SDK has no types
        driver_dir: ClassVar[str] = "x"
        driver_script: ClassVar[str] = "x"

    with pytest.raises(tg.UsageError, match=r"trainer\.distributed is a Mine, which cannot be converted"):
        tg.from_model_trainer(trainer(distributed=Mine()), ["us-east-1"])


def test_the_session_of_a_pipeline_is_refused(trainer: Trainers, session: Any) -> None:
    pipeline = PipelineSession(boto_session=session.boto_session, sagemaker_client=session.sagemaker_client)
    pipeline._default_bucket = "x"
    with pytest.raises(tg.UsageError, match="sagemaker_session is a PipelineSession"):
        tg.from_model_trainer(trainer(sagemaker_session=pipeline), ["us-east-1"])


def test_an_attribute_of_a_later_sdk_is_refused_unless_it_has_its_default(trainer: Trainers) -> None:
    class Later(configs.Compute):  # type: ignore[misc]  # the SDK has no types
        quantum: str | None = None
        level: int = 3

    usual = {"instance_type": "ml.p3.16xlarge", "instance_count": 1}
    assert tg.from_model_trainer(trainer(compute=Later(**usual)), ["us-east-1"])
    with pytest.raises(tg.UsageError, match=r"compute\.quantum is 'yes', and this version of traingrid does not know"):
        tg.from_model_trainer(trainer(compute=Later(**usual, quantum="yes")), ["us-east-1"])


def test_local_mode_is_refused(trainer: Trainers) -> None:
    local = trainer(training_mode="LOCAL_CONTAINER")
    with pytest.raises(tg.UsageError, match="training_mode is LOCAL_CONTAINER"):
        tg.from_model_trainer(local, ["us-east-1"])


def test_defaults_of_the_sdks_configuration_file_are_refused_like_arguments(
    trainer: Trainers, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = {"TrainingJob": {"EnableNetworkIsolation": True}}
    monkeypatch.setattr(session, "sagemaker_config", {"SchemaVersion": "1.0", "SageMaker": defaults})
    given = trainer()
    with pytest.raises(tg.UsageError, match=r"networking\.enable_network_isolation cannot be converted"):
        tg.from_model_trainer(given, ["us-east-1"])
    assert given.networking is None
