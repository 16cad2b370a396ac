"""Runs cnitool, and reads what it leaves in the results cache."""

import base64
import contextlib
import hashlib
import json
import os
import subprocess
import time

from support.plugin import OURS, Outcome
from support.world import MS_BIND, mount

CONF_DIR = "/run/net.d"  # in the world of a test
RESULTS = "/var/lib/cni/results"
CONTAINERD = "/etc/containerd/config.toml"
UNSEEN = "not looked at: whether packets arrive; `cnitool doctor --probe` sends them\n"  # the last line of doctor


def default_containerd():
    """The node's containerd, if the machine has one, has its plugins in /opt/cni/bin, as without a config."""
    if os.path.exists(CONTAINERD):
        with open("/run/containerd-without-config", "w", encoding="ascii"):
            pass
        mount("/run/containerd-without-config", CONTAINERD, flags=MS_BIND)


def environment(**more):
    """What cnitool reads: our plugins, networks of CONF_DIR. None removes a variable."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("CNI_") and k not in ("CAP_ARGS", "NETCONFPATH", "NO_COLOR")}
    env |= {"CNI_PATH": OURS, "NETCONFPATH": CONF_DIR}
    for key, value in more.items():
        env.pop(key, None)
        if value is not None:
            env[key] = value if isinstance(value, str) else json.dumps(value)
    return env


def start(*arguments, wrap=(), **env):
    """A running cnitool, its stdout and stderr being pipes. wrap goes in front of the command."""
    return subprocess.Popen([*wrap, os.path.join(OURS, "cnitool"), *arguments], env=environment(**env),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, errors="surrogateescape")


def finish(process, timeout=120):
    """Waits for its end."""
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        stderr += f"\n(killed: it ran longer than {timeout} s)"
    return Outcome(process.returncode, stdout, stderr)


def cnitool(*arguments, **env):
    """Runs cnitool once."""
    return finish(start(*arguments, **env))


def use(conflist, name="10-test.conflist"):
    """Writes a network to CONF_DIR; returns the text of the file."""
    os.makedirs(CONF_DIR, exist_ok=True)
    text = json.dumps(conflist, indent=1)
    with open(os.path.join(CONF_DIR, name), "w", encoding="utf-8") as file:
        file.write(text)
    return text


def container_of(netns):
    """The name that the reference's cnitool gives the container of a namespace."""
    return "cnitool-" + hashlib.sha512(netns.encode()).hexdigest()[:20]


def cache_file(network, container, ifname="eth0"):
    return os.path.join(RESULTS, f"{network}-{container}-{ifname}")


def cached(network, container, ifname="eth0"):
    """The cache file of an attachment, its config decoded."""
    with open(cache_file(network, container, ifname), encoding="utf-8") as file:
        doc = json.load(file)
    doc["config"] = base64.b64decode(doc["config"], validate=True).decode()
    return doc


def age_leases(network="net"):
    """Makes the leases of host-local older than any ADD that could be running."""
    folder = f"/var/lib/cni/networks/{network}"
    then = time.time() - 600
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        with contextlib.suppress(FileNotFoundError):  # a GC beside it removed the lease
            os.utime(os.path.join(folder, name), (then, then))


def cache_names():
    """The names of all files in the cache, those that begin with a dot too."""
    return sorted(os.listdir(RESULTS)) if os.path.isdir(RESULTS) else []


def printed_on(terminal):
    """All that programs printed on a pseudoterminal whose other end is closed here; closes it."""
    printed = b""
    try:
        while more := os.read(terminal, 65536):
            printed += more
    except OSError:  # EIO: all of it was read
        pass
    os.close(terminal)
    return printed
