"""Executables as whoever installs them has them: copied in one piece.

The linker writes a file in small pieces, whose pages lie scattered in memory; each process that
maps them pays for that, some 0.1 ms. A copy, or what is read from disk after a boot, lies in larger
pieces."""

import atexit
import functools
import os
import shutil
import tempfile

from support.plugin import PLUGINS

#: The floor under each plugin of the chain.
FLOOR = ("floor_bridge", "floor_portmap", "floor_bandwidth")
#: Interface plugins that are measured alone, with a floor each.
ALONE = ("ptp", "macvlan", "host-device")
#: What a plugin or the floor may be.
NAMES = ("patchbay", *PLUGINS, "bench_empty", "bench_floor", *FLOOR, *(f"floor_{name}" for name in ALONE))


@functools.cache
def installed(directory):
    """A directory with copies of its plugins; links stay links."""
    place = tempfile.mkdtemp(prefix="patchbay-bench-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    for name in NAMES:
        source, target = os.path.join(directory, name), os.path.join(place, name)
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
        elif os.path.exists(source):
            with open(source, "rb") as one, open(target, "wb", buffering=0) as other:
                other.write(one.read())
            os.chmod(target, 0o755)
    return place
