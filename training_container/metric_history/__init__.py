"""Metric history: a process of the main host that writes every value of every metric to S3. Loads no TensorFlow."""
