"""A node that has booted, as its programs see it."""

import os
import time
import uuid

from support.world import MS_BIND, mount


def boot(seconds_ago, machine="1" * 32):
    """From now on the node's boot was so long ago, and another one than before."""
    with open("/proc/stat", encoding="ascii") as file:
        lines = file.read().splitlines(keepends=True)
    texts = {"boot_id": str(uuid.uuid4()) + "\n",
             "stat": "".join(f"btime {int(time.time()) - seconds_ago}\n"
                             if line.startswith("btime") else line for line in lines)}
    texts["machine-id"] = machine + "\n"
    for name, target in (("boot_id", "/proc/sys/kernel/random/boot_id"), ("stat", "/proc/stat"),
                         ("machine-id", "/etc/machine-id")):
        with open(f"/run/{name}", "w", encoding="ascii") as file:
            file.write(texts[name])
        if not os.path.ismount(target):
            mount(f"/run/{name}", target, flags=MS_BIND)
