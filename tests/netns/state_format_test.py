#!/usr/bin/env python3
"""State files that another version wrote: those of releases are read by every verb; others are refused, named and kept."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, suite  # noqa: E402
from support.cnitool import cnitool  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import run  # noqa: E402

PLUGINS = [
    ("tuning", "/run/cni/tuning", {"mtu": 1400, "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}}),
    ("sbr", "/run/cni/sbr", {}),
    ("vrf", "/run/cni/vrf", {"vrfname": "red"}),
    ("portmap", "/run/cni/portmap", {"backend": "nftables", "runtimeConfig": {
        "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}}),
    ("host-device", "/run/cni/host-device", {}),
]

#: What the executables of a release wrote about these attachments, in a folder per release and plugin. 0.1.0 is commit a8abc1ff,
#: 0.2.0 commit 0b9d6dcc, which writes them as 93fbafca does.
RECORDED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support", "state_files")
RELEASES = ("0.1.0", "0.2.0")

#: What differs from run to run.
VOLATILE = {"address", "bootID", "expire", "gateway", "index", "link", "mac", "netns", "netnsCookie", "netnsInode", "otherIndex",
            "rebind", "renew", "serverMac"}


def state_files(folder):
    """The paths and JSON of the state files in a folder, without links and locks."""
    found = {}
    for entry in os.scandir(folder):
        if entry.is_file(follow_symlinks=False) and entry.name != "lock":
            with open(entry.path, encoding="utf-8") as file:
                found[entry.path] = json.load(file)
    return found


def write(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


def volatile(value, found):
    """Adds the volatile members of JSON to found, the outermost ones first."""
    if isinstance(value, dict):
        found |= {key: one for key, one in value.items() if key in VOLATILE and key not in found and not isinstance(one, dict)}
    if isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            volatile(one, found)
    return found


def renewed(value, now):
    """The JSON with the volatile members of now."""
    if isinstance(value, dict):
        return {key: now.get(key, one) if key in VOLATILE and not isinstance(one, dict) else renewed(one, now)
                for key, one in value.items()}
    return [renewed(one, now) for one in value] if isinstance(value, list) else value


def replace(folder, release, kind):
    """The attachment's state is as that release wrote it. Returns the paths of the files."""
    written = state_files(folder)
    now = volatile(list(written.values()), {})
    for path in written:
        os.unlink(path)
    for name in os.listdir(folder):
        if release == "0.1.0" and name.startswith("ip-"):  # portmap's, of later versions
            os.unlink(f"{folder}/{name}")
    paths = []
    for name in os.listdir(f"{RECORDED}/{release}/{kind}"):
        with open(f"{RECORDED}/{release}/{kind}/{name}", encoding="utf-8") as file:
            write(f"{folder}/{name}", renewed(json.load(file), now))
        paths.append(f"{folder}/{name}")
    return paths


def later(states):
    """The JSON of state files in a format that only later versions know, and the words that refuse it."""
    said = "a newer version of patchbay wrote it (format 2, this version reads 1): install that version again"
    if "patchbay" in states:  # the rest is the reference plugin's
        return states | {"patchbay": states["patchbay"] | {"format": 2}}, said
    return [one | {"format": 2} for one in states] if isinstance(states, list) else states | {"format": 2}, said


def unknown(states):
    """The same for members that this version does not know."""
    said = "this version of patchbay does not understand it ("
    return [{"who": "knows"}] if isinstance(states, list) else {"who": "knows", "patchbay": {"who": "knows"}}, said


def without_result(conf):
    """The config of DEL and GC from the config alone."""
    return {key: value for key, value in conf.items() if key not in ("prevResult", "runtimeConfig")}


def prepare(test, kind, given, number):
    """A pod, the config of its plugin, and the options of its calls."""
    pod, host = test.pod(), f"h{number}"
    conf = {"cniVersion": "1.1.0", "name": "net1", "type": kind} | json.loads(json.dumps(given))
    if kind == "host-device":
        conf["device"] = f"spare{number}"
    run("ip", "link", "add", host, "type", "veth", "peer", "name", conf.get("device", "net1"))
    if kind != "host-device":
        run("ip", "link", "set", "net1", "netns", pod.name)
        pod.run("ip", "-batch", "-", stdin=f"link set lo up\nlink set net1 up\naddr add 10.52.0.{number}/24 dev net1\n")
        link, = json.loads(pod.run("ip", "-j", "link", "show", "dev", "net1"))
        conf["prevResult"] = {
            "cniVersion": "1.1.0", "interfaces": [{"name": "net1", "mac": link["address"], "sandbox": pod.path}],
            "ips": [{"address": f"10.52.0.{number}/24", "gateway": "10.52.0.1", "interface": 0}]}
    if kind == "vrf":  # the kernel's rule l3mdev comes with the first VRF of a namespace, and stays
        pod.run("ip", "link", "add", "first", "type", "vrf", "table", "99", check=False)
        pod.run("ip", "link", "del", "first", check=False)
    if kind == "portmap":
        conf["runtimeConfig"]["portMappings"][0]["hostPort"] += number
    return pod, conf, {"netns": pod.path, "container": pod.name, "ifname": "net1"}


@suite.spread
class StateFormat(suite.NodeTest):
    def add(self, kind, conf, options):
        added = cni(kind, "ADD", conf, **options)
        if "CONFIG_NET_VRF" in added.stdout:
            self.skipTest("the kernel has no vrf")
        return self.assert_ok(added)

    def collect(self, kind, conf, *valid):
        """GC that lists the containers."""
        return cni(kind, "GC", without_result(conf) | {"cni.dev/valid-attachments": [
            {"containerID": container, "ifname": "net1"} for container in valid]}, netns=None, container=None, ifname=None)

    def check_refusal(self, row, changed):
        kind, folder, given = row
        pod, conf, options = prepare(self, kind, given, 1)
        result = self.add(kind, conf, options)
        (path, written), = state_files(folder).items()
        other, said = changed(written)
        write(path, other)
        before = [snapshot(), pod_snapshot(pod)]
        for verb in ("CHECK", "DEL"):
            error = self.assert_error(cni(kind, verb, conf | {"prevResult": result}, **options), 999, path)
            self.assertIn(said, error["msg"])
        self.collect(kind, conf, pod.name)
        if kind != "portmap":  # whose elements have their owner themselves
            self.collect(kind, conf)
        for was, now in zip(before, [snapshot(), pod_snapshot(pod)]):
            self.assert_same(was, now)
        self.assertEqual(state_files(folder), {path: other})
        _, next_conf, elsewhere = prepare(self, kind, given, 2)
        self.add(kind, next_conf, elsewhere)
        self.assert_ok(cni(kind, "DEL", next_conf, **elsewhere))
        write(path, written)
        self.assert_ok(cni(kind, "DEL", conf, **options))
        self.assertFalse(os.path.exists(path))

    @suite.cases([(row[0], row) for row in PLUGINS])
    def a_later_format_is_refused_by(self, row):
        self.check_refusal(row, later)

    @suite.cases([(row[0], row) for row in PLUGINS])
    def JSON_that_is_not_understood_is_refused_by(self, row):
        self.check_refusal(row, unknown)

    @suite.cases([(f"{release}, {row[0]}", (release, row)) for release in RELEASES for row in PLUGINS])
    def every_verb_reads_the_state_of(self, row):
        release, (kind, folder, given) = row
        pod, conf, options = prepare(self, kind, given, 1)
        before = [snapshot(), pod_snapshot(pod)]
        result = self.add(kind, conf, options)
        paths = replace(folder, release, kind)
        self.assert_ok(cni(kind, "CHECK", conf | {"prevResult": result}, **options))
        attached = [snapshot(), pod_snapshot(pod)]
        self.assert_ok(self.collect(kind, conf, pod.name))
        for was, now in zip(attached, [snapshot(), pod_snapshot(pod)]):
            self.assert_same(was, now)
        self.assert_ok(cni(kind, "DEL", without_result(conf), **options))
        for was, now in zip(before, [snapshot(), pod_snapshot(pod)]):
            self.assert_same(was, now, left_by_design)
        self.assertEqual([path for path in paths if os.path.exists(path)], [])

    @suite.cases([(f"{release}, {row[0]}", (release, row)) for release in RELEASES for row in PLUGINS if row[0] != "host-device"])
    def GC_undoes_by_the_state_of(self, row):
        release, (kind, folder, given) = row
        pod, conf, options = prepare(self, kind, given, 1)
        before = [snapshot(), pod_snapshot(pod)]
        self.add(kind, conf, options)
        paths = replace(folder, release, kind)
        self.assert_ok(self.collect(kind, conf))
        for was, now in zip(before, [snapshot(), pod_snapshot(pod)]):
            self.assert_same(was, now, left_by_design)
        self.assertEqual([path for path in paths if os.path.exists(path)], [])


@suite.spread
class Leases(suite.NodeTest):
    def setUp(self):
        super().setUp()
        dhcp.segment()
        server = dhcp.dnsmasq()
        self.addCleanup(server.stop)
        self.daemon = dhcp.Daemon()
        self.addCleanup(self.daemon.process.wait)
        self.addCleanup(lambda: self.daemon.process.kill())
        self.one = self.pod()
        self.result = self.assert_ok(dhcp.attach("ADD", self.one, dhcp.config()))

    @suite.cases([(release, release) for release in RELEASES])
    def the_daemon_goes_on_with_a_lease_of(self, release):
        held = self.daemon.leases()
        self.daemon.kill()
        replace("/run/cni/dhcp", release, "dhcp")
        self.assertIn(f"1 DHCP lease of server {held[self.one.name]['server']}", cnitool("doctor").stdout)
        self.daemon.start()
        for key in ("address", "server", "netns"):
            self.assertEqual(self.daemon.leases()[self.one.name][key], held[self.one.name][key])
        checked = dhcp.attach("CHECK", self.one, dhcp.config() | {"prevResult": self.result})
        self.assert_ok(checked)
        self.assert_ok(dhcp.attach("DEL", self.one, dhcp.config()))
        self.assertTrue(dhcp.released())
        self.assertEqual(state_files("/run/cni/dhcp"), {})

    @suite.cases([("of a later format", later), ("not understood", unknown)])
    def the_daemon_keeps_and_names_a_lease_that_is(self, changed):
        self.daemon.kill()
        (path, written), = state_files("/run/cni/dhcp").items()
        other, said = changed(written)
        write(path, other)
        self.daemon.start()
        self.assertEqual(self.daemon.leases(), {})
        self.assertIn(f"read '{path}': {said}", self.daemon.log)
        for verb in ("CHECK", "DEL"):
            call = cni("dhcp", verb, dhcp.config() | {"prevResult": self.result}, netns=self.one.path, container=self.one.name)
            error = self.assert_error(call, None, path)
            self.assertIn(said, error["msg"] + error.get("details", ""))
        self.assertEqual(state_files("/run/cni/dhcp"), {path: other})
        self.daemon.kill()
        write(path, written)
        self.daemon.start()
        self.assert_ok(dhcp.attach("DEL", self.one, dhcp.config()))
        self.assertTrue(dhcp.released())


if __name__ == "__main__":
    suite.main()
