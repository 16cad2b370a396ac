"""The client of the API server (kubernetes/) as a process of a test: tests/support/api_client.cc."""

import json
import os
import queue
import subprocess
import sys
import threading
import time

from support import suite
from support.api_server import ApiServer
from support.plugin import OURS

PROGRAM = os.path.join(OURS, "api_client")
NODES = "/api/v1/nodes"


class Program:
    """Commands are lines of JSON, and so are answers and events."""

    def __init__(self, where, deadline=2000, env=()):
        self.process = subprocess.Popen([PROGRAM, where, str(deadline)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **dict(env)})
        self.lines, self.kept, self.last = queue.Queue(), [], 0
        threading.Thread(target=self.read, daemon=True).start()
        self.start = self.next(lambda line: "ready" in line or "refused" in line)

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def next(self, is_meant=lambda line: True, timeout=20):
        """The first line that is as the function says; others are kept."""
        end = time.monotonic() + timeout
        for line in self.kept:
            if is_meant(line):
                self.kept.remove(line)
                return line
        while True:
            try:
                line = self.lines.get(timeout=max(end - time.monotonic(), 0.01))
            except queue.Empty:
                raise AssertionError(f"no such line within {timeout} s; {self.kept}") from None
            if is_meant(line):
                return line
            self.kept.append(line)

    def send(self, do, **members):
        self.last += 1
        self.process.stdin.write(json.dumps({"id": self.last, "do": do, **members}) + "\n")
        self.process.stdin.flush()
        return self.last

    def ask(self, do, path=NODES + "/n1", **members):
        number = self.send(do, path=path, **members)
        return self.next(lambda line: line.get("id") == number)

    def event(self, what, **members):
        return self.next(lambda line: line.get("event") == what and all(line.get(key) == value for key, value in members.items()))

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=10)

    def processor_time(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            return sum(int(value) for value in file.read().rsplit(")", 1)[1].split()[11:13]) / os.sysconf("SC_CLK_TCK")


class ClientTest(suite.NodeTest):
    def setUp(self):
        super().setUp()
        self.api = ApiServer()
        self.addCleanup(self.api.stop)
        for name in ("n1", "n2"):
            self.api.create("v1", "nodes", {"metadata": {"name": name}})

    def client(self, where=None, **options):
        client = Program(where or self.api.kubeconfig(), **options)
        self.addCleanup(client.process.wait)
        self.addCleanup(client.process.kill)
        return client

    def assert_answer(self, line, name="n1"):
        self.assertEqual(line.get("answer", line).get("metadata", {}).get("name"), name, line)


def main():
    if not os.path.exists(PROGRAM):
        print("skip everything: api_client is not built: it needs libcurl and libyaml (scripts/install-deps build)\n0 passed, 0 failed, 1 skipped", flush=True)
        sys.exit(suite.SKIPPED)
    suite.main(per_processor=2)
