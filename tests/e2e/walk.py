#!/usr/bin/env python3
"""Types the commands of pages from top to bottom into one shell, and nothing else.

    tests/e2e/walk.py [--without COMMAND]... [PAGE...]      default: README.md and three task pages

The first command that fails ends the walk. --without leaves out the lines that begin with COMMAND. The commands
install packages and change the node: scripts/debian SUITE tests/e2e/walk.py.
"""

import argparse
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support.pages import blocks  # noqa: E402
from support.plugin import ROOT  # noqa: E402

PAGES = ("README.md", "docs/building.md", "docs/pod-without-network.md", "cnitool/README.md")
# What an interactive shell executes before each prompt, that is after each command.
STOP = 'status=$?; [ $status = 0 ] || { echo "walk: status $status"; exit $status; }'
MARK = "walk: begins "


def typed(pages, without):
    """What is typed, and what is left out."""
    lines, left_out = [], []
    for page in pages:
        for line, commands in blocks(page):
            lines.append(f"echo '{MARK}{page}:{line}'\n")
            for number, command in enumerate(commands.splitlines(), line):
                if command.startswith(tuple(without)):
                    left_out.append(f"{page}:{number}: {command}")
                else:
                    lines.append(command + "\n")
    return "".join([*lines, f"echo '{MARK}nothing more'\n", "exit\n"]), left_out


def walk(text):
    """Runs the shell, and returns its exit status and {block: seconds}."""
    env = os.environ | {"PROMPT_COMMAND": STOP, "PS1": "", "PS2": ""}
    shell = subprocess.Popen(["bash", "--norc", "-i"], cwd=ROOT, env=env, stdin=subprocess.PIPE, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
    shell.stdin.write(text)
    shell.stdin.close()
    times, block, began = {}, "", time.monotonic()
    for line in shell.stdout:
        if line.startswith(MARK):
            if block:
                times[block] = time.monotonic() - began
            block, began = line.removeprefix(MARK).strip(), time.monotonic()
        print(line, end="", flush=True)
    return shell.wait(), times, block


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", action="append", default=[], metavar="COMMAND")
    parser.add_argument("pages", nargs="*", default=PAGES, metavar="PAGE")
    asked = parser.parse_args()
    text, left_out = typed(asked.pages, asked.without)
    status, times, last = walk(text)
    print()
    for block, seconds in times.items():
        print(f"{seconds:6.0f} s  {block}")
    for line in left_out:
        print(f"left out  {line}")
    expected = text.count(f"echo '{MARK}") - 1
    if status != 0 or last != "nothing more" or len(times) != expected:
        print(f"FAILED in {last}")
        return 1
    print(f"{len(times)} blocks of {len(asked.pages)} pages passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
