"""AWS on a laptop: a server on 127.0.0.1 that extends moto where moto only simulates a service.

Programs reach it through `AWS_ENDPOINT_URL` and do not know that it is not AWS.
"""

__version__ = "0.1.0"
