import pytest


@pytest.fixture
def table(aws: None) -> None:
    """The ledger's table is moto's DynamoDB, with which the table in memory is compared."""
