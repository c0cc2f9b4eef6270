"""Lambda function: copies changed items of the ledger into the catalog, for `catalog: dsql` in grid.yaml."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict
from functools import cache
from typing import Any

from traingrid.catalog.database import Catalog
from traingrid.catalog.engines import catalog_url
from traingrid.catalog.follow import Changes, follow
from traingrid.catalog.sync import GridRecords
from traingrid.grid.deployment import Deployment

logger = logging.getLogger(__name__)


@cache
def _grid() -> GridRecords:
    return GridRecords.of(Deployment.from_environment(os.environ))


def handler(event: dict[str, Any], _context: Any) -> dict[str, int]:
    """Handle a batch of records of the ledger's stream.

    The form of a record is that of
    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_Record.html.

    If it raises an exception, for example because the tables are of another version, Lambda repeats the batch and
    splits it, and finally sends its position in the stream to the dead-letter queue.
    """
    catalog = Catalog(catalog_url(os.environ["TRAINGRID_CATALOG"]))
    catalog.check()
    keys = (record["dynamodb"]["Keys"] for record in event["Records"])
    changes = Changes.of((key["submission"]["S"], key["item"]["S"]) for key in keys)
    followed = asdict(follow(catalog, _grid(), changes))
    logger.info("%d records: %s", len(event["Records"]), followed, extra={"event": "catalog", **followed})
    return followed
