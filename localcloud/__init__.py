"""AWS on a laptop: a server on 127.0.0.1 that extends moto where moto only simulates a service.

The rest of traingrid reaches it through `AWS_ENDPOINT_URL` and does not know that it is not AWS.
"""
