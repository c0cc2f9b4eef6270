"""Sizes: the maximum numbers of jobs of a submission, and of children of an array."""

MAX_JOBS = 50_000
"""The maximum number of jobs of a submission, and so of lines of a manifest."""
MAX_ARRAY = 10_000
"""The maximum size of an array job (https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html)."""
