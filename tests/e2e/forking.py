"""Runs modules of this checkout, one process each, without loading them anew for each.

A command loads PyTorch for three seconds and runs for a tenth of one; a walk types thirty. So one process
loads all of it once, `python -m tests.e2e.forking SOCKET`, and forks for each call: with its folder, its
environment and its standard streams. `CLIENT` is what is typed in the place of the program.

Keys are derived quickly there, as on a test network: a second for each password would be most of a walk.
"""

import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from touchstone import scripts
from touchstone.protocol.adapters.keys import keystore

CLIENT = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as wire:
    wire.connect({path!r})
    module, words = ({module!r}, sys.argv[1:]) if {module!r} else (sys.argv[2], sys.argv[3:])
    call = json.dumps([module, words, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(wire, [len(call).to_bytes(4, "big")], [0, 1, 2])
    wire.sendall(call)
    sys.exit((wire.recv(1) or bytes([70]))[0])
"""
"""A program: path: of the socket; module: what it runs, empty where the call says so by `-m MODULE`."""


def serve(path: Path) -> None:
    """Fork for each call at the socket, until standard input ends, as it does with whoever started this. The
    process leads its group: all that it forked ends with it."""
    keystore.SCRYPT_WORK_FACTOR = keystore.DEVNET_SCRYPT_WORK_FACTOR
    for module in pkgutil.walk_packages(scripts.__path__, f"{scripts.__name__}."):
        importlib.import_module(module.name)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(64)
        signal.signal(signal.SIGCHLD, _reap)
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            wire, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _answer(wire)
            wire.close()
    os.killpg(0, signal.SIGKILL)


def _reap(*_: object) -> None:
    """Take leave of the processes that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _answer(wire: socket.socket) -> None:
    """Be the process that was called; tell its status, and end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(wire, 4, 3)
    with wire.makefile("rb") as file:
        module, arguments, folder, environment = json.loads(file.read(int.from_bytes(head, "big")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 70
    sys.stdout.flush()
    sys.stderr.flush()
    wire.sendall(bytes([status & 0xFF]))
    os._exit(status & 0xFF)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
