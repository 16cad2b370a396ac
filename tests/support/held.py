"""Calls of a plugin that are held in the middle of what cnitool does."""

import os
import shutil

from support.plugin import OURS
from support.world import wait_for


class Held:
    """A folder of the plugins in which a call of one of them is held until release(); condition is bash's."""

    def __init__(self, plugin, condition, before=True):
        self.path = "/run/held-plugins"
        shutil.rmtree(self.path, ignore_errors=True)
        os.mkdir(self.path)
        for name in os.listdir(OURS):
            os.symlink(os.path.join(OURS, name), os.path.join(self.path, name))
        os.unlink(os.path.join(self.path, plugin))
        held = f"if [[ {condition} ]]; then touch /run/is-held; while [ -e /run/hold ]; do sleep 0.02; done; fi"
        call = f'"{OURS}/{plugin}" <<<"$in"'
        if before:
            body = f"{held}; exec {call}"
        else:
            body = f'out=$({call}); status=$?; {held}; [ -z "$out" ] || printf "%s\\n" "$out"; exit $status'
        with open(os.path.join(self.path, plugin), "w", encoding="ascii") as file:
            file.write(f"#!/bin/bash\nin=$(cat)\n{body}\n")
        os.chmod(os.path.join(self.path, plugin), 0o755)
        with open("/run/hold", "w", encoding="ascii"):
            pass

    @staticmethod
    def wait():
        assert wait_for(lambda: os.path.exists("/run/is-held"), 20), "no call was held"

    @staticmethod
    def release():
        for name in ("/run/hold", "/run/is-held"):
            if os.path.exists(name):
                os.unlink(name)
