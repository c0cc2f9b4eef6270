"""Template backend: a complete backend of a service in memory, with the modules that each folder of backends/ has.

docs/backends.md describes how to use it. tests/unit/backends/test_contract.py keeps it valid.
"""
