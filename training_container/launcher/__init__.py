"""Launcher: starts the ranks of a job on all hosts, and explains their failures. Does not import TensorFlow."""
