"""Nodes for tests of portmap alone: what stands in for the plugin before it, and what its backends
have, read with their own tools."""

import hashlib
import json
import os
import re

from support import hostport, suite
from support.plugin import cni, have, start
from support.world import Pod, run

#: Name, backend, variant of iptables.
BACKENDS = [("nftables", ("nftables", None)), ("iptables-nft", ("iptables", "nft")),
            ("iptables-legacy", ("iptables", "legacy"))]
TABLE = "patchbay_hostport"
STATE_FILES = "/run/cni/portmap"


class Container(Pod):
    """A pod with an interface and addresses: all that portmap asks of it."""

    def __init__(self, name, number):
        # As long as a runtime's ID, so that it is nobody else's by chance.
        super().__init__(name + "-" + hashlib.sha256(name.encode()).hexdigest()[:40])
        run("ip", "-n", self.name, "link", "add", "eth0", "type", "bridge")
        self.v4, self.v6 = f"10.1.2.{number}", f"fd00:1:2::{number:x}"

    @property
    def result(self):
        return hostport.result(self, self.v4, self.v6)


class PortmapTest(suite.NodeTest):
    """A node with a link cni0 behind which all containers are said to be."""

    def setUp(self):
        super().setUp()
        run("ip", "-batch", "-", stdin="link add cni0 type bridge\naddr add 10.1.2.1/24 dev cni0\n"
            "addr add fd00:1:2::1/64 dev cni0 nodad\nlink set cni0 up\n")
        self.containers = 1
        self.backend = "nftables"

    def use(self, backend):
        """Makes a row of BACKENDS the backend of the configs to come."""
        self.backend, variant = backend
        if variant and (reason := hostport.select_iptables(variant)):
            self.skipTest(reason)
        if self.backend == "iptables" and have("iptables-restore"):
            self.skipTest("iptables is not installed")

    def container(self, name="one"):
        self.containers += 1
        return Container(name, self.containers)

    def conf(self, container, mappings, **more):
        """The config for a container; more is laid over it, a key that is None is left out."""
        conf = hostport.config(mappings, **{"backend": self.backend} | more)
        conf = {"prevResult": container.result} | conf
        return {key: value for key, value in conf.items() if value is not None}

    def call(self, verb, container, mappings=None, options=None, **more):
        """One run of the plugin; options are those of cni(), more is the config's."""
        return cni("portmap", verb, self.conf(container, mappings, **more),
                   **{"netns": container.path, "container": container.name} | (options or {}))

    def add(self, container, *mappings, **more):
        return self.assert_ok(self.call("ADD", container, list(mappings), **more))

    def delete(self, container, *mappings, **more):
        return self.assert_ok(self.call("DEL", container, list(mappings), **more))

    def all_at_once(self, verb, calls):
        """Runs the verb for all (container, mappings) at the same time."""
        processes = [start("portmap", verb, self.conf(one, mappings), netns=one.path,
                           container=one.name) for one, mappings in calls]
        for process in processes:  # each waits for its stdin: now they run at once
            process.stdin.write(process.config)
            process.stdin.close()
            process.stdin = None
        return [suite.plugin.finish(process) for process in processes]

    def rules(self):
        """(chain, rest of the rule) of all rules in the nat table as iptables-save tells them."""
        return [line.split(" ", 2)[1:] for tool in ("iptables", "ip6tables")
                for line in run(f"{tool}-save", "-t", "nat").splitlines() if line.startswith("-A")]

    def targets(self):
        """{(protocol, hostIP or None, host port): {target}} of what is mapped."""
        return _nft_targets() if self.backend == "nftables" else self._iptables_targets()

    def _iptables_targets(self):
        found = {}
        for _, rule in self.rules():
            if match := re.fullmatch(r"(?:-d (\S+)/\d+ )?-p (\w+) .*--dport (\d+) -j DNAT "
                                     r"--to-destination (\S+)", rule):
                address, protocol, port, target = match.groups()
                found.setdefault((protocol, address, int(port)), set()).add(target)
        return found


def _nft_targets():
    found = {}
    for item in json.loads(run("nft", "-j", "list", "ruleset"))["nftables"]:
        one = item.get("map", {})
        if not one.get("table", "").startswith(TABLE):
            continue
        for key, value in one.get("elem", ()):
            *address, protocol, port = key.get("elem", {"val": key})["val"]["concat"]
            to, to_port = value["concat"]
            target = f"[{to}]:{to_port}" if ":" in to else f"{to}:{to_port}"
            place = (protocol, address[0] if address else None, port)
            found.setdefault(place, set()).add(target)
    return found


def state_file_of(container):
    """The file that portmap keeps for the container."""
    name = hashlib.sha512(container.name.encode()).hexdigest()[:16]
    return os.path.join(STATE_FILES, name)
