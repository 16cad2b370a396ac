#!/usr/bin/env python3
"""The table of docs/building.md has the options of CMake, all of them and no others. CHANGELOG.md and debian/changelog begin
with CMake's version, of the same day."""

import datetime
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


def versions(complaints):
    version = re.search(r"^project\(patchbay VERSION (\S+)", text("CMakeLists.txt"), re.MULTILINE)[1]
    found = re.findall(r"^## (.*)$", text("CHANGELOG.md"), re.MULTILINE)
    for heading in found:
        if not re.fullmatch(r"[\d.]+ \(\d{4}-\d\d-\d\d\)", heading):
            complaints.add("CHANGELOG.md", 1, f"'{heading}' is no version with a date, as 1.0.0 (2026-01-31)")
    entry = re.match(r"patchbay \(([\d.]+).*?^ -- .*?> +\w+, (\d+ \w+ \d+) ", text("debian/changelog"), re.MULTILINE | re.DOTALL)
    day = datetime.datetime.strptime(entry[2], "%d %b %Y").strftime("%Y-%m-%d")
    for file, said in (("CHANGELOG.md", found[0]), ("debian/changelog", f"{entry[1]} ({day})")):
        if said != f"{version} ({day})":
            complaints.add(file, 1, f"begins with {said}, and CMakeLists.txt has {version}")


def main():
    complaints = Complaints()
    versions(complaints)
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
