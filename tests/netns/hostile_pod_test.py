#!/usr/bin/env python3
"""Root in a pod chooses names, indexes and MAC addresses of its links: no verb of any plugin takes
another pod's host veth, or the node's uplink, for the pod's own."""

import glob
import json
import os
import random
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, suite  # noqa: E402
from support.bandwidth import bucket  # noqa: E402
from support.cnitool import cnitool, finish, start, use  # noqa: E402
from support.configs import lack  # noqa: E402
from support.plugin import OURS, REFERENCE, cni, has_reference  # noqa: E402
from support.world import Pod, run, wait_for  # noqa: E402

ROUNDS = int(os.environ.get("PATCHBAY_HOSTILE_ROUNDS", "20"))
ROUNDS_OF_KINDS = int(os.environ.get("PATCHBAY_HOSTILE_ROUNDS", "8"))
PODS, HOSTILE = 20, 5
KINDS, DEVICES = 15, 4

IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]]}
BRIDGE = {"type": "bridge", "bridge": "cni0", "isDefaultGateway": True, "ipMasq": True,
          "ipMasqBackend": "nftables", "ipam": IPAM}
PTP = {"type": "ptp", "ipMasq": True, "ipMasqBackend": "nftables",
       "ipam": IPAM | {"routes": [{"dst": "0.0.0.0/0"}]}}
#: Plugins whose host veth is on the node.
PLAIN = [("plain", BRIDGE), ("with macspoofchk", BRIDGE | {"macspoofchk": True}), ("ptp", PTP)]
LIMITS = {"type": "bandwidth", "ingressRate": 80_000_000, "ingressBurst": 800_000,
          "egressRate": 40_000_000, "egressBurst": 400_000}
UPLINKS = ("tap", "veth")
MODES = ("ifb", "pod", "edt")


def require(test, mode):
    """Skips the test where the kernel lacks what a mode of bandwidth needs."""
    if mode != "edt":
        return
    pod = test.pod("probe")
    try:
        pod.run("tc", "qdisc", "add", "dev", "lo", "root", "fq")
    except RuntimeError:
        test.skipTest("this kernel has no fq, which egressMode edt needs")
    pod.remove()


def plugin(conf, version="1.0.0", **more):
    """The config of one plugin, as a runtime hands it over."""
    return {"cniVersion": version, "name": "net"} | conf | more


def chain(*plugins, version="1.0.0"):
    return {"cniVersion": version, "name": "net", "plugins": [*plugins]}


def links(pod=None):
    """{name: link} of the node, or of a pod."""
    text = run("ip", *(("-n", pod.name) if pod else ()), "-j", "-d", "link")
    return {one["ifname"]: one for one in json.loads(text)}


def host_veth(result):
    return next(one["name"] for one in result["interfaces"] if one["name"].startswith("veth"))


def spend_indexes(number):
    """The next link of this namespace gets an index that no pod has."""
    for _ in range(number):
        run("ip", "link", "add", "spare", "type", "bridge")
        run("ip", "link", "del", "spare")


def make_uplink(kind):
    """The node's uplink up0. Returns its index, and that of its other end where it has one."""
    spend_indexes(7)
    other = 77
    if kind == "tap":
        run("ip", "tuntap", "add", "up0", "mode", "tap")
    else:
        outside = Pod("outside")
        run("ip", "link", "add", "up0", "type", "veth", "peer", "eth0", "netns", outside.name)
        other = links(outside)["eth0"]["ifindex"]
    run("ip", "addr", "add", "192.0.2.1/24", "dev", "up0")
    run("ip", "link", "set", "up0", "up")
    return links()["up0"]["ifindex"], other


def pretend(pod, ifname, here, there):
    """The pod's interface becomes a veth with index `there` whose other end, in the pod too, has
    index `here`: what the pair of a host veth `here` looks like from the pod. The true interface
    goes to another namespace of the pod's. False where the pod has a link with such an index."""
    own = links(pod)[ifname]
    taken = {one["ifindex"] for one in links(pod).values()} - {own["ifindex"]}
    if here == there or {here, there} & taken:
        return False
    hidden = f"{pod.name}-hidden"
    if hidden not in run("ip", "netns"):
        run("ip", "netns", "add", hidden)
    addresses = run("ip", "-n", pod.name, "-4", "-o", "addr", "show", ifname).split()
    run("ip", "-n", pod.name, "link", "set", ifname, "netns", hidden, "name",
        f"was{own['ifindex']}")
    run("ip", "-n", pod.name, "link", "add", "name", ifname, "index", str(there), "address",
        own["address"], "type", "veth", "peer", "name", "x", "index", str(here))
    run("ip", "-n", pod.name, "link", "set", ifname, "up")
    run("ip", "-n", pod.name, "link", "set", "x", "up")
    if "inet" in addresses:
        run("ip", "-n", pod.name, "addr", "add", addresses[addresses.index("inet") + 1], "dev",
            ifname)
    return True


def impostor(pod, ifname="eth0"):
    """The pod keeps its interface under another name and makes a veth called ifname."""
    run("ip", "-n", pod.name, "link", "set", ifname, "down")
    run("ip", "-n", pod.name, "link", "set", ifname, "name", "kept")
    run("ip", "-n", pod.name, "link", "set", "kept", "up")
    run("ip", "-n", pod.name, "link", "add", ifname, "type", "veth", "peer", "name", "x")


class HostileTest(suite.NodeTest):
    def attach(self, pod, network="net"):
        return self.assert_ok(cnitool("add", network, pod.path, "--container-id", pod.name))

    def attach_by(self, pod, conf, directory=OURS, **more):
        return self.assert_ok(cni(conf["type"], "ADD", conf, netns=pod.path, container=pod.name,
                                  directory=directory, **more))

    def delete(self, pod, conf, container=None, directory=OURS, **more):
        return cni(conf["type"], "DEL", conf, netns=pod.path, container=container or pod.name,
                   directory=directory, **more)

    def assert_reaches(self, pod, address="10.1.2.1"):
        self.assertIn(" 0% packet loss", pod.run("ping", "-c1", "-W2", address, check=False),
                      f"{pod.name} does not reach {address}")


@suite.spread
class Repair(HostileTest):
    def prepare(self, conf):
        use(chain(conf))
        victim, attacker = self.pod("victim"), self.pod("attacker")
        spend_indexes(7)
        ends = {}
        for pod in (attacker, victim):
            result = self.attach(pod)
            ends[pod.name] = host_veth(result)
        return victim, attacker, ends

    def seen(self, name):
        link = links()[name]
        return {key: link.get(key) for key in ("ifindex", "master", "ifalias", "flags", "operstate")}

    @suite.cases([(f"another pods port, {how}", conf) for how, conf in PLAIN])
    def does_not_give_away(self, conf):
        victim, attacker, ends = self.prepare(conf)
        own = links(victim)["eth0"]["ifindex"]
        port = links()[ends["victim"]]["ifindex"]
        before = self.seen(ends["victim"])
        self.assertTrue(pretend(attacker, "eth0", port, own))
        rules = run("nft", "list", "ruleset")
        done = cnitool("repair", "--json")
        outcomes = {one["containerID"]: one["outcome"] for one in done.json["attachments"]}
        self.assertEqual(outcomes, {"victim": "ok", "attacker": "failed"}, str(done))
        self.assertEqual(self.seen(ends["victim"]), before)
        self.assertEqual(run("nft", "list", "ruleset"), rules)
        self.assert_reaches(victim)
        run("ip", "netns", "del", "attacker-hidden")  # a gc after the attacker has ended
        attacker.remove()
        self.assert_ok(cnitool("--json", "gc", "net", "--keep-alive"))
        self.assertEqual(self.seen(ends["victim"]), before)
        self.assert_reaches(victim)

    @suite.cases([(f"an uplink that is a {kind}{how}", (kind, conf)) for kind in UPLINKS
                  for how, conf in (("", BRIDGE), (", ptp", PTP))])
    def does_not_make_a_port_of(self, row):
        kind, conf = row
        uplink = make_uplink(kind)
        _, attacker, _ = self.prepare(conf)
        before = self.seen("up0"), run("ip", "addr", "show", "up0"), run("ip", "route")
        self.assertIsNone(before[0]["master"])
        self.assertTrue(pretend(attacker, "eth0", *uplink))
        done = cnitool("repair", "--json")
        after = self.seen("up0"), run("ip", "addr", "show", "up0"), run("ip", "route")
        self.assertEqual(after, before, str(done))
        failed = [one for one in done.json["attachments"] if one["containerID"] == "attacker"]
        self.assertEqual(failed[0]["outcome"], "failed", str(done))

    @suite.cases([(how, conf) for how, conf in PLAIN])
    def does_not_give_the_host_veth_of_a_renamed_interface_to_another_name(self, conf):
        _, attacker, _ = self.prepare(conf)
        impostor(attacker)
        done = cnitool("repair", "--json")
        outcomes = {one["containerID"]: one["outcome"] for one in done.json["attachments"]}
        self.assertEqual(outcomes, {"victim": "ok", "attacker": "failed"}, str(done))


@suite.spread
class Delete(HostileTest):
    def leases(self):
        folder = "/var/lib/cni/networks/net"
        return sorted(name for name in os.listdir(folder) if name[0].isdigit())

    @suite.cases([(f"the port of a pod with an impostor, {how}", conf) for how, conf in PLAIN])
    def removes(self, conf):
        conf = plugin(conf)
        pod = self.pod()
        result = self.attach_by(pod, conf)
        self.assertEqual(self.leases(), ["10.1.2.2"])
        impostor(pod)
        self.assert_ok(self.delete(pod, conf | {"prevResult": result}))
        self.assertNotIn(host_veth(result), links())
        self.assertNotIn("kept", links(pod))
        self.assertEqual(self.leases(), [])

    @suite.cases([(f"the port of a pod that hid its interface, {how}", conf) for how, conf in PLAIN])
    def removes_too(self, conf):
        conf = plugin(conf)
        pod = self.pod()
        result = self.attach_by(pod, conf)
        self.assertTrue(pretend(pod, "eth0", 901, 902))
        self.assert_ok(self.delete(pod, conf))
        self.assertNotIn(host_veth(result), links())
        self.assertEqual(self.leases(), [])

    @suite.cases([(one["type"], one | {"ipMasq": False}) for one in (BRIDGE, PTP)])
    def removes_what_the_reference_attached_with_its_impostor_beside_it(self, conf):
        if not has_reference():
            self.skipTest("the Go plugins are not installed")
        conf = plugin(conf)
        pod = self.pod()
        result = self.attach_by(pod, conf, REFERENCE)
        impostor(pod)
        self.assert_ok(self.delete(pod, conf | {"prevResult": result}))
        self.assertNotIn(host_veth(result), links())
        self.assertEqual(self.leases(), [])

    @suite.cases([(f"{mode}, {which}{how}", (mode, more, conf)) for mode in ("DEL", "GC")
                  for which, more in (("with prevResult", True), ("without", False))
                  for how, conf in (("", BRIDGE), (", ptp", PTP))])
    def a_late_call_leaves_the_pod_that_has_the_path_now(self, row):
        verb, with_result, conf = row
        conf = plugin(conf, version="1.1.0" if verb == "GC" else "1.0.0")
        old = self.pod("same")
        before = self.attach_by(old, conf, path=OURS)
        old.remove()
        new = Pod("same")
        call = {"netns": new.path, "container": "new"}
        result = self.assert_ok(cni(conf["type"], "ADD", conf, **call))
        late = conf | ({"prevResult": before} if with_result else {})
        if verb == "GC":
            late |= {"cni.dev/valid-attachments": [{"containerID": "new", "ifname": "eth0"}]}
        self.assert_ok(cni(conf["type"], verb, late, netns=new.path, container="same"))
        self.assertIn(host_veth(result), links())
        self.assert_reaches(new)
        self.assert_ok(cni(conf["type"], "CHECK", conf | {"prevResult": result}, **call))
        self.assertEqual(self.leases(), [result["ips"][0]["address"].split("/")[0]])

    def test_a_late_DEL_leaves_what_the_reference_attached_at_the_path(self):
        if not has_reference():
            self.skipTest("the Go plugins are not installed")
        conf = plugin(BRIDGE | {"ipMasq": False})
        for first in (OURS, REFERENCE):
            old = self.pod("same")
            before = self.attach_by(old, conf, first)
            old.remove()
            new = Pod("same")
            result = self.assert_ok(cni("bridge", "ADD", conf, netns=new.path, container="new",
                                        directory=REFERENCE))
            self.assert_ok(self.delete(new, conf | {"prevResult": before}, "same"))
            self.assertIn(host_veth(result), links(), first)
            self.assert_ok(self.delete(new, conf, "new"))
            self.assertNotIn(host_veth(result), links(), first)
            new.remove()


@suite.spread
class Limits(HostileTest):
    def prepare(self, mode, version="0.3.1"):
        """A victim with limits, and an attacker."""
        require(self, mode)
        spend_indexes(7)
        limits = plugin(LIMITS, version, egressMode=mode)
        conf = plugin(BRIDGE | {"ipMasq": False}, version)
        pods = {}
        for name in ("attacker", "victim"):
            pod = self.pod(name)
            result = self.attach_by(pod, conf)
            self.attach_by(pod, limits | {"prevResult": result})
            pods[name] = (pod, result)
        victim, result = pods["victim"]
        self.port = result["interfaces"][1]["name"]
        return limits, pods["attacker"][0], victim

    def limits_of(self, pod):
        text = run("tc", "-d", "qdisc", "show", "dev", self.port)
        text += run("tc", "filter", "show", "dev", self.port, "parent", "ffff:")
        return text + pod.run("tc", "-d", "qdisc", "show", "dev", "eth0")

    @suite.cases([(mode, mode) for mode in MODES])
    def DEL_without_prevResult_leaves_anothers_limits(self, mode):
        limits, attacker, victim = self.prepare(mode)
        before = self.limits_of(victim)
        self.assertIsNotNone(bucket(self.port))
        index = links()[self.port]["ifindex"]
        self.assertTrue(pretend(attacker, "eth0", index, links(victim)["eth0"]["ifindex"]))
        self.assert_ok(self.delete(attacker, limits))
        self.assertEqual(self.limits_of(victim), before)

    @suite.cases([(mode, mode) for mode in MODES])
    def other_verbs_refuse_anothers_interface(self, mode):
        limits, attacker, victim = self.prepare(mode, "1.0.0")
        before = self.limits_of(victim)
        index = links()[self.port]["ifindex"]
        self.assertTrue(pretend(attacker, "eth0", index, links(victim)["eth0"]["ifindex"]))
        result = {"cniVersion": "1.0.0", "interfaces": [
            {"name": self.port}, {"name": "eth0", "sandbox": attacker.path}], "ips": []}
        for verb in ("ADD", "CHECK", "REPAIR"):
            self.assert_error(cni("bandwidth", verb, limits | {"prevResult": result},
                                  netns=attacker.path, container="attacker"), msg="not in host ns")
            self.assertEqual(self.limits_of(victim), before, verb)

    @suite.cases([(mode, mode) for mode in MODES])
    def a_late_DEL_leaves_the_limits_of_the_pod_that_has_the_path_now(self, mode):
        limits, _, victim = self.prepare(mode)
        before = self.limits_of(victim)
        self.assert_ok(self.delete(victim, limits, "gone-before"))
        self.assertEqual(self.limits_of(victim), before)

    @suite.cases([(mode, mode) for mode in MODES])
    def DEL_finds_the_limits_of_a_pod_with_an_impostor(self, mode):
        limits, _, victim = self.prepare(mode)
        impostor(victim)
        self.assert_ok(self.delete(victim, limits))
        self.assertIsNone(bucket(self.port))
        self.assertEqual(run("tc", "filter", "show", "dev", self.port, "parent", "ffff:"), "")
        kept = victim.run("tc", "qdisc", "show", "dev", "kept")
        self.assertNotRegex(kept, "tbf|fq ")


class Crowd(HostileTest):
    """Many pods, some of them hostile in all of these ways, and the verbs beside them at random."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(int(os.environ.get("PATCHBAY_SEED", "17")))
        run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        self.uplink = make_uplink(self.random.choice(UPLINKS))
        use(chain(BRIDGE | {"macspoofchk": True},
                  {"type": "portmap", "capabilities": {"portMappings": True},
                   "backend": "nftables"}, LIMITS | {"egressMode": "ifb"}))
        self.alive, self.number = {}, 0

    def start(self, hostile, path=None):
        """A container, in a namespace of its own; path: one that was another's before."""
        self.number += 1
        name = f"{'evil' if hostile else 'good'}{self.number}"
        pod = Pod(path or name)
        ports = [{"hostPort": 20000 + self.number, "containerPort": 80, "protocol": "tcp"}]
        result = self.assert_ok(cnitool("add", "net", pod.path, "--container-id", name,
                                        CAP_ARGS={"portMappings": ports}))
        one = {"name": name, "pod": pod, "hostile": hostile, "attacked": False,
               "hostPort": 20000 + self.number, "port": result["interfaces"][1]["name"],
               "address": result["ips"][0]["address"].split("/")[0]}
        one["state"] = self.state(one, self.rules(), links())
        self.assertEqual(one["state"]["hostPorts"], 1)
        self.alive[name] = one

    @staticmethod
    def rules():
        return [line.strip() for line in run("nft", "list", "ruleset").splitlines()]

    @staticmethod
    def state(one, rules, seen):
        """All that a living pod must keep on the node."""
        port = seen.get(one["port"], {})
        with open(f"/var/lib/cni/networks/net/{one['address']}", encoding="ascii") as file:
            lease = file.read()
        filters = run("tc", "filter", "show", "dev", one["port"], "parent", "ffff:", check=False)
        return {"port": {key: port.get(key) for key in ("ifindex", "master", "ifalias")}
                | {"up": "UP" in port.get("flags", [])},
                "lease": lease, "redirections": filters.count("Redirect to device bwp"),
                "limits": run("tc", "-d", "qdisc", "show", "dev", one["port"], check=False),
                "rules": sorted(line for line in rules if line.endswith(f'id: {one["name"]}"')
                                or f'macspoofchk-{one["name"]}-' in line),
                "hostPorts": sum(f". {one['hostPort']} " in line
                                 and f" : {one['address']} . 80" in line for line in rules)}

    def attack(self, one):
        """The pod hides its interface, and pretends to be where a victim or the uplink is."""
        pod = one["pod"]
        if one["attacked"]:
            run("ip", "-n", pod.name, "link", "del", "x", check=False)
        victim = self.random.choice([each for each in self.alive.values() if not each["hostile"]])
        here, there = self.uplink if self.random.random() < 0.3 else (
            links()[victim["port"]]["ifindex"], links(victim["pod"])["eth0"]["ifindex"])
        if one["attacked"]:
            run("ip", "-n", pod.name, "link", "add", "name", "eth0", "index", str(there), "type",
                "veth", "peer", "name", "x", "index", str(here), check=False)
        elif self.random.random() < 0.5:
            impostor(pod)
        else:
            pretend(pod, "eth0", here, there)
        one["attacked"] = True

    def stop(self, one):
        """DEL; or late, when a new container has the path of the namespace already."""
        pod = one["pod"]
        del self.alive[one["name"]]
        late = self.random.random() < 0.3
        if late:
            run("ip", "netns", "del", f"{pod.name}-hidden", check=False)
            pod.remove()
            self.start(one["hostile"], pod.name)
        done = cnitool("del", "net", pod.path, "--container-id", one["name"])
        self.assertEqual(done.status, 0, str(done))
        self.assertNotIn(one["port"], links(), "DEL left the host veth")
        if not late:
            pod.remove()
            run("ip", "netns", "del", f"{pod.name}-hidden", check=False)
            self.start(one["hostile"])

    def assert_unharmed(self, when):
        rules, seen = self.rules(), links()
        for one in self.alive.values():
            self.assertEqual(self.state(one, rules, seen), one["state"],
                             f"{when}: {one['name']}")
        self.assertNotIn("master", seen["up0"])
        self.assertNotIn("ifalias", seen["up0"])

    def test_no_living_pod_loses_anything(self):
        for number in range(PODS):
            self.start(number % (PODS // HOSTILE) == 0)
        for number in range(ROUNDS):
            everyone = list(self.alive.values())
            self.attack(self.random.choice([one for one in everyone if one["hostile"]]))
            what = self.random.choice(("repair", "gc", "del"))
            if what == "repair":
                cnitool("repair")  # which says what it cannot do for those that attacked
            elif what == "gc":
                keep = [arg for one in everyone for arg in ("--keep", one["name"])]
                self.assert_ok(cnitool("--json", "gc", "net", "--yes", *keep))
            else:
                self.stop(self.random.choice(everyone))
            self.assert_unharmed(f"round {number}: {what}")
            good = self.random.choice([one for one in self.alive.values() if not one["hostile"]])
            self.assert_reaches(good["pod"])
        for one in list(self.alive.values()):
            self.assert_ok(cnitool("del", "net", one["pod"].path, "--container-id", one["name"]))
        self.assertEqual([name for name in links() if name.startswith(("veth", "bwp"))], [])


#: What root in a pod does to its second interface, one command of ip(8) each.
DEEDS = [["link set net1 down", "link set net1 name other"], ["link set net1 alias dev0"],
         ["link set net1 address 02:00:5e:99:99:99"], ["link set net1 mtu 1300"],
         ["address flush dev net1"], ["route flush table all dev net1"],
         ["link set net1 promisc on"], ["link property add dev net1 altname cni0"],
         ["link add link net1 stacked type macvlan"], ["link set net1 down"],
         ["link set net1 name other", "link add net1 type veth peer name dev1"],
         ["rule flush"]]


def kinds():
    """The networks that this kernel knows, beside those of host-device: name to the list of plugins."""
    pool = {"type": "host-local", "subnet": "10.1.3.0/24", "routes": [{"dst": "0.0.0.0/0"}]}
    port = {"type": "bridge", "bridge": "cni1", "isGateway": True, "ipam": pool}
    wire = {"type": "macvlan", "master": "up0", "ipam": pool | {"subnet": "10.1.4.0/24"}}
    lease = {"type": "bridge", "bridge": dhcp.BRIDGE, "ipam": {"type": "dhcp"}}
    out = {"sbr": [port, {"type": "sbr"}], "macvlan": [wire, {"type": "sbr"}]}
    if not lack("dhcp"):
        out["dhcp"] = [lease, {"type": "firewall", "backend": "nftables"}]
    if not lack("vrf"):
        out["vrf"] = [port | {"bridge": "cni5", "ipam": pool | {"subnet": "10.1.5.0/24"}},
                      {"type": "vrf", "vrfname": "blue"}]
    return out


class Kinds(HostileTest):
    """Pods with two networks: all kinds of plugins, and calls that come twice, late and in parallel."""

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("PATCHBAY_SEED", "17"))
        print(f"     PATCHBAY_SEED={self.seed}", flush=True)
        self.random = random.Random(self.seed)
        self.uplink = make_uplink("veth")
        outside = Pod.existing("outside")
        outside.run("ip", "link", "set", "eth0", "up")
        self.networks = kinds()
        if "dhcp" in self.networks:
            dhcp.segment()
            self.server, self.daemon = dhcp.dnsmasq(), dhcp.Daemon()
            for one in (self.server, self.daemon):
                self.addCleanup(one.stop)
        for number in range(DEVICES):
            run("ip", "link", "add", f"dev{number}", "type", "veth", "peer", "name", f"far{number}", "netns", "outside")
            run("ip", "link", "set", f"dev{number}", "mtu", "1400", "alias", f"the operator's {number}", "up")
            outside.run("ip", "link", "set", f"far{number}", "up")
            self.networks[f"dev{number}"] = [
                {"type": "host-device", "device": f"dev{number}", "ipam": {"type": "static", "addresses": [
                    {"address": f"10.1.6.{number + 1}/24"}]}}]
        self.devices = {f"dev{number}": self.device(f"dev{number}") for number in range(DEVICES)}
        first = [BRIDGE | {"macspoofchk": True}, {"type": "firewall", "backend": "nftables"},
                 {"type": "portmap", "capabilities": {"portMappings": True}, "backend": "nftables"},
                 LIMITS | {"egressMode": "ifb"}]
        for name, plugins in {"net": first, **self.networks}.items():
            use({"cniVersion": "1.1.0", "name": name, "plugins": plugins}, f"{name}.conflist")
        self.alive, self.dead, self.number = {}, [], 0

    @staticmethod
    def device(name):
        """What a device is on the node."""
        link = links()[name]
        return {key: value for key, value in link.items() if key not in ("ifindex", "operstate")} | {
            "flags": sorted(set(link["flags"]) - {"LOWER_UP", "NO-CARRIER"})}

    def call(self, verb, one, network, begin=cnitool):
        """One verb for one attachment of a container, or of one that had its namespace's path before."""
        env = {"CAP_ARGS": {"portMappings": one["ports"]}} if network == "net" and verb == "add" else {}
        return begin(verb, network, one["pod"].path, "--container-id", one["name"], "--ifname",
                     "eth0" if network == "net" else "net1", **env)

    def start(self, hostile, path=None):
        self.number += 1
        name = f"{'evil' if hostile else 'good'}{self.number}x"
        taken = {one["second"] for one in self.alive.values()}
        second = self.random.choice([each for each in self.networks if each not in taken or each[:3] != "dev"])
        one = {"name": name, "pod": Pod(path or name), "hostile": hostile, "second": second, "attacked": False,
               "ports": [{"hostPort": 20000 + self.number, "containerPort": 80, "protocol": "tcp"}]}
        for network in ("net", second):
            self.assert_ok(self.call("add", one, network))
        wait_for(lambda: "tentative" not in one["pod"].run("ip", "addr"))
        one["state"] = self.state(one)
        self.alive[name] = one

    def state(self, one):
        """What a living pod must keep on the node; and what the kernel has in it, unless it is hostile."""
        name, pod, rules = one["name"], one["pod"], run("nft", "list", "ruleset")
        out = {"links": {link["ifalias"]: (link["ifindex"], link.get("master"), "UP" in link["flags"])
                         for link in links().values() if link.get("ifalias", "").endswith(f"id: {name}")},
               "rules": sorted(line.strip() for line in rules.splitlines() if f"-{name}-" in line),
               "elements": sorted(found.group().strip() for found in re.finditer(
                   rf'[^",{{}}=]* comment "[^"]*id: {name}"( : [^,}}\n]*)?', rules)), "files": {}}
        for folder in ("/var/lib/cni/networks", "/run/cni/host-device", "/run/cni/sbr", "/run/cni/vrf"):
            for path in glob.glob(f"{folder}/**", recursive=True):
                if os.path.isfile(path):
                    with open(path, encoding="utf-8", errors="replace") as text:
                        if name in (content := text.read()):
                            out["files"][path] = content
        if one["second"] == "dhcp":
            out["lease"] = self.daemon.leases().get(name, {}).get("address")
        if not one["hostile"]:
            out |= {what: re.sub(r"dynamic |\S+_lft \S+", "", pod.run("ip", *what.split()))
                    for what in ("-4 -o addr", "-4 rule", "-4 route show table all", "-6 rule")}
            out["link"] = {key: (link["ifindex"], link["address"], link.get("ifalias"), "UP" in link["flags"])
                           for key, link in links(pod).items()}
        return out

    def attack(self, one):
        """The pod does something to its second interface, and later pretends by its first to be where a victim is."""
        pod, deed = one["pod"], self.random.choice(DEEDS)
        for command in deed:
            run("ip", "-n", pod.name, *command.split(), check=False)
        victim = self.random.choice([each for each in self.alive.values() if not each["hostile"]])
        if not one["attacked"] and self.random.random() < 0.5:
            here = next(link["ifindex"] for link in links().values()
                        if link.get("ifalias", "").endswith(f"if: eth0, id: {victim['name']}"))
            pretend(pod, "eth0", here, links(victim["pod"])["eth0"]["ifindex"])
            one["attacked"] = True

    def stop(self, one):
        """DEL of both, once or twice; or late, when a new container has the path of the namespace already."""
        pod = one["pod"]
        del self.alive[one["name"]]
        self.dead = [*self.dead[-20:], one]
        late = self.random.random() < 0.3 and one["second"][:3] != "dev"
        if late:
            run("ip", "netns", "del", f"{pod.name}-hidden", check=False)
            pod.remove()
            self.start(one["hostile"], pod.name)
        for network in (one["second"], "net") * self.random.choice((1, 2)):
            self.assert_ok(self.call("del", one, network))
        left = [link for link in links().values() if link.get("ifalias", "").endswith(f"id: {one['name']}")]
        self.assertEqual(left, [], f"DEL of {one['name']} left links")
        if one["second"] in self.devices:
            self.assertEqual(self.device(one["second"]), self.devices[one["second"]], one["name"])
        if not late:
            pod.remove()
            run("ip", "netns", "del", f"{pod.name}-hidden", check=False)
            self.start(one["hostile"])

    def collect(self, network, begin=cnitool):
        ifname = "eth0" if network == "net" else "net1"
        keep = [{"containerID": name, "ifname": ifname} for name in self.alive]
        return begin("gc", network, "--yes", "--keep-json", json.dumps(keep))

    def at_once(self):
        """Second ADDs of living pods, DELs of dead ones, GC and repair, all of them in parallel."""
        living = self.random.sample(list(self.alive.values()), 4)
        dead = self.random.sample(self.dead, min(4, len(self.dead)))
        running = [self.call("add", one, self.random.choice(("net", one["second"])), start) for one in living]
        running += [self.call("del", one, network, start) for one in dead for network in (one["second"], "net")]
        running += [self.collect(self.random.choice(["net", *self.networks]), start), start("repair")]
        return [one["name"] for one in living], [str(finish(process)) for process in running]

    def play(self, what):
        one = self.random.choice(list(self.alive.values()))
        if what == "repair":
            cnitool("repair")  # which says what it cannot do for those that attacked
        elif what == "gc":
            self.assert_ok(self.collect(self.random.choice(["net", *self.networks])))
        elif what == "add":
            return one["name"], str(self.call("add", one, self.random.choice(("net", one["second"]))))
        elif what == "late del" and self.dead:
            gone = self.random.choice(self.dead)
            with_path = gone | {"pod": one["pod"]}  # which a living one has by now
            self.assert_ok(self.call("del", with_path, self.random.choice(("net", gone["second"]))))
        elif what == "at once":
            return self.at_once()
        else:
            self.stop(one)
        return one["name"]

    def test_no_living_pod_loses_anything_and_every_device_comes_home(self):
        for number in range(KINDS):
            self.start(number % 3 == 0)
        for number in range(ROUNDS_OF_KINDS):
            self.attack(self.random.choice([one for one in self.alive.values() if one["hostile"]]))
            for one in self.alive.values():  # what an attacker does to itself is not asked of it
                one["state"] = one["state"] if not one["hostile"] else self.state(one)
            what = self.random.choice(("repair", "gc", "add", "late del", "at once", "del", "del"))
            done = self.play(what)
            for one in self.alive.values():
                if one["hostile"] and what in ("add", "at once"):
                    continue  # a second ADD may replace what it renamed itself
                self.assertEqual(self.state(one), one["state"],
                                 f"PATCHBAY_SEED={self.seed}, round {number}, {what}: {one['name']}; {done}")
        for one in list(self.alive.values()):
            for network in (one["second"], "net"):
                self.assert_ok(self.call("del", one, network))
        self.assertEqual({name: self.device(name) for name in self.devices}, self.devices)
        self.assertNotRegex(run("nft", "list", "ruleset"), r"id: (good|evil)")
        self.assertEqual([each["ifname"] for each in links().values() if "id: " in each.get("ifalias", "")], [])


if __name__ == "__main__":
    suite.main(per_processor=2)
