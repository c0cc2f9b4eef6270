from tests.unit.ledger.conftest import table

__all__ = ["table"]
