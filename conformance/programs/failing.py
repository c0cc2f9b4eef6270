"""A training container that fails and writes the reason to the failure file, as SageMaker documents."""

import os
import pathlib
import sys

base = pathlib.Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))
(base / "output/failure").write_text("the reason of the failure")
print("failing", flush=True)
sys.exit(3)
