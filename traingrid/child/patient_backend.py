"""Patient backend: a service that trains, whose calls wait out an outage of AWS."""

from __future__ import annotations

from traingrid.aws.outage import Patient, called_again
from traingrid.backends.base import Backend


class PatientBackend(Patient[Backend]):
    """A backend whose calls wait out an outage: each method of the protocol."""

    describe = called_again(Backend.describe)
    tags = called_again(Backend.tags)
    start = called_again(Backend.start)
    attach = called_again(Backend.attach)
    stop = called_again(Backend.stop)
    has_news = called_again(Backend.has_news)
    fingerprint = called_again(Backend.fingerprint)
    log_lines = called_again(Backend.log_lines)
