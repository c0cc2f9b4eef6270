"""A script's requirements in the image with PyTorch."""

from pathlib import Path

import pytest

from training_container.contract.launch_options import Script
from training_container.contract.training_job import ContractError, Folders
from training_container.launcher import scripts


def test_a_script_cannot_replace_the_images_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    code = tmp_path / "my-code"
    code.mkdir()
    (code / "train.py").touch()
    (code / "requirements.txt").write_text("torch==2.9.1\n")
    with pytest.raises(ContractError, match="Requirements must be compatible with the image's numpy, torch"):
        scripts.prepare(Script(entry_point="train.py", archive=str(code)), Folders(base=tmp_path / "ml"))


def test_a_requirement_that_the_image_meets_installs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    code = tmp_path / "my-code"
    code.mkdir()
    (code / "train.py").touch()
    (code / "requirements.txt").write_text("torch>=2\n")
    (tmp_path / "ml").mkdir()
    scripts.prepare(Script(entry_point="train.py", archive=str(code)), Folders(base=tmp_path / "ml"))
    assert not list((tmp_path / "ml").glob("packages/lib/*/site-packages/torch"))
