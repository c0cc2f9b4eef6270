"""Safe tarfile: the module `tarfile` with the extraction filter `data` in every Python 3.11.

Python 3.11.4 added the filter, and older Pythons such as Debian 12's 3.11.2 have no `extractall(filter=)`
(https://docs.python.org/3.11/library/tarfile.html#extraction-filters). They use the package backports.tarfile instead.
PEP 706 recommends the test for `data_filter`, because distributions also add the filter to older versions.
"""

import tarfile as _standard
from typing import TYPE_CHECKING

if TYPE_CHECKING or hasattr(_standard, "data_filter"):
    import tarfile
else:
    from backports import tarfile

__all__ = ["tarfile"]
