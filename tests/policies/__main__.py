"""`python -m tests.policies`: prints the policy matrix."""

import sys

from tests.policies.matrix import main

sys.exit(min(main(), 1))
