"""A TCP proxy of the test's own: passes everything on, until it is told to cut in the middle of what it passes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

Judge = Callable[[bytes], bool]


class TcpProxy:
    """Between a client and `port` of this machine. `cut_when` closes the connection, whose bytes it says yes to."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.cut_when: Judge | None = None
        self.cuts = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, judged: bool) -> None:
        with one, other:
            try:
                while data := one.recv(65536):
                    if judged and self.cut_when is not None and self.cut_when(data):
                        self.cut_when = None
                        self.cuts += 1
                        other.sendall(data[: len(data) // 2])  # half of it arrives
                        for end in (one, other):
                            end.shutdown(socket.SHUT_RDWR)
                        return
                    other.sendall(data)
            except OSError:
                pass
