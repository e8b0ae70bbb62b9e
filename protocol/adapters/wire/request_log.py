"""Keeps malformed requests out of the log.

Any peer can send as many as the line takes, and each would leave a traceback; a node's log must not fill its
disk.
"""

import logging

from aiohttp.http_exceptions import HttpProcessingError

log = logging.getLogger(__name__)


class NoStrangersNoise(logging.Filter):
    """Drops log records about malformed requests and about peers that hung up before their answer came.
    Errors of the node itself pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether a record is written."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | ConnectionError)


def make_request_log() -> logging.Logger:
    """Returns a logger for the library that reads requests."""
    log = logging.getLogger(__name__)
    if not log.filters:
        log.addFilter(NoStrangersNoise())
    return log
