"""Catalog: a relational database of campaigns, datasets, prices and runs, from which SQL generates manifests.

It is a projection: the ledger and the markers in S3 remain the source of truth about datasets and jobs, and no child,
function or training job reads it. The extra `catalog` installs its libraries.
"""
