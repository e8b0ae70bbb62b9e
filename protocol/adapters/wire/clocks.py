"""Compares this machine's clock with those of peers.

A peer refuses a request that was signed more than a minute before or after the peer's own time, and says what
time it has. Later requests to this peer are dated by its clock; no other peer accepts them, so a lie gains
nothing. So a machine with a wrong clock can still be served. A peer that refuses even requests dated by its
own clock serves nothing.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from statistics import median

OFF_S = 30.0
"""Clocks count as different if they are further apart than this many seconds. A request is valid for a
minute."""
SEVERAL = 2
"""How many peers must say that this machine's clock is wrong before its operator is told."""
MOST_CLOCKS = 1024

log = logging.getLogger(__name__)


class PeerClocks:
    """How far each account's clock is ahead of this machine's, in seconds; 0 if the account accepts this
    clock."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self._ahead_s: OrderedDict[str, float] = OrderedDict()
        self._error_s: float | None = None

    def get_time(self, account: str) -> int:
        """Returns the Unix second for a request to this account. It can always be encoded, whatever time the
        account claimed."""
        return max(0, int(self.now() + self._ahead_s.get(account, 0.0)))

    def note_served(self, account: str) -> None:
        """Notes that the account accepts the time of `get_time`."""
        self._keep(account, self._ahead_s.get(account, 0.0))

    def note_told(self, account: str, unix_second: int) -> bool:
        """Notes the time that came with a refusal. Returns whether the next request will bear another time,
        so that it may be accepted."""
        ahead_s, before_s = unix_second - self.now(), self._ahead_s.get(account, 0.0)
        if abs(ahead_s - before_s) <= OFF_S:
            return False
        self._keep(account, ahead_s if abs(ahead_s) > OFF_S else 0.0)
        log.info("the clock of %s is %+.0f s from this machine's: requests bear its time", account, ahead_s)
        self._notify()
        return True

    def _keep(self, account: str, ahead_s: float) -> None:
        self._ahead_s[account] = ahead_s
        self._ahead_s.move_to_end(account)
        if len(self._ahead_s) > MOST_CLOCKS:
            self._ahead_s.popitem(last=False)

    def _notify(self) -> None:
        error_s = find_own_error(self._ahead_s.values())
        if error_s is not None and self._error_s is None:
            side = "behind" if error_s > 0 else "ahead of"
            log.warning(
                "this machine's clock is %.0f s %s that of its peers: let it be set by NTP "
                "(`timedatectl set-ntp true`). Until then requests bear the time of each peer's clock",
                abs(error_s),
                side,
            )
        elif error_s is None and self._error_s is not None:
            log.warning("this machine's clock agrees with that of its peers again")
        self._error_s = error_s


def find_own_error(ahead_s: Collection[float]) -> float | None:
    """Returns how far most peers' clocks are ahead of this machine's. None if most agree with it, or fewer
    than SEVERAL do not; so a lying minority changes nothing."""
    if sum(abs(one) > OFF_S for one in ahead_s) < SEVERAL:
        return None
    middle = median(ahead_s)
    return middle if abs(middle) > OFF_S else None
