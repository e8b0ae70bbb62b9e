"""What is logged of requests that are none: nothing. Whoever connects can send them, as many as the line
takes, and each would leave a traceback; a node's log must not fill its disk."""

import logging

from aiohttp.http_exceptions import HttpProcessingError


class NoStrangersNoise(logging.Filter):
    """Drops what tells of a malformed request; errors of the node itself pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError)


def make_request_log() -> logging.Logger:
    """For the library that reads requests."""
    log = logging.getLogger(__name__)
    if not log.filters:
        log.addFilter(NoStrangersNoise())
    return log
