#!/usr/bin/env python3
"""Every system call of every verb fails, with each error that it may meet, and is where SIGKILL or
SIGTERM comes; stdout is lost, the disk full, /proc/sys read-only, descriptors and memory are short.

A failed ADD leaves the node as it was and says why; a killed one is cleaned up by DEL; a DEL or GC
that was disturbed is completed by the next one; CHECK, STATUS and VERSION change nothing.

Of the points one in 12 is taken, of what is short every fourth amount; with --step=1 every one, with --step=40 one in
40, and every fourth amount all the same. Which ones follows from the day, so that 40 days try every point once. With
PATCHBAY_SWEEP_STEP=6 it is one in six of each fifth row: each row first has to be run without a fault, which takes
longer than a few points.
--part=2/4 takes the second quarter of the rows: what would take too long is divided.
--table=FILE writes the figures into a document.
"""

import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import firewalld, guest, rows, suite  # noqa: E402
from support.configs import lack  # noqa: E402
from support.faults import figures, judge, points, surroundings  # noqa: E402
from support.faults.subjects import SUBJECTS  # noqa: E402
from support.parallel import parallel  # noqa: E402



def option(name, default):
    """What is behind --name= on the command line."""
    return next((a.split("=", 1)[1] for a in sys.argv if a.startswith(f"--{name}=")), default)


TABLE = option("table", None)
PART, PARTS = map(int, option("part", "1/1").split("/"))
EACH_ROW = 5 if rows.STEP > 1 else 1
STEP = rows.STEP if rows.STEP > 1 else int(option("step", "12"))
STEP_OF_AMOUNTS = min(STEP, 4)
ROW, OFFSET = rows.OFFSET % EACH_ROW, rows.OFFSET // EACH_ROW
FIGURES = figures.Figures()

#: So many points, and a word of how far it is.
TOLD = 100

ALL = ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION")
#: What a subject need not be asked, as it runs through the same as one that is.
VERBS = {"bridge, in its host-local": ("ADD", "DEL"), "bridge, macspoofchk and static": ALL[:4],
         "bridge, iptables": ALL[:4], "ptp, iptables": ALL[:4], "portmap, iptables": ALL[:4],
         "firewall, firewalld": ALL[:4],
         # A master has one of them, and GC needs another pod; what is probed takes seconds.
         "macvlan, passthru": ALL[:3], "macvlan, enabledad": ALL[:1],
         "bandwidth, unshapedSubnets": ALL[:4], "bandwidth, pod": ALL[:4],
         "bandwidth, edt": ALL[:4], "tap, multiQueue": ALL[:4], "cnitool, all in a chain": ALL[:5]}
SWEEPS = [(f"{subject}: {verb}", (subject, verb)) for subject in SUBJECTS
          for verb in (("ADD", "DEL") if subject.startswith("chain") else VERBS.get(subject, ALL))]
SURROUNDED = [(f"{subject}: {verb}", (subject, verb)) for subject in surroundings.SUBJECTS
              for verb in VERBS.get(subject, ALL)]


def of_this_run(table):
    """A part has whole rows, because each row is first run without a fault."""
    return table[ROW::EACH_ROW][PART - 1::PARTS]


def share(tried):
    """One in STEP of them, at least one, by chance: another one for each OFFSET."""
    first = OFFSET % max(1, min(STEP, len(tried)))
    chosen = random.Random(len(tried)).sample(range(len(tried)), len(tried))[first::STEP]
    return [tried[index] for index in sorted(chosen)]


def share_of_amounts(tried):
    """Every fourth of them: where so much is too little, a little more or less is, too, so that what
    goes wrong is not one amount but some in a row. By chance alone five in a row were missed."""
    first = (random.Random(len(tried)).randrange(STEP_OF_AMOUNTS) + OFFSET) % STEP_OF_AMOUNTS
    return tried[first::STEP_OF_AMOUNTS]


@suite.spread
class Faults(suite.NodeTest):
    def tell(self, subject, verb, found):
        """Counts (column, what was done, verdict) and fails where one is wrong."""
        wrong = [f"{what}: {verdict[2][0]}: {verdict[2][1]}" for column, what, verdict in found
                 if FIGURES.add(subject, verb, column, verdict)]
        reached = sum(verdict[0] for _, _, verdict in found)
        print(f"     {reached} of {len(found)} points reached, {len(wrong)} wrong", flush=True)
        if wrong:
            self.fail("\n     ".join([f"{len(wrong)} points:", *(w[:1500] for w in wrong[:12])]))
        return reached

    def sweep(self, row, points_of):
        subject, verb = row
        if subject == "bandwidth, edt" and not guest.has_qdisc("fq"):
            self.skipTest("this kernel has no fq")
        reason = lack(subject.split(",")[0]) or (subject.endswith("firewalld") and firewalld.lack())
        if reason:
            self.skipTest(reason)
        tried = share(points_of(judge.calls(subject, verb)))
        if verb in judge.LOOKS:
            batches = [tried[at:at + judge.BATCH] for at in range(0, len(tried), judge.BATCH)]
            results = parallel(lambda batch: judge.look(subject, verb, batch), batches, 2, is_node=True)
            verdicts = [verdict for one in results for verdict in one]
        else:
            verdicts = []
            for at in range(0, len(tried), TOLD):
                verdicts += parallel(lambda point: judge.disturb(subject, verb, point),
                                     tried[at:at + TOLD], 2, is_node=True)
                wrong = sum(verdict[2] is not None for verdict in verdicts)
                print(f"     {len(verdicts)} of {len(tried)}, {wrong} wrong", flush=True)
        columns = [p.what if p.signal else "errors" for p in tried]
        reached = self.tell(subject, verb, list(zip(columns, map(str, tried), verdicts)))
        self.assertGreater(reached, 0.9 * len(tried) - 3, "the run differs each time")

    @suite.cases(of_this_run(SWEEPS))
    def each_call_fails(self, row):
        most = 1 if row[0].startswith("chain") else 9
        self.sweep(row, lambda calls: points.errors(calls, most))

    @suite.cases(of_this_run(SWEEPS))
    def a_signal_comes_at_each_call(self, row):
        of_terms = 1 if row[0].startswith("cnitool") else 4
        self.sweep(row, lambda calls: points.signals(calls, of_terms))

    @suite.cases(of_this_run(SURROUNDED))
    def surroundings(self, row):
        tried = share_of_amounts(surroundings.of(*row))
        verdicts = parallel(lambda one: surroundings.run(*row, one), tried, 2, is_node=True)
        self.tell(*row, [("surroundings", str(one), v) for one, v in zip(tried, verdicts)])


def tell_all():
    part = ("Every point" if STEP == 1 else
            f"One point in {STEP}, every {STEP_OF_AMOUNTS}th amount of what is short,")
    text = f"{part} of each row; {FIGURES.sentence()}.\n\n{FIGURES.markdown()}"
    print(text, flush=True)
    if TABLE:
        figures.publish(TABLE, "faults", text)


if __name__ == "__main__":
    suite.main(needs=("strace", "iptables-restore", "prlimit"), summary=tell_all)
