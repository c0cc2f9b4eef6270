"""Stand-ins for SageMaker's built-in algorithms, whose images are not public or too large for a local AWS."""
