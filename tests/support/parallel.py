"""Work for all processors, in forked processes: each may play a node of its own."""

import json
import os
import traceback

from support.world import own_processes


def _take(counter):
    """The number in a pipe, which one more replaces: who reads it has it alone."""
    number = int.from_bytes(os.read(counter[0], 8), "little")
    os.write(counter[1], (number + 1).to_bytes(8, "little"))
    return number


def parallel(function, items, per_processor=1, is_node=False):
    """[function(item) for item in items], in so many processes per processor: more than one for what
    waits for the kernel. is_node: each process plays a node of its own, whose pods are like those of the others.
    What function returns must be JSON, and is None where the process ended; an exception of it becomes an exception
    here."""
    count = min(per_processor * (os.cpu_count() or 1), max(len(items), 1))
    counter, pipes = os.pipe(), []
    os.write(counter[1], bytes(8))
    for _ in range(count):
        end, out = os.pipe()
        if os.fork() == 0:
            os.close(end)
            if is_node:
                own_processes()
            with os.fdopen(out, "w", encoding="utf-8") as file:
                try:
                    while (index := _take(counter)) < len(items):
                        file.write(json.dumps([index, function(items[index])]) + "\n")
                        file.flush()
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
    for end in counter:
        os.close(end)
    return results
