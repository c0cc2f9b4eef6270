"""Verification: rehearsals of a manifest and the fault suite, on a deployed grid in localcloud or an in-memory AWS."""
