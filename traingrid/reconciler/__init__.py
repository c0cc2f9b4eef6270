"""Reconciler: the scheduled sweep that records outcomes and stops orphans."""
