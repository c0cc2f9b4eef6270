"""`python -m tests.integration.policies`: prints the policy matrix."""

import sys

from tests.integration.policies.matrix import main

sys.exit(min(main(), 1))
