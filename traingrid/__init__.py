"""traingrid: runs each line of a manifest as a Horovod training job in the AWS Region that holds its data.

The version is the only public name. Other modules may change with every release.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
