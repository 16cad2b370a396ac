"""Something that goes on beside a test, in a process of its own."""

import json
import os


class Forked:
    """A function that runs in a process of its own, and its JSON."""

    def __init__(self, function, *arguments):
        end, out = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            with os.fdopen(out, "w", encoding="utf-8") as file:
                try:
                    said = function(*arguments)
                except BaseException as error:  # noqa: BLE001: whatever it is, it is told
                    said = {"wrong": [repr(error)]}
                file.write(json.dumps(said))
            os._exit(0)
        os.close(out)
        self.end = os.fdopen(end, encoding="utf-8")

    def result(self):
        with self.end:
            said = self.end.read()
        os.waitpid(self.pid, 0)
        return json.loads(said)
