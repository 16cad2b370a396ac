#!/usr/bin/env python3
"""Code in a README is a file that is compiled: the block after "<!-- FILE -->" is that file."""

import re
import sys

from sources import Complaints, ROOT, files, text

BLOCK = re.compile(r"<!-- (\S+) -->\n```\w*\n(.*?)```", re.DOTALL)


def main():
    complaints = Complaints()
    for path in files(".md"):
        content = text(path)
        for match in BLOCK.finditer(content):
            line = content.count("\n", 0, match.start()) + 1
            if not (ROOT / match.group(1)).is_file():
                complaints.add(path, line, f"{match.group(1)} does not exist")
            elif text(match.group(1)) != match.group(2):
                complaints.add(path, line, f"the code is not that of {match.group(1)}")
    return complaints.code()


if __name__ == "__main__":
    sys.exit(main())
