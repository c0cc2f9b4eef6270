"""Images of this checkout: the process that represents each.

In AWS, an image is built from a Dockerfile and pushed. Here, a process of this checkout represents the image in the
same repository and tag: the orchestrator in the control-plane environment, training in the training environment, and
PyTorch in its own.
"""

import os
from pathlib import Path

from localcloud.ecr.process_images import ProcessImage
from localcloud.processes.process_group import search_path

_CHECKOUT = Path(__file__).resolve().parents[2]

ORCHESTRATOR = ProcessImage(
    command=(str(_CHECKOUT / ".venv/bin/python"), "-m", "batch_job"),
    environment={"AWS_DATA_PATH": str(_CHECKOUT / "build/models")},  # as in batch_job/Dockerfile
    working_directory=str(_CHECKOUT),
)


def _training_image(environment: str) -> ProcessImage:
    """Return the process of a training image whose Python environment is in a folder of the checkout.

    As in the images (`ENV PATH`), a command such as `python train.py` finds that environment's programs first.
    """
    programs = _CHECKOUT / environment / "bin"
    return ProcessImage(
        command=(str(_CHECKOUT / "training_container/train"),),
        environment={
            "PATH": search_path(programs, os.environ.get("PATH", os.defpath)),
            "PYTHON": str(programs / "python"),
            "TRAINGRID_ALLOW_CPU": "1",  # hosts of every instance type are processes here
        },
        working_directory=str(_CHECKOUT),
    )


TRAINING = _training_image(".venv-training")
TORCH = _training_image(".venv-torch")

IMAGES = {
    "batch_job/Dockerfile": ORCHESTRATOR,
    "training_container/Dockerfile": TRAINING,
    "training_container/Dockerfile.torch": TORCH,
}
"""The process that represents the image built from each Dockerfile."""
