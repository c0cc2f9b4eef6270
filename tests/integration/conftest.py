from tests.support.process import log, logging_as_before, service_models

__all__ = ["log", "logging_as_before", "service_models"]
