"""Keeps malformed requests out of the log.

A peer can send as many malformed requests as its bandwidth allows, and each would leave a traceback. The log
must not fill the disk.
"""

import logging

from aiohttp.http_exceptions import HttpProcessingError

log = logging.getLogger(__name__)


class NoStrangersNoise(logging.Filter):
    """Drops log records about malformed requests, and about peers that hung up before their answer. Errors of
    the node itself pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether to write a record."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | ConnectionError)


def make_request_log() -> logging.Logger:
    """Returns a logger for the HTTP library."""
    log = logging.getLogger(__name__)
    if not log.filters:
        log.addFilter(NoStrangersNoise())
    return log
