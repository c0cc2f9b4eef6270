"""Credentials: the accounts, access keys and secrets of a localcloud, and its isolation from the real AWS."""
