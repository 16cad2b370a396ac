"""Work for all processors, in forked processes: each may play a node of its own."""

import json
import os
import traceback

from support.world import own_processes


def parallel(function, items, per_processor=1, is_node=False):
    """[function(item) for item in items], in so many processes per processor: more than one for what
    waits for the kernel. is_node: each process plays a node of its own, whose pods are like those of the others.
    What function returns must be JSON; an exception of it becomes an exception
    here."""
    count = min(per_processor * (os.cpu_count() or 1), max(len(items), 1))
    pipes = []
    for worker in range(count):
        end, out = os.pipe()
        if os.fork() == 0:
            os.close(end)
            if is_node:
                own_processes()
            with os.fdopen(out, "w", encoding="utf-8") as file:
                try:
                    for index in range(worker, len(items), count):
                        file.write(json.dumps([index, function(items[index])]) + "\n")
                except BaseException:  # noqa: BLE001: whatever it is, the parent reports it
                    file.write(json.dumps([-1, traceback.format_exc()]) + "\n")
            os._exit(0)
        os.close(out)
        pipes.append(os.fdopen(end, encoding="utf-8"))
    results = [None] * len(items)
    for pipe in pipes:
        with pipe:
            for line in pipe:
                index, value = json.loads(line)
                if index < 0:
                    raise RuntimeError(value)
                results[index] = value
    for _ in range(count):
        os.wait()
    return results
