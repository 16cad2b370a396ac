"""Which rows of a long table a run tries: others each day, and those that failed on an earlier one.

PATCHBAY_SWEEP_STEP=6 takes one row in six of a table, and of the points of sweeps and kills one in 30; without it a test
tries all. PATCHBAY_DAY=2026-11-28 repeats the rows of a day. A case that failed among the rows of a day is a line of
tests/failed_rows, which git tracks: it runs in every run until it has passed (suite.main).
"""

import contextlib
import datetime
import fcntl
import os
import subprocess
import sys

from support.plugin import ROOT

FAILED = os.environ.get("PATCHBAY_FAILED_ROWS") or os.path.join(ROOT, "tests", "failed_rows")
DAY = datetime.date.fromisoformat(os.environ.get("PATCHBAY_DAY") or datetime.date.today().isoformat())
OFFSET = DAY.toordinal()
STEP = int(os.environ.get("PATCHBAY_SWEEP_STEP") or "1")
SWEEP = 5 * STEP if STEP > 1 else 1  # of sweeps and kills, whose points are many and much alike


def sampled(table, most=6, step=STEP):
    """The rows of this day: one in step, at most in so many."""
    step = max(min(step, most), 1)
    return table[OFFSET % step::step]


@contextlib.contextmanager
def _failed():
    """The lines of tests/failed_rows (DAY TEST CASE), which may be changed, under a lock."""
    with open(FAILED, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        lines = file.read().splitlines()
        before = [*lines]
        yield lines
        if lines != before:
            file.truncate(0)
            file.write("".join(f"{line}\n" for line in sorted(lines)))


def remember(passed, failed):
    """Keeps the cases of this program that failed in tests/failed_rows if it ran a part of its rows, removes those that
    passed, and runs those of other days as on their day. Returns how many of these failed again."""
    test = os.path.relpath(os.path.realpath(sys.argv[0]), os.path.join(ROOT, "tests"))
    with _failed() as lines:
        kept = {f"{DAY} {test} {case}" for case in failed} if STEP > 1 else set()
        lines[:] = {*lines, *kept} - {f"{DAY} {test} {case}" for case in passed}
        others = [line.split(" ", 2) for line in lines]
    failures = 0
    for day, of, case in sorted(others):
        if of != test or day == str(DAY):
            continue
        print(f"as on {day}: {case}", flush=True)
        done = subprocess.run([sys.executable, sys.argv[0], f"={case}"], check=False,
                              env=os.environ | {"PATCHBAY_DAY": day})
        failures += done.returncode != 0
        if done.returncode == 0:
            with _failed() as lines:
                lines.remove(f"{day} {of} {case}")
    return failures
