"""Account detection: finds the account that a manifest is for, from the names of its buckets and registries."""

import re
from collections import Counter
from collections.abc import Iterable

ANY_ACCOUNT = "123456789012"
"""Account of AWS's own examples, and localcloud's default; for a manifest that names no account's resources."""


def account_of(grid: str, texts: Iterable[str]) -> str:
    """Return the account that the grid's bucket and image names in some texts contain most often.

    A line that names another account is then wrong in the rehearsal as it is in AWS, and the intake reports it.

    Args:
        texts: Texts that may contain such names: the manifest and grid.yaml.

    Returns:
        Twelve digits; `ANY_ACCOUNT` if no text contains such a name.
    """
    name = re.escape(grid)
    # The forms that traingrid.names generates.
    bucket = re.compile(rf"(?<![a-z0-9.-]){name}-(?:data|output)-(\d{{12}})-[a-z]{{2}}-")
    image = re.compile(rf"(?<!\d)(\d{{12}})\.dkr\.ecr\.[^/\s]+/{name}/")
    counts = Counter(account for text in texts for form in (bucket, image) for account in form.findall(text))
    return max(counts, key=lambda account: (counts[account], account)) if counts else ANY_ACCOUNT
