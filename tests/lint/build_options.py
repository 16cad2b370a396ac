#!/usr/bin/env python3
"""The table of docs/building.md has the options of CMake, all of them and no others."""

import re
import sys

from sources import ROOT, Complaints, text

TABLE = "docs/building.md"
OPTION = re.compile(r"^\s*(?:option\(|set\()(CNI_\w+)(.*)$", re.MULTILINE)
FILES = [ROOT / "CMakeLists.txt", *sorted((ROOT / "scripts/cmake").glob("*.cmake"))]


def defined():
    """{option: (file, line)} of what is an option() or set(... CACHE ...)."""
    found = {}
    for path in FILES:
        content = text(path)
        for match in OPTION.finditer(content):
            if "option(" in match.group(0) or " CACHE " in match.group(2):
                line = content.count("\n", 0, match.start(1)) + 1
                found.setdefault(match.group(1), (path.relative_to(ROOT), line))
    return found


def main():
    complaints = Complaints()
    options = defined()
    rows = {match.group(1): text(TABLE).count("\n", 0, match.start()) + 1
            for match in re.finditer(r"^\| `(CNI_\w+)` \|", text(TABLE), re.MULTILINE)}
    for name in sorted(options.keys() - rows.keys()):
        complaints.add(*options[name], f"{name} is not in the table of {TABLE}")
    for name in sorted(rows.keys() - options.keys()):
        complaints.add(TABLE, rows[name], f"{name} is no option of CMake")
    return complaints.code()


if __name__ == "__main__":
    sys.exit(main())
