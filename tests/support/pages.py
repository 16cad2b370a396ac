"""The commands of a page of documentation: its indented blocks. Fenced blocks are code or output."""

import os
import re

from support.plugin import ROOT

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# Lines that are indented by four spaces; empty lines stand between. Before it: an empty line, no list.
_BLOCK = re.compile(r"(?<=\n\n)(?:    .*\n|\n(?=    ))+")


def blocks(page):
    """[(line, commands)] of a page, a path from the repository's root."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        text = _FENCED.sub(lambda found: "\n" * found[0].count("\n"), file.read())
    return [(text.count("\n", 0, found.start()) + 1, re.sub("^    ", "", found[0], flags=re.MULTILINE))
            for found in _BLOCK.finditer(text)]
