"""full_pipe.py closed|drained COMMAND...: runs a command whose stdout is a pipe that is full, and
after a while is closed, or read."""

import fcntl
import os
import sys
import time

SECONDS = 0.2


def main():
    reader, writer = os.pipe()
    room = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
    os.write(writer, b"x" * room)
    if os.fork() == 0:
        for fd in (0, 1, 2, writer):
            os.close(fd)
        time.sleep(SECONDS)
        while sys.argv[1] == "drained" and os.read(reader, room):
            pass
        os._exit(0)
    os.dup2(writer, 1)
    os.close(reader)
    os.close(writer)
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
