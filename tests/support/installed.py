"""A list of Debian's packages (dpkg(1)) for scripts that run where /var/lib is hidden."""

import os
import re

from support.plugin import ROOT


def write(folder, without=()):
    """Writes folder/status, in which all words of scripts/install-deps are installed, without these."""
    with open(os.path.join(ROOT, "scripts/install-deps"), encoding="utf-8") as file:
        names = set(re.findall(r"[a-z0-9][a-z0-9+.-]+", file.read())) - set(without)
    with open(f"{folder}/status", "w", encoding="utf-8") as file:
        file.write("".join(f"Package: {name}\nStatus: install ok installed\n\n" for name in sorted(names)))
