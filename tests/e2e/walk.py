#!/usr/bin/env python3
"""Types the commands of pages from top to bottom into one shell, and nothing else.

    tests/e2e/walk.py [--without COMMAND]... [PAGE...]      default: README.md and the pages below

The first command that fails ends the walk. --without leaves out the lines that begin with COMMAND. The commands
install packages and change the node: scripts/debian SUITE tests/e2e/walk.py.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support.pages import typed, walk  # noqa: E402

PAGES = ("README.md", "docs/building.md", "docs/packaging.md", "docs/pod-without-network.md", "cnitool/README.md")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", action="append", default=[], metavar="COMMAND")
    parser.add_argument("pages", nargs="*", default=PAGES, metavar="PAGE")
    asked = parser.parse_args()
    text, left_out = typed(asked.pages, asked.without)
    walked = walk(text, tell=lambda line: print(line, end="", flush=True))
    print()
    for block, seconds in walked.times.items():
        print(f"{seconds:6.0f} s  {block}")
    for line in left_out:
        print(f"left out  {line}")
    if failure := walked.failure(text):
        print(f"FAILED {failure}")
        return 1
    print(f"{len(walked.times)} blocks of {len(asked.pages)} pages passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
