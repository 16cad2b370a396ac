"""Runs one CNI plugin the way libcni does."""

import dataclasses
import json
import os
import shutil
import subprocess

from support import schema
from support.places import OURS, ROOT  # noqa: F401

#: The Go plugins to compare with, as Debian's containernetworking-plugins installs them.
REFERENCE = os.environ.get("PATCHBAY_REFERENCE", "/usr/lib/cni")

VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")


def listed():
    """The plugins of the multi-call binary; none where it is not built."""
    try:
        asked = subprocess.run([os.path.join(OURS, "patchbay"), "--list"], stdout=subprocess.PIPE,
                               text=True, check=True, timeout=10)
    except FileNotFoundError:
        return ()
    return tuple(asked.stdout.split())


#: All plugins under test, as `patchbay --list` names them.
PLUGINS = listed()


def has_reference(plugin="bridge"):
    """Whether the Go plugin of that name is installed."""
    return os.access(os.path.join(REFERENCE, plugin), os.X_OK)


def is_sanitized(plugin="bridge"):
    """Whether our plugin of that name was built with AddressSanitizer."""
    with open(os.path.join(OURS, plugin), "rb") as file:
        return b"__asan_init" in file.read()


@dataclasses.dataclass
class Outcome:
    """What one run of a plugin left: exit status, stdout and stderr."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self):
        """stdout as one JSON document; anything else in it is an error."""
        return json.loads(self.stdout)

    @property
    def ok(self):
        return self.status == 0

    def __str__(self):
        return f"exit {self.status}, stdout {self.stdout!r}, stderr {self.stderr!r}"


def environment(command, netns, container, ifname, args, path):
    """The environment libcni gives a plugin: its own, and six variables."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("CNI_")}
    env |= {"CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_NETNS": netns,
            "CNI_ARGS": args, "CNI_IFNAME": ifname, "CNI_PATH": path}
    return env


def start(plugin, command, conf, *, netns="", container="pod1", ifname="eth0", args="",
          directory=None, path=None, env=None, wrap=(), documented=True):
    """Starts a plugin and returns the process, its stdin and stdout being pipes.

    conf is a dict, or the text itself. env replaces single variables of the environment, None
    removes one. wrap goes in front of the command (strace and its options). A conf that is not
    documented may have keys that --schema does not know.
    """
    directory = directory or OURS
    if command in ("GC", "STATUS", "VERSION"):
        container = netns = ifname = args = ""
    variables = environment(command, netns, container, ifname, args, path or directory)
    for key, value in (env or {}).items():
        variables.pop(key, None)
        if value is not None:
            variables[key] = value
    if "strace" in wrap:  # the leak check of a sanitized build needs ptrace for itself
        variables["ASAN_OPTIONS"] = "detect_leaks=0"
    process = subprocess.Popen([*wrap, os.path.join(directory, plugin)], env=variables,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="surrogateescape")
    process.config = conf if isinstance(conf, str) else json.dumps(conf)
    adds = documented and directory == OURS and variables.get("CNI_COMMAND") == "ADD"
    process.ours = adds and os.path.join(directory, plugin)
    return process


def finish(process, timeout=60):
    """Feeds the config to a started plugin and waits for its end. What ADD of a plugin of ours
    accepts its --schema must allow."""
    try:
        stdout, stderr = process.communicate(process.config, timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        stderr += f"\n(killed: it ran longer than {timeout} s)"
    if process.ours and process.returncode == 0:
        schema.check_accepted(process.ours, process.config)
    return Outcome(process.returncode, stdout, stderr)


def finish_all(calls):
    """The outcomes of started plugins, which get their configs before the first is waited for."""
    for call in calls:
        call.stdin.write(call.config)
        call.stdin.close()
        call.stdin = None
    return [finish(call) for call in calls]


def cni(plugin, command, conf, timeout=60, **options):
    """Runs a plugin once: see start()."""
    return finish(start(plugin, command, conf, **options), timeout)


def is_new_reference(plugin):
    """Whether the reference plugin is of 1.9: those before 1.5 do not know version 1.1.0 of the spec."""
    said = cni(plugin, "VERSION", "", directory=REFERENCE) if has_reference(plugin) else None
    return said is not None and "1.1.0" in said.stdout


def have(*programs):
    """The first of the programs that is missing, or None."""
    return next((p for p in programs if shutil.which(p) is None), None)
