"""The figures of what was tried, as a table for people and for the documentation."""

import collections
import os
import re

from support.faults import judge

COLUMNS = ("errors", "SIGKILL", "SIGTERM", "surroundings")
_ENDS = ("ok", "error", "killed", "early")


class Figures:
    """Counts verdicts by subject and verb."""

    def __init__(self):
        self.rows = collections.defaultdict(collections.Counter)

    def add(self, subject, verb, column, verdict):
        """A verdict, as Verdict.json() has it; True where something is wrong."""
        reached, ended, wrong = verdict
        row = self.rows[subject, verb]
        if reached:
            row[column] += 1
            row["tried"] += 1
            row[ended] += 1
        if wrong:
            row[wrong[0]] += 1
        return bool(wrong)

    def total(self):
        return sum(self.rows.values(), collections.Counter())

    def markdown(self):
        """One line for each subject and verb, and their sum."""
        head = ["what", "verb", "points tried", *COLUMNS, "went on", "error object", "killed",
                "before `main`", *(kind + "s" if kind in ("leftover", "hang") else kind
                                   for kind in judge.KINDS)]
        head = [{"crash": "crashes"}.get(word, word) for word in head]
        lines = ["| " + " | ".join(head) + " |", "|---|---" + "|--:" * (len(head) - 2) + "|"]
        for (subject, verb), row in [*self.rows.items(), (("**all**", ""), self.total())]:
            cells = [row[c] for c in ("tried", *COLUMNS, *_ENDS, *judge.KINDS)]
            lines.append("| " + " | ".join([subject, verb, *map(str, cells)]) + " |")
        return "\n".join(lines)

    def sentence(self):
        total = self.total()
        wrong = ", ".join(f"{total[kind]} x {kind}" for kind in judge.KINDS)
        return f"tried {total['tried']} points: {wrong}"


def publish(path, section, text):
    """Writes text between <!-- SECTION --> and <!-- /SECTION --> of a document."""
    with open(path, encoding="utf-8") as file:
        document = file.read()
    marks = f"<!-- {section} -->", f"<!-- /{section} -->"
    if any(document.count(mark) != 1 for mark in marks):
        raise ValueError(f"{path} has to have one {marks[0]} and one {marks[1]}")
    between = re.compile(re.escape(marks[0]) + ".*" + re.escape(marks[1]), re.DOTALL)
    new = between.sub(lambda _: f"{marks[0]}\n{text}\n{marks[1]}", document)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(new)
    os.replace(path + ".new", path)
