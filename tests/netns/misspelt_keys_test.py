#!/usr/bin/env python3
"""ADD names each unknown key that resembles a known one on stderr, and does what it does without that key."""

import copy
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.configs import CONFIGS, GC, is_ipam  # noqa: E402
from support.plugin import OURS, PLUGINS, cni  # noqa: E402
from support.schema import schema_of  # noqa: E402
from support.world import World  # noqa: E402

FULL = [(f"{plugin} {number}", (plugin, conf)) for plugin in PLUGINS
        for number, conf in enumerate(CONFIGS[plugin].full, 1)]
#: Of other plugins and yet a mistake: the pod would be in no VLAN.
MEANT = {"vlanId"}
#: Keys of runtimes, of the spec beside "plugins", and of old configs.
FOREIGN = {"deviceID": "0000:00:1f.6", "disableCheck": True, "disableGC": True, "delegates": [], "noSnat": True,
           "addIf": "true", "Documentation": "", "cni.dev/future": {}, "log_level": "info", "subnet": "10.0.0.0/24",
           "ranges": [], "rangeStart": "10.0.0.9", "rangeEnd": "10.0.0.10", "addresses": [], "isGateway": True}


def properties(plugin):
    return schema_of(os.path.join(OURS, plugin))["properties"]


def resolved(part):
    return next((one for one in part.get("anyOf", []) if "properties" in one), part)


def misspell(value, part, path=""):
    """Adds to each object that has no other keys than those of its schema a slip of the pen for each of them. Yields
    what is to be said."""
    part = resolved(part)
    if isinstance(value, list) and "items" in part:
        for index, one in enumerate(value):
            yield from misspell(one, part["items"], f"{path}[{index}]")
    if not isinstance(value, dict) or path in ("runtimeConfig", "prevResult"):
        return
    for key, below in part.get("properties", {}).items():
        place = f"{path}.{key}" if path else key
        if key in value:
            yield from misspell(value[key], below, place)
        # "id" is too short to resemble; the keys of cni.dev are the runtime's.
        if part.get("additionalProperties") is False and len(key) > 2 and "/" not in key:
            slip = key[0] + key
            value[slip] = "no value"
            yield f"{path}.{slip}: unknown key, ignored (did you mean {key}?)".removeprefix(".")


def conf_of(plugin, keys, **more):
    return copy.deepcopy({"cniVersion": "1.1.0", "name": "net1", "type": plugin, **more, **keys})


def warnings_in(outcome):
    return sorted(line for line in outcome.stderr.splitlines() if "unknown key" in line)


@suite.spread
class MisspeltKeys(suite.NodeTest):
    def add(self, plugin, conf):
        self.node = World()
        return cni(plugin, "ADD", conf, netns="/run/netns/none", documented=False)

    @suite.cases(FULL)
    def every_slip_of_the_pen_is_named_and_ignored_in_the_config_of(self, row):
        plugin, keys = row
        right = self.add(plugin, conf_of(plugin, keys))
        self.assertEqual(warnings_in(right), [])
        wrong = conf_of(plugin, keys)
        expected = [f"{plugin}: {line}" for line in misspell(wrong, schema_of(os.path.join(OURS, plugin)))]
        self.assertGreater(len(expected), 2)
        outcome = self.add(plugin, wrong)
        self.assertEqual(warnings_in(outcome), sorted(expected))
        self.assertEqual((outcome.status, outcome.stdout), (right.status, right.stdout))

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def keys_of_others_are_no_slips_of_the_pen_for(self, plugin):
        known = {key.lower() for key in properties(plugin)}
        others = {key: "x" for other in PLUGINS for key in properties(other)} | FOREIGN
        foreign = {key: value for key, value in others.items() if key.lower() not in known | {one.lower() for one in MEANT}}
        runtime = {"args": {"cni": {"mca": "x"}, "labels": []}, "runtimeConfig": {"portMapings": [], "mca": "x"}}
        conf = conf_of(plugin, CONFIGS[plugin].least, capabilities={"dns": True, "aliases": True}) | foreign
        self.assertEqual(warnings_in(self.add(plugin, conf | runtime)), [])

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def case_does_not_make_a_key_unknown_to(self, plugin):
        conf = {key.upper(): value for key, value in conf_of(plugin, CONFIGS[plugin].least).items()}
        self.assertEqual(warnings_in(self.add(plugin, conf)), [])

    @suite.cases([(plugin, plugin) for plugin in PLUGINS if not is_ipam(plugin)])
    def the_other_verbs_say_nothing_of(self, plugin):
        conf = conf_of(plugin, CONFIGS[plugin].least, prevResult={"cniVersion": "1.1.0"}) | GC | {"prevResul": {}}
        for verb in ("DEL", "CHECK", "GC", "STATUS", "VERSION"):
            self.assertEqual(warnings_in(cni(plugin, verb, conf, netns="/run/netns/none")), [], verb)

    def test_a_capability_that_no_plugin_has_is_named(self):
        outcome = self.add("portmap", conf_of("portmap", {"capabilities": {"portMapings": True}}, prevResult={}))
        self.assertEqual(outcome.stderr, "portmap: capabilities.portMapings: unknown key, ignored "
                                         "(did you mean portMappings?)\n")

    def test_a_misspelt_bridge_is_named_and_the_pod_lands_on_the_default_one(self):
        pod = self.pod()
        conf = conf_of("bridge", CONFIGS["bridge"].least) | {"brigde": "br0"}
        outcome = cni("bridge", "ADD", conf, netns=pod.path, documented=False)
        self.assertEqual(self.assert_ok(outcome)["interfaces"][0]["name"], "cni0")
        self.assertEqual(outcome.stderr, "bridge: brigde: unknown key, ignored (did you mean bridge?)\n")

    def test_a_misspelt_key_of_the_IPAM_plugin_is_named_once_by_it(self):
        pod = self.pod()
        conf = conf_of("bridge", {"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24",
                                                                              "rangStart": "10.1.2.9"}]]}})
        outcome = cni("bridge", "ADD", conf, netns=pod.path, documented=False)
        self.assertEqual(self.assert_ok(outcome)["ips"][0]["address"], "10.1.2.2/24")
        self.assertEqual(outcome.stderr, "host-local: ipam.ranges[0][0].rangStart: unknown key, ignored "
                                         "(did you mean rangeStart?)\n")


if __name__ == "__main__":
    suite.main()
