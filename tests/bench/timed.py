"""One call of a plugin, from spawn to end, with as little of our own around it as Python allows."""

import json
import os
import sys
import time

from support.plugin import environment


class Program:
    """A plugin in a directory."""

    def __init__(self, directory, plugin):
        self.directory = directory
        self.program = os.path.join(directory, plugin)
        self.output = os.memfd_create("output")

    def run(self, verb, container, conf):
        """The time of one call in milliseconds. A failure ends this program."""
        environ = environment(verb, "/run/netns/pod", container, "eth0", "", self.directory)
        return spawn([self.program], environ, json.dumps(conf), self.output)


def spawn(words, environ, text, output):
    """The time in milliseconds that a program takes which reads the text."""
    stdin = os.memfd_create("stdin")
    os.write(stdin, text.encode())
    os.lseek(stdin, 0, os.SEEK_SET)
    os.ftruncate(output, 0)
    actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, output, 1)]
    begin = time.perf_counter()
    pid = os.posix_spawn(words[0], words, environ, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    took = (time.perf_counter() - begin) * 1000
    os.close(stdin)
    if status != 0:
        os.lseek(output, 0, os.SEEK_SET)
        sys.exit(f"{' '.join(words)} {environ.get('CNI_COMMAND', '')}: {os.read(output, 4096).decode()}")
    return took
