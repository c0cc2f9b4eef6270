from tests.domain.conftest import aws, deployment, ledger, storage

__all__ = ["aws", "deployment", "ledger", "storage"]
