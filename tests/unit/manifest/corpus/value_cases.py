"""Value cases: values beyond SageMaker's limits, values that the grid does not allow, and contradictions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.sample_deployment import ACCOUNT
from tests.unit.manifest.corpus import Case

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTPUT = f"s3://traingrid-output-{ACCOUNT}"
OWN = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com"
CHANNEL: dict[str, Any] = {"uri": "s3://ragab-ml/x"}
SOURCE = {"source": "s3://ragab-ml/sourcedir.tar.gz", "entry_point": "train.py"}
HOME, PDX = "s3://ragab-ml/x", "s3://ragab-ml-pdx/x"


def cases() -> Iterator[Case]:
    for field, values in NUMBERS.items():
        for value, reason in values:
            yield _case(f"{field} {value!r}", {field: value}, field, reason)
    for name, values_of_line, field, reason in (*LIMITS, *CHANNELS, *LISTS, *CONTRADICTIONS):
        yield _case(name, values_of_line, field, reason)


def _case(name: str, values: dict[str, Any], field: str, reason: str) -> Case:
    line = {"region": "us-east-1"} | ({} if "inputs" in values else {"s3_uri": HOME}) | values
    return Case(f"value: {name}", json.dumps(line).encode(), field, reason)


NO_NUMBER, OUT = "must be a whole number", "out of range"
NOT_COUNTS: list[Any] = [
    *(True, False, 1.5, [1], {"a": 1}, "1.5", "1.", "1e3", "0x10", "two", "-1", "+1", " 1", "NaN", "Infinity"),
    "True",
    *("1_000", "1,000", "\u0663", "9" * 11),
]
NOT_DURATIONS: list[Any] = [3600, True, [], "3600", "1.5h", "-1h", "h", "1w", "1h30m", "\u0663h", "24 hours"]
NUMBERS: dict[str, list[tuple[Any, str]]] = {
    "instance_count": [
        *((value, NO_NUMBER) for value in NOT_COUNTS),
        *[(0, OUT), (-1, OUT), (2**31, OUT), (10**18, OUT), ("0", OUT), ("9999999999", OUT)],
    ],
    "volume_gb": [(0, OUT), (-5, OUT), (2**31, OUT), ("100GB", NO_NUMBER), (True, NO_NUMBER)],
    "processes_per_host": [(0, OUT), ("8.5", NO_NUMBER), (2**40, OUT)],
    "priority": [(-1, OUT), (10_000, OUT), ("high", NO_NUMBER)],
    "retries": [(-1, OUT), (31, OUT), ("none", NO_NUMBER)],
    "max_runtime": [
        *((value, "a duration is") for value in NOT_DURATIONS),
        *[("0s", OUT), ("29d", OUT), ("999999999d", OUT)],
    ],
    "max_wait": [("57d", OUT), ("soon", "a duration is")],
    "keep_alive": [("61m", OUT), ("soon", "a duration is")],
    "spot": [(1, "must be true or false"), ("yes", "must be true or false"), ("0", "must be true or false")],
}

LIMITS: list[tuple[str, dict[str, Any], str, str]] = [
    ("98 hyperparameters", {"hyperparameters": {f"p{n}": n for n in range(98)}}, "hyperparameters", "at most 100"),
    ("a hyperparameter's name of 257", {"hyperparameters": {"p" * 257: 1}}, f"hyperparameters.'{'p' * 64}'", "257"),
    ("a hyperparameter of 2,501", {"hyperparameters": {"a": "x" * 2501}}, "hyperparameters.a", "got 2,501"),
    ("a hyperparameter of two lines", {"hyperparameters": {"a": "x\ny"}}, "hyperparameters.a", "single line"),
    ("a hyperparameter with CR", {"hyperparameters": {"a": "x\ry"}}, "hyperparameters.a", "single line"),
    ("a hyperparameter with U+2028", {"hyperparameters": {"a": "x\u2028y"}}, "hyperparameters.a", "single line"),
    ("a hyperparameter with ESC", {"hyperparameters": {"a": "\x1b[31m"}}, "hyperparameters.a", "control characters"),
    ("a hyperparameter without a name", {"hyperparameters": {"": 1}}, "hyperparameters", "empty"),
    (
        "our own hyperparameter",
        {"hyperparameters": {"sagemaker_program": "x"}},
        "hyperparameters.sagemaker_program",
        "traingrid sets",
    ),
    (
        "MPI switched off",
        {"hyperparameters": {"sagemaker_mpi_enabled": False}},
        "hyperparameters.sagemaker_mpi_enabled",
        "traingrid sets",
    ),
    ("a password", {"hyperparameters": {"db_password": "x"}}, "hyperparameters.db_password", "secret"),
    ("an access key", {"hyperparameters": {"a": "AKIAIOSFODNN7EXAMPLE"}}, "hyperparameters.a", "secret"),
    ("a private key", {"environment": {"KEY": "-----BEGIN RSA PRIVATE KEY-----"}}, "environment.KEY", "secret"),
    ("a secret as a tag", {"tags": {"api-key": "x"}}, "tags.api-key", "secret"),
    ("101 variables", {"environment": {f"V{n}": n for n in range(101)}}, "environment", "at most 100"),
    ("a variable with a hyphen", {"environment": {"A-B": 1}}, "environment.A-B", "must match the pattern"),
    ("a variable with a digit first", {"environment": {"1A": 1}}, "environment.1A", "must match the pattern"),
    ("a variable with an equals sign", {"environment": {"A=B": 1}}, "environment.A=B", "must match the pattern"),
    ("a variable of 513", {"environment": {"A": "x" * 513}}, "environment.A", "got 513"),
    ("a variable's name of 513", {"environment": {"A" * 513: 1}}, f"environment.'{'A' * 64}'", "got 513"),
    *(
        (
            f"the variable {name}",
            {"environment": {name: "x"}},
            f"environment.{name}",
            "reserved for the platform or the loader",
        )
        for name in ("AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "aws_region", "LD_PRELOAD", "LD_LIBRARY_PATH", "PATH")
    ),
    *(
        (
            f"the variable {name}",
            {"environment": {name: "x"}},
            f"environment.{name}",
            "reserved for the platform or the loader",
        )
        for name in ("PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV", "SM_HOSTS", "SAGEMAKER_BASE_DIR", "TRAINGRID_GRID")
    ),
    ("48 tags", {"tags": {f"t{n}": n for n in range(48)}}, "tags", "at most 50"),
    ("a tag's name of 129", {"tags": {"t" * 129: 1}}, f"tags.'{'t' * 64}'", "got 129"),
    ("a tag of 257", {"tags": {"t": "x" * 257}}, "tags.t", "got 257"),
    ("a tag with a bracket", {"tags": {"t": "<script>"}}, "tags.t", "must match the pattern"),
    ("a tag with a new line", {"tags": {"t": "a\nb"}}, "tags.t", "must match the pattern"),
    ("a tag of AWS's", {"tags": {"aws:x": 1}}, "tags.aws:x", "reserved for AWS or traingrid"),
    ("a tag of ours", {"tags": {"traingrid:job": 1}}, "tags.traingrid:job", "reserved for AWS or traingrid"),
    (
        "a tag of ours in capitals",
        {"tags": {"TrainGrid:job": 1}},
        "tags.TrainGrid:job",
        "reserved for AWS or traingrid",
    ),
    ("41 metrics", {"metrics": [f"m{n}" for n in range(41)]}, "metrics", "at most 40"),
    ("a metric's expression of 501", {"metrics": {"m": "(x)" + "x" * 498}}, "metrics", "got 501"),
    ("a metric's expression that is none", {"metrics": {"m": "("}}, "metrics", "not a regular expression"),
    ("a metric's expression without a group", {"metrics": {"m": "loss"}}, "metrics", "no group"),
    ("a metric with a blank", {"metrics": {"a b": "(x)"}}, "metrics", "not a valid metric name"),
    ("MPI options of two lines", {"mpi_options": "-x A=1\n-x B=2"}, "mpi_options", "single line"),
    ("MPI options of 2,501", {"mpi_options": "x" * 2501}, "mpi_options", "got 2,501"),
    ("MPI options that are a list", {"mpi_options": ["-x"]}, "mpi_options", "must be text"),
]

CHANNELS: list[tuple[str, dict[str, Any], str, str]] = [
    ("21 channels", {"inputs": {f"c{n}": HOME for n in range(21)}}, "inputs", "at most 20"),
    ("a channel with a slash", {"inputs": {"a/b": HOME}}, "inputs.a/b", "must match the pattern"),
    ("a channel that leads out", {"inputs": {"../../etc": HOME}}, "inputs.../../etc", "must match the pattern"),
    ("a channel of 65", {"inputs": {"c" * 65: HOME}}, f"inputs.'{'c' * 64}'", "got 65"),
    ("a channel without a name", {"inputs": {"": HOME}}, "inputs", "empty"),
    ("a channel without a URI", {"inputs": {"train": {}}}, "inputs.train", "uri is missing"),
    ("a channel with an unknown key", {"inputs": {"train": CHANNEL | {"mode": 1}}}, "inputs.train", "unknown key"),
    (
        "an unknown input mode",
        {"inputs": {"train": CHANNEL | {"input_mode": "Fast"}}},
        "inputs.train",
        "SageMaker does not support",
    ),
    (
        "an input mode that is a list",
        {"inputs": {"train": CHANNEL | {"input_mode": []}}},
        "inputs.train",
        "SageMaker does not support",
    ),
    (
        "an unknown distribution",
        {"inputs": {"train": CHANNEL | {"distribution": "x"}}},
        "inputs.train",
        "SageMaker does not support",
    ),
    (
        "a seed that is text",
        {"inputs": {"train": CHANNEL | {"shuffle_seed": "x"}}},
        "inputs.train",
        "must be a whole number",
    ),
    ("a negative seed", {"inputs": {"train": CHANNEL | {"shuffle_seed": -1}}}, "inputs.train", "out of range"),
    (
        "a list of keys that is 1",
        {"inputs": {"train": CHANNEL | {"manifest": 1}}},
        "inputs.train",
        "must be true or false",
    ),
    ("a content type that is 1", {"inputs": {"train": CHANNEL | {"content_type": 1}}}, "inputs.train", "must be text"),
    ("a channel of another Region", {"inputs": {"train": PDX}}, "inputs.train", "is in us-west-2"),
    ("a channel elsewhere", {"inputs": {"train": "s3://elsewhere/x"}}, "inputs.train", "may not read"),
]

LISTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("an instance type on no list", {"instance_type": "ml.p5.48xlarge"}, "instance_type", "this grid does not allow"),
    ("an instance type of EC2", {"instance_type": "p3.16xlarge"}, "instance_type", "this grid does not allow"),
    ("an instance type in capitals", {"instance_type": "ML.P3.16XLARGE"}, "instance_type", "this grid does not allow"),
    (
        "an instance type that is a list",
        {"instance_type": ["ml.p3.16xlarge"]},
        "instance_type",
        "this grid does not allow",
    ),
    ("an unknown alias", {"image": "resnett"}, "image", "not an image of this grid"),
    ("an image on Docker Hub", {"image": "evil/miner:latest"}, "image", "does not allow the image's registry"),
    (
        "an image of another account",
        {"image": "999999999999.dkr.ecr.us-east-1.amazonaws.com/traingrid/training:1"},
        "image",
        "does not allow the image's registry",
    ),
    ("another repository of the account", {"image": f"{OWN}/other:1"}, "image", "does not allow the image's registry"),
    (
        "a repository that begins like ours",
        {"image": f"{OWN}/traingrid-evil/x:1"},
        "image",
        "does not allow the image's registry",
    ),
    (
        "an image of another Region",
        {"image": f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com/traingrid/training:1"},
        "image",
        "is in eu-west-1",
    ),
    ("an image that leads out", {"image": f"{OWN}/traingrid/../other:1"}, "image", "not the URI of an image"),
    ("an image with a scheme", {"image": f"https://{OWN}/traingrid/training:1"}, "image", "not the URI of an image"),
    (
        "an image with a blank",
        {"image": f"{OWN}/traingrid/training:1 --privileged"},
        "image",
        "not the URI of an image",
    ),
    ("an image of 256", {"image": f"{OWN}/traingrid/{'x' * 256}"}, "image", "at most 255"),
    ("half a digest", {"image": f"{OWN}/traingrid/training@sha256:00"}, "image", "not the URI of an image"),
    ("an image that is a number", {"image": 7}, "image", "not an image of this grid"),
    ("an algorithm on no list", {"algorithm": "xgboost"}, "algorithm", "does not allow this algorithm"),
    ("an output elsewhere", {"output": "s3://elsewhere/x"}, "output", "may write only to the bucket"),
    ("an output in another Region", {"output": f"{OUTPUT}-us-west-2/x"}, "output", "may write only to the bucket"),
    ("the whole output bucket", {"output": f"{OUTPUT}-us-east-1"}, "output", "must name a folder in the bucket"),
    ("an output that leads out", {"output": f"{OUTPUT}-us-east-1/x/../y"}, "output", "'.' or '..'"),
    ("checkpoints elsewhere", {"checkpoints": "s3://elsewhere/x"}, "checkpoints", "may write only to the bucket"),
    ("checkpoints that are text", {"checkpoints": "often"}, "checkpoints", "must be true or false"),
    ("a source elsewhere", SOURCE | {"source": "s3://elsewhere/a.tar.gz"}, "source", "may not read"),
    (
        "a source that is no archive",
        SOURCE | {"source": "s3://ragab-ml/train.py"},
        "source",
        "must be a .tar.gz archive",
    ),
    (
        "a program that leads out",
        SOURCE | {"entry_point": "../train.py"},
        "entry_point",
        "must be the path of a program",
    ),
    ("a program at the root", SOURCE | {"entry_point": "/bin/sh"}, "entry_point", "must be the path of a program"),
    (
        "a program with a command",
        SOURCE | {"entry_point": "train.py; rm -rf /"},
        "entry_point",
        "must be the path of a program",
    ),
    ("a replica in an unknown Region", {"replicas": {"mars": PDX}}, "replicas.mars", "not a training Region"),
    ("a replica in the job's own Region", {"replicas": {"us-east-1": HOME}}, "replicas.us-east-1", "own Region"),
    ("a replica in the wrong bucket", {"replicas": {"us-west-2": HOME}}, "replicas.us-west-2", "is in us-east-1"),
    ("a replica that is a number", {"replicas": {"us-west-2": 7}}, "replicas.us-west-2", "must be text"),
]

CONTRADICTIONS: list[tuple[str, dict[str, Any], str, str]] = [
    ("inputs and s3_uri", {"s3_uri": HOME, "inputs": {"train": HOME}}, "s3_uri", "cannot be combined"),
    ("max_wait without spot", {"max_wait": "2d"}, "max_wait", "only valid for spot jobs"),
    ("max_wait with spot false", {"max_wait": "2d", "spot": False}, "max_wait", "only valid for spot jobs"),
    (
        "max_wait below max_runtime",
        {"max_wait": "1h", "max_runtime": "2h", "spot": True},
        "max_wait",
        "at least max_runtime",
    ),
    ("max_wait below the grid's max_runtime", {"max_wait": "1h", "spot": True}, "max_wait", "at least max_runtime"),
    ("a launcher that does not exist", {"launcher": "horovodrun"}, "launcher", "not a valid value"),
    ("the built-in trainer without a launcher", {"launcher": "none"}, "launcher", "connects its hosts by a launcher"),
    (
        "several processes without a launcher",
        SOURCE | {"launcher": "none", "processes_per_host": 2},
        "processes_per_host",
        "runs the program once on each host",
    ),
    (
        "options of mpirun without mpirun",
        SOURCE | {"launcher": "torchrun", "mpi_options": "-x A=1"},
        "mpi_options",
        "only mpirun reads them",
    ),
    (
        "torchrun of a shell script",
        {**SOURCE, "entry_point": "train.sh", "launcher": "torchrun"},
        "entry_point",
        "starts Python programs only",
    ),
    (
        "a launcher's hyperparameter",
        {"hyperparameters": {"sagemaker_torch_distributed_enabled": True}},
        "hyperparameters.sagemaker_torch_distributed_enabled",
        "traingrid sets this",
    ),
    ("a source without a program", {"source": SOURCE["source"]}, "source", "source requires entry_point"),
    ("a program without a source", {"entry_point": "train.py"}, "entry_point", "entry_point requires source"),
    ("a source and replicas", SOURCE | {"replicas": {"us-west-2": PDX}}, "replicas.us-west-2", "one Region only"),
    (
        "replicas of other channels",
        {"inputs": {"train": HOME}, "replicas": {"us-west-2": {"test": PDX}}},
        "replicas.us-west-2",
        "same channels",
    ),
]
