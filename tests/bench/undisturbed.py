"""What the hypervisor takes from a virtual machine's processors, and the turns that it left alone."""

import contextlib
import os
import time

TICKS = os.sysconf("SC_CLK_TCK")
MOST = 0.01  # of the processors' time during a turn
PATIENCE = 2  # times as many turns as are wanted, at most


def stolen():
    """Seconds in which some processor had work and was not there: proc_stat(5), "steal"."""
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[8]) / TICKS


class Share:
    """Of the processors' time since it was made."""

    def __init__(self):
        self._stolen, self._begin = stolen(), time.monotonic()

    def now(self):
        return (stolen() - self._stolen) / (time.monotonic() - self._begin) / os.cpu_count()


class Turns:
    """Turns in which all call once: as many as are wanted, and again as long as the hypervisor disturbs
    them. What counts are those that it disturbed least, never those that were quickest; and whole
    turns, since a hundredth of a second is seen in a long call and not in a short one."""

    def __init__(self, wanted):
        self._wanted, self._turns = wanted, []

    @contextlib.contextmanager
    def turn(self):
        """[], for what the turn is to be known by."""
        share, found = Share(), []
        yield found
        self._turns.append((share.now(), found))

    def suffice(self):
        return (sum(share <= MOST for share, _ in self._turns) >= self._wanted
                or len(self._turns) >= PATIENCE * self._wanted)

    def found(self):
        """All that the turns that count were known by."""
        turns = sorted(self._turns, key=lambda turn: max(turn[0], MOST))[:self._wanted]
        return [one for _, found in turns for one in found]


def until_all_suffice(turns):
    """0, 1, 2, ... until each of them has enough."""
    number = 0
    while not all(one.suffice() for one in turns):
        yield number
        number += 1
