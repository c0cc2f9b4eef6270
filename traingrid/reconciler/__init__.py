"""Reconciler: the scheduled pass that records outcomes and stops orphans."""
