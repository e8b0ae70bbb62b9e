"""A process that holds bare TCP connections of one address to a port, and makes a new one for each that is
closed."""

import asyncio
import sys
from asyncio import StreamReader, StreamWriter
from contextlib import suppress


async def hold(port: int, address: str, opened: asyncio.Semaphore) -> None:
    """Holds one connection, again and again."""
    while True:
        try:
            connection = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        except OSError:
            await asyncio.sleep(0.01)
            continue
        opened.release()
        await _wait_for_end(*connection)


async def _wait_for_end(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(ConnectionError):
        await reader.read()
    writer.transport.abort()


async def main(port: int, address: str, count: int) -> None:
    """Says once that so many connections were made; never ends."""
    opened = asyncio.Semaphore(0)
    holding = [asyncio.create_task(hold(port, address, opened)) for _ in range(count)]
    for _ in range(count):
        await opened.acquire()
    print("all are made", flush=True)
    await asyncio.gather(*holding)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
