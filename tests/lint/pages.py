#!/usr/bin/env python3
"""A page of docs/ is about one task and under two screens, and the README links to it. What is longer is a report."""

import sys

from sources import Complaints, ROOT, text

MAX_LINES = 99  # two screens of 50 lines
REPORTS = {"reliability.md", "security.md", "speed.md", "testing.md"}


def main():
    complaints = Complaints()
    readme = text("README.md")
    for path in sorted((ROOT / "docs").glob("*.md")):
        page = path.relative_to(ROOT)
        lines = text(page).count("\n")
        if path.name not in REPORTS and lines > MAX_LINES:
            complaints.add(page, lines, f"{lines} lines, a page has at most {MAX_LINES}")
        if f"(docs/{path.name}" not in readme:
            complaints.add("README.md", 1, f"no link to {page}")
    return complaints.code()


if __name__ == "__main__":
    sys.exit(main())
