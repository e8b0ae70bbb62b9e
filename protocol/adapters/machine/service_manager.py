"""Tells systemd that this process is ready and alive (sd_notify): one datagram, without a library.

https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

import os
import socket
from contextlib import suppress

VARIABLE = "NOTIFY_SOCKET"
"""The environment variable in which systemd names the socket, for a service of `Type=notify`."""
READY, ALIVE, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"
MOST_STATUS = 500


def notify_manager(*states: str, status: str = "") -> bool:
    """Sends states, and a status for people; returns whether there is a manager that took them. Never blocks:
    a full socket loses the datagram."""
    place = os.environ.get(VARIABLE, "")
    if not place:
        return False
    # A name that begins with @ is in the kernel's own namespace.
    address = "\0" + place[1:] if place.startswith("@") else place
    said = f"STATUS={' '.join(status.split())[:MOST_STATUS]}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto("\n".join((*states, said)).encode(), address)
        return True
    return False
