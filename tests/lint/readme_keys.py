#!/usr/bin/env python3
"""A plugin's keys stand in one place, its table: the README has what the plugin prints of it, and
no source file reads a key beside it; but state.cc and message.cc, which read what the plugin and its daemon wrote."""

import json
import os
import re
import subprocess
import sys

from sources import Complaints, ROOT, files, text

BIN = os.environ.get("PATCHBAY_BIN", ROOT / "build/dev/bin")
# reader["key"], reader.into("key", ...).
KEY = re.compile(r'(?:[\w\]]\[|\binto\()\s*"([A-Za-z][\w.-]*)"')


def names_in(schema):
    """The names of all keys that a schema knows, at any depth."""
    if isinstance(schema, list):
        for item in schema:
            yield from names_in(item)
    elif isinstance(schema, dict):
        yield from schema.get("properties", {})
        for value in schema.values():
            yield from names_in(value)


def main():
    complaints = Complaints()
    patchbay = os.path.join(BIN, "patchbay")
    if not os.access(patchbay, os.X_OK):
        print(f"{patchbay} is not built", file=sys.stderr)
        return 77
    listed = subprocess.run([patchbay, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    for name in listed.stdout.split():
        folder = ROOT / "plugins" / name
        plugin = os.path.join(BIN, name)
        asked = subprocess.run([plugin, "--schema"], stdout=subprocess.PIPE, text=True)
        if asked.returncode:
            complaints.add(folder / "README.md", 1, "the plugin has no table of its keys")
            continue
        known = set(names_in(json.loads(asked.stdout)))
        for path in files(".cc", folders=[folder]):
            if path.name in ("state.cc", "message.cc") or "agent" in path.parts:  # a daemon with a config of its own
                continue
            content = text(path)
            for match in KEY.finditer(content):
                if match.group(1) not in known and not match.group(1).startswith("CNI_"):  # of the environment
                    line = content.count("\n", 0, match.start(1)) + 1
                    complaints.add(path, line, f'key "{match.group(1)}" is not in the table')
    stale = subprocess.run([ROOT / "scripts/keys", "--check"], env=os.environ | {"PATCHBAY_BIN": BIN})
    return complaints.code() or stale.returncode


if __name__ == "__main__":
    sys.exit(main())
