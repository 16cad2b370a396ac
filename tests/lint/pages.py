#!/usr/bin/env python3
"""A page of docs/ is about one task and under two screens, and the README links to it. What is longer is a report. In all
documents a link to a file of ours leads to one, and to a section that it has."""

import os
import re
import sys

from sources import Complaints, ROOT, files, text

MAX_LINES = 99  # two screens of 50 lines
REPORTS = {"reliability.md", "security.md", "speed.md", "testing.md"}
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)")


def without_code(content):
    return FENCED.sub(lambda found: "\n" * found[0].count("\n"), content)


def sections(content):
    """The anchors of a document's headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", without_code(content), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def complaints_of_links(path):
    content = without_code(text(path))
    for found in LINK.finditer(content):
        file, section = found.groups()
        target = os.path.normpath(ROOT / path.parent / file) if file else ROOT / path
        wrong = not os.path.exists(target) or (section and section not in sections(text(target)))
        if wrong:
            yield content.count("\n", 0, found.start()) + 1, f"'{file}{'#' if section else ''}{section}' leads nowhere"


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
    for path in [path.relative_to(ROOT) for path in sorted(ROOT.glob("*.md"))] + files(".md"):
        for line, complaint in complaints_of_links(path):
            complaints.add(path, line, complaint)
    return complaints.code()


if __name__ == "__main__":
    sys.exit(main())
