"""Algorithms: the published rules of SageMaker's built-in algorithms, and those of algorithm resources."""
