#!/usr/bin/env python3
"""The facts that a plugin states in --schema are what it does: in which place of a list ADD accepts it, what it creates, and
which keys it has for that."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.configs import config, give_device, is_ipam, provide  # noqa: E402
from support.plugin import OURS, PLUGINS, cni  # noqa: E402
from support.schema import schema_of  # noqa: E402
from support.world import run  # noqa: E402

EACH = [(plugin, plugin) for plugin in PLUGINS]
#: One of them is the place in a list.
PLACES = {"interface", "chained", "loopback", "ipam"}
#: The key that only plugins with the fact have.
KEYS = {"ranges": "ipam.ranges", "addresses": "ipam.addresses", "server": "ipam.daemonSocketPath", "bridge": "isGateway",
        "master": "master", "delegates": "delegate", "ports": "runtimeConfig.portMappings",
        "rates": "runtimeConfig.bandwidth", "policy": "ingressPolicy", "settings": "sysctl",
        "sourceRoutes": "addSourceHints", "vrf": "vrfname", "devices": "ledgerDir"}


def facts_of(plugin):
    return set(schema_of(os.path.join(OURS, plugin))["facts"])


def has(part, path):
    """Whether a schema describes the key."""
    for name in path.split("."):
        part = part.get("properties", {}).get(name)
        if part is None:
            return False
    return True


def kinds(*where):
    """The kinds of links, in the node or in a pod."""
    shown = json.loads(run("ip", *where, "-j", "-d", "link"))
    return {one.get("linkinfo", {}).get("info_kind") for one in shown if one.get("ifname") != "lo"} - {None}


@suite.spread
class Facts(suite.NodeTest):
    @suite.cases(EACH)
    def the_keys_are_those_of_the_facts_of(self, plugin):
        schema, facts = schema_of(os.path.join(OURS, plugin)), facts_of(plugin)
        self.assertEqual(len(facts & PLACES), 1, facts)
        self.assertEqual({fact for fact, key in KEYS.items() if has(schema, key)}, facts & set(KEYS))
        is_routed = "interface" in facts and has(schema, "ipMasq") and "bridge" not in facts
        self.assertEqual(is_routed, "routed" in facts)
        if "keeps" in facts:
            shown = subprocess.run([os.path.join(OURS, plugin), "--help"], capture_output=True, text=True, check=True)
            self.assertRegex(shown.stdout, "Verbs: ADD, .*GC")

    @suite.cases(EACH)
    def the_first_place_of_a_list_is_for_an_interface_and_not_for_a_chained_plugin(self, plugin):
        if reason := provide(plugin):
            self.skipTest(reason)
        facts, kind = facts_of(plugin), schema_of(os.path.join(OURS, plugin)).get("linkKind")
        pod = self.pod()
        give_device(plugin)
        conf = config(plugin, "1.1.0")
        conf.pop("prevResult", None)
        before = kinds()
        added = cni(plugin, "ADD", conf, netns=pod.path, ifname="eth0")
        if "chained" in facts:
            return self.assertRegex(json.dumps(self.assert_error(added, code=7)), "prevResult|chained")
        self.assert_ok(added)
        links = {one["ifname"] for one in json.loads(pod.run("ip", "-j", "link"))} - {"lo"}
        if not is_ipam(plugin):
            self.assertEqual(links, {"eth0"} if "interface" in facts else set())
        if kind:
            self.assertIn(kind, kinds("-n", pod.name) | (kinds() - before))
        return None


if __name__ == "__main__":
    suite.main()
