#!/usr/bin/env python3
"""A config with a wrong value is refused before anything is changed, by each plugin for one value: the others are known
to tests/conformance/schema_test.py and the unit tests. DEL and GC of it succeed and change nothing: a runtime repeats DEL
until it does, and ADD has made nothing. For them every key that a plugin knows is tried with wrong values of several
kinds."""

import copy
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.configs import CONFIGS, GC, previous  # noqa: E402
from support.plugin import OURS, PLUGINS, cni, finish_all, start  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402

WRONG = [-1, 10**30, True, "a\0b", "../up", [[]], {"no": "key"}]
#: Keys of any config; those of a request (name, cniVersion) are the runtime's.
COMMON = {"dns": {"nameservers": ["10.1.2.53"]}, "args": {"cni": {}}, "runtimeConfig": {}, "capabilities": {}}
REQUEST = ("name", "cniVersion", "type")
IPAM = ("host-local", {"type": 7}, {"type": "a/b"}, {"type": ".."}, {"type": "host-local\0"}, {"type": "bridge"},
        {"type": "host-local", "subnet": "10.0.0.0/33"}, {"type": "static", "addresses": "x"})
ATTACHED = [(plugin, plugin) for plugin in PLUGINS if CONFIGS[plugin].kind]


def places(value, path=()):
    """The paths of all values in a config."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, one in inner:
        yield from places(one, (*path, step))


def changed(conf, path, value):
    out = copy.deepcopy(conf)
    inner = out
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return out


def is_refused(plugin, conf):
    return subprocess.run([os.path.join(OURS, plugin), "--validate"], input=json.dumps(conf), text=True,
                          capture_output=True).returncode != 0


def wrong_configs(plugin):
    common = {"prevResult": previous("1.1.0"), **COMMON}
    for number, full in enumerate(CONFIGS[plugin].full):
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": plugin, **common, **full}
        paths = [path for path in places(conf) if not (
            path[0] in REQUEST or len(path) > 2 and path[0] == "prevResult"
            or number > 0 and path[0] in common and path[0] not in full)]
        wrong = [changed(conf, path, value) for path in paths for value in WRONG]
        yield from (one for one in rows.sampled(wrong) if is_refused(plugin, one))


def least(plugin, **more):
    return {"cniVersion": "1.1.0", "name": "net1", "type": plugin, **CONFIGS[plugin].least, **more}


@suite.spread
class Refused(suite.NodeTest):
    def prepare(self):
        pod = self.pod()
        pod.run("ip", "-batch", "-", stdin="link add eth0 type veth peer name other\naddr add 10.1.2.9/24 dev eth0\n")
        self.before = snapshot(), pod_snapshot(pod)
        return pod

    def assert_removed(self, plugin, conf, pod):
        verbs = ("DEL", "GC") if plugin != "dhcp" else ("DEL",)  # there is no daemon, whatever the config
        done = finish_all([start(plugin, verb, conf | (GC if verb == "GC" else {}), netns=pod.path) for verb in verbs])
        for verb, one in zip(verbs, done):
            self.assertEqual((one.status, one.stdout), (0, ""), f"{verb} {json.dumps(conf)}: {one}")

    def assert_nothing_changed(self, pod):
        self.assert_same(self.before[0], ignore=left_by_design)
        self.assert_same(self.before[1], pod_snapshot(pod))

    @suite.cases([(plugin, plugin) for plugin in PLUGINS if any(CONFIGS[plugin].full)])
    def a_wrong_value_is_refused_before_any_change_by(self, plugin):
        pod = self.prepare()
        key = next(iter(CONFIGS[plugin].full[0]))
        conf = least(plugin, prevResult=previous("1.1.0")) | {key: 1.5}
        for verb in ("ADD", "CHECK"):
            error = self.assert_error(cni(plugin, verb, conf, netns=pod.path, documented=False), 7)
            self.assertIn(f"{key}: expected", error["msg"])
        self.assert_same(self.before[0])
        self.assert_same(self.before[1], pod_snapshot(pod))

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def a_wrong_value_of_any_key_does_not_hold_up_DEL_and_GC_of(self, plugin):
        pod = self.prepare()
        tried = 0
        for conf in wrong_configs(plugin):
            self.assert_removed(plugin, conf, pod)
            tried += 1
        self.assertGreater(tried, 4)
        self.assert_nothing_changed(pod)

    @suite.cases(ATTACHED)
    def a_wrong_IPAM_does_not_hold_up_DEL_and_GC_of(self, plugin):
        pod = self.prepare()
        for ipam in IPAM:
            conf = least(plugin, ipam=ipam)
            self.assert_error(cni(plugin, "ADD", conf, netns=pod.path))
            self.assert_removed(plugin, conf, pod)
        self.assert_nothing_changed(pod)

    @suite.cases(ATTACHED)
    def an_IPAM_plugin_that_was_never_there_does_not_hold_up_DEL_of(self, plugin):
        """After ADD, of which the runtime has the result, a lease of it may exist."""
        pod = self.prepare()
        conf = least(plugin, ipam={"type": "host-locla"})
        error = self.assert_error(cni(plugin, "ADD", conf, netns=pod.path), 7,
                                  f'failed to find plugin "host-locla" in path [{OURS}]')
        where, there = error["details"].split("; there are ")
        self.assertEqual(where, 'ipam.type: "host-locla" (did you mean host-local?)')
        self.assertLessEqual({"bandwidth", "bridge"}, set(there.split(", ")))  # the first 30; tools of tests may be too
        self.assertIsNone(self.assert_ok(cni(plugin, "DEL", conf, netns="")))
        for later in (conf | {"prevResult": previous("1.1.0")}, conf | {"cniVersion": "0.3.1"}):
            self.assert_error(cni(plugin, "DEL", later, netns=""), 7, "host-locla")
        self.assert_nothing_changed(pod)


if __name__ == "__main__":
    suite.main()
