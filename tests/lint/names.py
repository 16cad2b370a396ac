#!/usr/bin/env python3
"""A name that plugins and cnitool share on the node (of a table, a chain, a link or a folder) is written only in
plugins/names."""

import re
import sys

from sources import Complaints, files, text

NAME = re.compile(r'" ?(?:/run/cni\b|/var/lib/cni/|patchbay_(?:firewall|hostport|masquerade)|CNI-[A-Z"]|bwp")')


def main():
    complaints = Complaints()
    for path in files(".h", ".cc", folders=["cnitool", "installer", "kubernetes", "libcni", "plugins"]):
        if path.as_posix().startswith("plugins/names/"):
            continue
        content = text(path)
        for match in NAME.finditer(content):
            complaints.add(path, content.count("\n", 0, match.start()) + 1,
                           f"{match.group(0)}...: a name that stands in plugins/names")
    return complaints.code()


if __name__ == "__main__":
    sys.exit(main())
