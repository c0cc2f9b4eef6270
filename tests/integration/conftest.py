from tests.support.process import log, logging_as_before
from tests.support.shared_models import service_models_beside_localcloud

__all__ = ["log", "logging_as_before", "service_models_beside_localcloud"]
