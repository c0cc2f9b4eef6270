"""Whose account a manifest is for: the names of a grid's buckets and registries have it in them."""

import re
from collections import Counter
from collections.abc import Iterable

ANY_ACCOUNT = "123456789012"
"""The account of AWS's own examples, and localcloud's; for a manifest that names nothing of an account's."""


def account_of(grid: str, texts: Iterable[str]) -> str:
    """Return the account whose buckets and images most places of some texts name.

    A line that names another account's is then wrong in the rehearsal as it is in AWS, and the intake says which.

    Args:
        grid: The grid's name.
        texts: What may name them: the manifest, and grid.yaml.

    Returns:
        Twelve digits; `ANY_ACCOUNT` where nothing of the grid's own is named.
    """
    name = re.escape(grid)
    # As traingrid.names makes them.
    bucket = re.compile(rf"(?<![a-z0-9.-]){name}-(?:data|output)-(\d{{12}})-[a-z]{{2}}-")
    image = re.compile(rf"(?<!\d)(\d{{12}})\.dkr\.ecr\.[^/\s]+/{name}/")
    found = Counter(account for text in texts for form in (bucket, image) for account in form.findall(text))
    return max(found, key=lambda account: (found[account], account)) if found else ANY_ACCOUNT
