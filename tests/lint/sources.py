"""What the checks of this folder share: the files to look at, and how to complain."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["cnitool", "installer", "kubernetes", "libcni", "netlink", "plugins", "tests", "scripts", "conf-examples", "docs", ".ci"]


def files(*suffixes, folders=FOLDERS):
    """The project's files with one of these suffixes (all without any), with paths from the root.
    The corpora of the fuzz targets are no texts."""
    found = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and not {"__pycache__", "corpus"} & set(path.parts):
                if not suffixes or path.suffix in suffixes:
                    found.append(path.relative_to(ROOT))
    return found


def text(path):
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


class Complaints:
    """Prints file:line: complaint; its code() is what the check exits with."""

    def __init__(self):
        self.count = 0

    def add(self, path, line, complaint):
        self.count += 1
        print(f"{path}:{line}: {complaint}")

    def code(self):
        if self.count:
            print(f"{self.count} complaint(s)", file=sys.stderr)
        return 1 if self.count else 0
