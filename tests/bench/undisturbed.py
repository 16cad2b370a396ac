"""What the hypervisor takes from a virtual machine's processors, and the calls that it left alone."""

import os
import time

TICKS = os.sysconf("SC_CLK_TCK")
MOST = 0.01  # of the processors' time during a call
PATIENCE = 3  # times as many calls as are wanted, at most


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


class Calls:
    """Calls of one kind: as many as are wanted, again as long as the hypervisor disturbs them. What
    counts are those that it disturbed least, never those that were quickest."""

    def __init__(self, wanted):
        self._wanted, self._calls = wanted, []

    def job(self, subject, *words, **options):
        """subject.job()."""
        share = Share()
        lines = subject.job(*words, **options)
        self._calls.append((share.now(), lines))

    def suffice(self):
        return (sum(share <= MOST for share, _ in self._calls) >= self._wanted
                or len(self._calls) >= PATIENCE * self._wanted)

    def lines(self):
        """What the runner said of each that counts."""
        calls = sorted(self._calls, key=lambda call: max(call[0], MOST))
        return [lines for _, lines in calls[:self._wanted]]


def until_all_suffice(calls):
    """0, 1, 2, ... until each of them has enough."""
    number = 0
    while not all(one.suffice() for one in calls):
        yield number
        number += 1
