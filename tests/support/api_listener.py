"""Where the simulated API server listens."""

import errno
import http.server
import socket
import time


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads, block_on_close, allow_reuse_address, request_queue_size = True, False, True, 64

    def handle_error(self, *_):
        """Clients that hang up, and those that do not trust the certificate."""


class Listener6(Listener):
    address_family = socket.AF_INET6


def listen(address, port, handler):
    """A listener at a port that was in use a moment ago: a child that another thread forks has the former one until it
    executes its program."""
    end = time.monotonic() + 20
    while True:
        try:
            return (Listener6 if ":" in address else Listener)((address, port), handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > end:
                raise
            time.sleep(0.02)
