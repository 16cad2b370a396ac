#!/usr/bin/env python3
"""Every key of the config that a plugin reads stands in the plugin's README."""

import re
import sys

from sources import Complaints, ROOT, text

# reader["key"], reader.into("key", ...), and a plugin's own name_at("key", ...).
KEY = re.compile(r'(?:\[|\binto\(|_at\()\s*"([A-Za-z][\w.-]*)"')


def main():
    complaints = Complaints()
    for folder in sorted((ROOT / "plugins").iterdir()):
        conf = folder / "conf.cc"
        if not conf.is_file():
            continue
        path, readme = conf.relative_to(ROOT), folder / "README.md"
        if not readme.is_file():
            complaints.add(path, 1, "the plugin has no README.md")
            continue
        described = text(readme.relative_to(ROOT))
        content = text(path)
        for match in KEY.finditer(content):
            key = match.group(1)
            if not re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", described):
                line = content.count("\n", 0, match.start(1)) + 1
                complaints.add(path, line, f'key "{key}" is not in {readme.relative_to(ROOT)}')
    return complaints.code()


if __name__ == "__main__":
    sys.exit(main())
