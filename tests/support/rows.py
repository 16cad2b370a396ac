"""Which rows of a long table a run tries: others each day, and those that failed on an earlier one.

PATCHBAY_SWEEP_STEP=6 takes one row in six of a table, and of the points of sweeps and kills one in 30; without it a test
tries all. PATCHBAY_DAY=2026-11-28 repeats the rows of a day. A case that failed among the rows of a day is a line of
tests/failed_rows, which git tracks: it runs in every run until it has passed (suite.main).
"""

import datetime
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


def remember(passed, failed):
    """Prints which cases of this program are rows that failed, if it ran a part of its rows, and which of those in
    tests/failed_rows passed: scripts/test writes the file. Those of other days run as on their day; returns how many of
    these failed again."""
    test = os.path.relpath(os.path.realpath(sys.argv[0]), os.path.join(ROOT, "tests"))
    with open(FAILED, encoding="utf-8") as file:
        known = [line.split(" ", 2) for line in file.read().splitlines()]
    for case in failed if STEP > 1 else ():
        print(f"failed row: {DAY} {test} {case}", flush=True)
    failures = 0
    for day, of, case in known:
        if of != test:
            continue
        if day == str(DAY):
            is_right = case in passed
        else:
            print(f"as on {day}: {case}", flush=True)
            is_right = subprocess.run([sys.executable, sys.argv[0], f"={case}"], check=False,
                                      env=os.environ | {"PATCHBAY_DAY": day}).returncode == 0
            failures += not is_right
        if is_right:
            print(f"passed row: {day} {of} {case}", flush=True)
    return failures
