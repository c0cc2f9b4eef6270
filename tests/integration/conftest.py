from tests.support.process import log, logging_as_before

__all__ = ["log", "logging_as_before"]
