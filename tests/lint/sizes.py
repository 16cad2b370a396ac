#!/usr/bin/env python3
"""The size budget: a function 40 lines, a file 400, a header 150.

Functions are found by counting braces, which is rough: what follows a parenthesis is taken to be a
body. Tests have a budget for files only; a table of cases is not hard to read for being long.
"""

import re
import sys

from sources import Complaints, files, text

MOST_FUNCTION, MOST_FILE, MOST_HEADER = 40, 400, 150
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def without_noise(source):
    """The source with comments, texts and characters blanked; lines stay where they are."""
    return NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), source)


def bodies(source):
    """(line, lines in the body) of every outermost function body."""
    depth_in_body, started, before, line = 0, 0, "", 1
    for char in without_noise(source):
        if char == "\n":
            line += 1
        if depth_in_body:
            depth_in_body += {"{": 1, "}": -1}.get(char, 0)
            if not depth_in_body:
                yield started, line - started - 1
                before = ""
        elif char == "{":
            if ")" in before and not SCOPE.search(before.split("(")[0]):
                depth_in_body, started = 1, line
            before = ""
        elif char in "};":
            before = ""
        else:
            before += char


def main():
    complaints = Complaints()
    for path in files(".h", ".cc"):
        content = text(path)
        lines = content.count("\n")
        most = MOST_HEADER if path.suffix == ".h" else MOST_FILE
        if lines > most:
            complaints.add(path, lines, f"{lines} lines, the budget is {most}")
        if path.parts[0] == "tests":
            continue
        for line, length in bodies(content):
            if length > MOST_FUNCTION:
                complaints.add(path, line, f"a function of {length} lines, the budget is {MOST_FUNCTION}")
    return complaints.code()


if __name__ == "__main__":
    sys.exit(main())
