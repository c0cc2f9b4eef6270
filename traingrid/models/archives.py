"""Model archives: checks in S3, before any cost, that the archives of initial models can be read."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.clients import client
from traingrid.aws.error_codes import PERMISSION_CODES
from traingrid.aws.outage import is_outage
from traingrid.aws.s3_uri import S3Uri
from traingrid.manifest.problem import RefusedError

if TYPE_CHECKING:
    from traingrid.grid.deployment import Deployment

logger = logging.getLogger(__name__)
_MISSING = {"404", "NoSuchKey", "NoSuchBucket", "NotFound"}
_DENIED = PERMISSION_CODES | {"403"}
"""HeadObject has no body, so that botocore reports the HTTP status as the code: 404 for a missing object or bucket, and
403 for a denied one, or a missing one if the caller may not list the bucket
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html)."""


@dataclass(frozen=True, kw_only=True)
class Archive:
    """The result of a look at an archive.

    Attributes:
        size: Its size in bytes; None if it is not known.
        refused: The reason why it cannot be read; None if no reason is known.
    """

    size: int | None = None
    refused: RefusedError | None = None


@dataclass(kw_only=True)
class ModelArchives:
    """Looks at each archive once.

    Attributes:
        refuse_denied: Whether an archive that the caller may not read is refused. Otherwise it counts as unchecked,
            because the grid's roles have other permissions than the user.
    """

    deployment: Deployment
    refuse_denied: bool = False
    _archives: dict[str, Archive] = field(default_factory=dict, init=False)

    def look(self, uri: str, region: str) -> Archive:
        """Return the result of a look at an archive; nothing is known of it during an outage.

        Raises:
            ClientError: S3 refused the call for another reason.
        """
        if uri not in self._archives:
            self._archives[uri] = self._read_head(S3Uri.parse(uri), region)
        return self._archives[uri]

    def _read_head(self, uri: S3Uri, region: str) -> Archive:
        """Return the archive's size, its refusal, or neither if it cannot be checked."""
        s3 = client("s3", region, self.deployment.acting_role_in(region))
        try:
            return Archive(size=int(s3.head_object(Bucket=uri.bucket, Key=uri.key)["ContentLength"]))
        except (BotoCoreError, ClientError) as error:
            code = str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else ""
            if code in _MISSING:
                next_step = "Name the job of another model in init_from, or restore the archive."
                return Archive(refused=RefusedError(f"its archive {uri} does not exist any more", next_step))
            if code in _DENIED and self.refuse_denied:
                step = "Get s3:GetObject for it, and s3:ListBucket, which shows if it exists (docs/permissions.md)."
                return Archive(refused=RefusedError(f"S3 denies access to its archive {uri}", step))
            if code not in _DENIED and not is_outage(error):
                raise
            logger.info("the archive %s was not checked: %s", uri, error)
            return Archive()
