"""Clocks of peers, as they tell them with a refusal: how far this machine's is from each, and from most.

A peer refuses a request that was signed more than a minute before or after its own time, and says what time
it has. Later requests to that peer are signed by its clock. That is the peer's word, and it counts for
requests to that peer alone: nobody else takes them. So a lie gains nothing, and a machine whose clock is
wrong is served and serves all the same. A peer that refuses what is signed by its own clock does not serve.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from statistics import median

OFF_S = 30.0
"""Clocks that are further apart count as different; a request counts for a minute."""
SEVERAL = 2
"""So many peers must say that this machine's clock is wrong before its operator is told."""
MOST_CLOCKS = 1024

log = logging.getLogger(__name__)


class PeerClocks:
    """How far each account's clock is ahead of this machine's, in seconds; 0 if the account serves requests
    signed by this clock."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self._ahead_s: OrderedDict[str, float] = OrderedDict()
        self._error_s: float | None = None

    def get_time(self, account: str) -> int:
        """Returns the Unix second with which to sign a request to this account. It can always be signed,
        whatever time the account claimed and however this machine's clock was set."""
        return max(0, int(self.now() + self._ahead_s.get(account, 0.0)))

    def note_served(self, account: str) -> None:
        """Notes that the account serves what is signed by the time that `get_time` returns."""
        self._keep(account, self._ahead_s.get(account, 0.0))

    def note_told(self, account: str, unix_second: int) -> bool:
        """Notes the time that came with a refusal. Returns whether the next request is signed with another
        time, so that it may be served."""
        ahead_s, before_s = unix_second - self.now(), self._ahead_s.get(account, 0.0)
        if abs(ahead_s - before_s) <= OFF_S:
            return False
        self._keep(account, ahead_s if abs(ahead_s) > OFF_S else 0.0)
        log.info("the clock of %s is %+.0f s from this machine's: it is asked by its own", account, ahead_s)
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
                "(`timedatectl set-ntp true`). Until then each peer is asked by its own clock",
                abs(error_s),
                side,
            )
        elif error_s is None and self._error_s is not None:
            log.warning("this machine's clock agrees with that of its peers again")
        self._error_s = error_s


def find_own_error(ahead_s: Collection[float]) -> float | None:
    """Returns how far the clocks of most peers are ahead of this machine's. None if most agree with it, or if
    fewer than SEVERAL do not: so a lying minority has no effect."""
    if sum(abs(one) > OFF_S for one in ahead_s) < SEVERAL:
        return None
    middle = median(ahead_s)
    return middle if abs(middle) > OFF_S else None
