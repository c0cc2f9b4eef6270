"""Page for users of the SageMaker Python SDK: writes docs/sagemaker-sdk.md from the table of attributes.

python -m docs_site.trainer_page
"""

from pathlib import Path

from traingrid.api.trainer_attributes import ATTRIBUTES, REFUSED_CLASSES, Attribute

PAGE = Path(__file__).resolve().parent.parent / "docs/sagemaker-sdk.md"
_HEAD = """\
# From the SageMaker Python SDK

`tg.from_model_trainer` converts a `ModelTrainer` of the SageMaker Python SDK v3 into jobs of a grid, one for each
Region:

    from sagemaker.train import ModelTrainer
    import traingrid as tg

    trainer = ModelTrainer(training_image=..., source_code=SourceCode(source_dir="src", entry_script="train.py"), ...)
    jobs = tg.from_model_trainer(
        trainer,
        regions=["us-east-1", "eu-west-1"],
        data={
            "us-east-1": {"train": "s3://campaigns-iad/digits/train/"},
            "eu-west-1": {"train": "s3://campaigns-dub/digits/train/"},
        },
        image="resnet",
    )
    submission = tg.Grid.load("grid.yaml").submit(jobs)

- **Jobs are dictionaries** with the fields of a [manifest](manifest-fields.md), so a program can copy and change them:
  `[job | {"hyperparameters": job["hyperparameters"] | {"lr": lr}} for lr in (0.1, 0.01)]`.
- **Data** must be in a bucket of the job's Region. `data` gives the URI of each channel by Region. It is not required
  for one Region, or if the URIs of the trainer contain `{region}`, such as `s3://campaigns-{region}/digits/train/`.
- **The image** must be in the Region and allowed by the grid ([images.md](images.md)): `image` is an alias of grid.yaml
  or a URI with `{region}`. By default it is the trainer's.
- **Source code** is packed without the files of `ignore_patterns`, and `submit` uploads it to each Region.
- **The role** is the grid's execution role of the Region. The trainer's role and session are not used.
- **An attribute that a job cannot have is an error** with its name and the next step. Nothing is dropped: attributes
  of a later version of the SDK are errors, too, unless they have their default.

The SDK must be installed to create a trainer; traingrid itself does not require it. `make test-notebook` converts
trainers of sagemaker-train 1.27.0 and compares the training jobs with those that the SDK requests. The last section of
the [notebook](../examples/notebook) trains one in a local AWS. No such job has run in AWS ([status.md](status.md)).

## Differences from `train()`

- `train()` itself runs in AWS only: the command that it requests needs a folder `/opt/ml`, which the programs of
  localcloud do not have. The training job fails with this reason.
- The program is started by the image (`sagemaker_submit_directory`, `sagemaker_program`), not by the SDK's scripts in
  the channel `sm_drivers`. AWS's own images and the grid's training image start it; any other image must, too.
- Hyperparameters reach a script as arguments, as with the SDK, but sorted; see
  [training.md](training.md#custom-scripts).
- Without `_metric_definitions`, `_retry_strategy` or, with spot, `checkpoint_config`, the defaults of the grid apply.
- Besides `ignore_patterns`, [secrets, environments and caches](scripts.md#files-of-a-source-folder) are not packed.
- Without `distributed`, a script gets `launcher: none`: every host runs it once, as with the SDK.

SDK v2 (`Estimator`) has no conversion: its classes are not pydantic models, so their attributes cannot be listed to
prove that none is dropped. Version 3 can create a `ModelTrainer` with the same image, script and channels.

## Attributes
"""


def page() -> str:
    """Return the text of docs/sagemaker-sdk.md."""
    parts = [_HEAD]
    for owner, table in ATTRIBUTES.items():
        parts += [f"### {owner}\n", "| attribute | field of the line, or treatment |", "|---|---|"]
        parts += [f"| `{name}` | {_treatment(attribute)} |" for name, attribute in table.items()]
        parts.append("")
    parts += ["### Refused classes\n", "| class | next step |", "|---|---|"]
    parts += [f"| `{name}` | {step} |" for name, step in REFUSED_CLASSES.items()]
    return "\n".join(parts) + "\n"


def _treatment(attribute: Attribute) -> str:
    if attribute.next_step:
        accepted = ", ".join(f"`{value!r}`" for value in attribute.accepted)
        return f"refused{f', except {accepted}' if accepted else ''}: {attribute.next_step}"
    if attribute.fields:
        return f"{attribute.fields}{f': {attribute.note}' if attribute.note else ''}"
    return f"not used: {attribute.note}"


if __name__ == "__main__":
    PAGE.write_text(page())
