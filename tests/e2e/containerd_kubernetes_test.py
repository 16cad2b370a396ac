#!/usr/bin/env python3
"""containerd with the networks of Kubernetes distributions as they write them: their lists, the template of containerd
for the ranges that a kubelet names, a node after a reboot, and what cnitool says of such a node."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import UNSEEN, cnitool  # noqa: E402
from support.containerd import NEEDED, PAGE, PodsTest, global_addresses, rates  # noqa: E402
from support.doctor import shell  # noqa: E402
from support.hostport import NODE, OUTSIDE, mapping  # noqa: E402
from support.plugin import PLUGINS  # noqa: E402
from support.reboot import boot  # noqa: E402
from support.snapshot import snapshot  # noqa: E402
from support.world import Pod, fetch, run, wait_for  # noqa: E402

PODS = int(os.environ.get("PATCHBAY_PODS", "4"))
FOLDER = "/etc/cni/net.d"
LIMITS = {"kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "5M"}
PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
BANDWIDTH = {"type": "bandwidth", "capabilities": {"bandwidth": True}}
DEFAULT = [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]
KIND = {"cniVersion": "0.3.1", "name": "kindnet", "plugins": [
    {"type": "ptp", "ipMasq": False, "mtu": 1400,
     "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state", "routes": DEFAULT,
              "ranges": [[{"subnet": "10.244.1.0/24"}], [{"subnet": "fd00:10:244:1::/64"}]]}}, PORTMAP]}
FLANNEL = {"name": "cbr0", "cniVersion": "0.3.1", "plugins": [
    {"type": "flannel", "delegate": {"hairpinMode": True, "isDefaultGateway": True}}, PORTMAP]}
K3S = {"name": "cbr0", "cniVersion": "1.0.0", "plugins": [
    {"type": "flannel", "delegate": {"hairpinMode": True, "forceAddress": True, "isDefaultGateway": True}},
    PORTMAP, BANDWIDTH]}
#: name: (list, whether it limits rates, the bridge)
LISTS = {"kind": (KIND, False, None), "flannel": (FLANNEL, False, "cni0"), "k3s": (K3S, True, "cni0")}
TEMPLATE = """\
{"cniVersion": "1.0.0", "name": "kubenet", "plugins": [
  {"type": "bridge", "bridge": "cbr0", "mtu": 1460, "isGateway": true, "isDefaultGateway": true, "forceAddress": true,
   "ipMasq": false, "hairpinMode": true, "ipam": {"type": "host-local",
    "ranges": [{{range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$range}}"}]{{end}}],
    "routes": [{{range $i, $route := .Routes}}{{if $i}}, {{end}}{"dst": "{{$route}}"}{{end}}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}},
  {"type": "bandwidth", "capabilities": {"bandwidth": true}}]}
"""


def write_subnet(octet=1, masquerade="true"):
    """As flanneld does."""
    os.makedirs("/run/flannel", exist_ok=True)
    with open("/run/flannel/subnet.env", "w", encoding="ascii") as file:
        file.write("FLANNEL_NETWORK=10.244.0.0/16\n" f"FLANNEL_SUBNET=10.244.{octet}.1/24\n"
                   "FLANNEL_IPV6_NETWORK=fd00:10:244::/48\n" f"FLANNEL_IPV6_SUBNET=fd00:10:244:{octet}::1/64\n"
                   f"FLANNEL_MTU=1450\nFLANNEL_IPMASQ={masquerade}\n")


class KubernetesTest(PodsTest):
    def is_newer(self):
        """Whether this containerd knows version 1.1.0 of the spec."""
        return "GetStatusNetworkList" in run("strings", "-n", "20", f"/proc/{self.daemon.process.pid}/exe", timeout=120)

    def served(self, pod, port, inside=None):
        """Each address of the pod and its hostPort serve its page, to the node or in the namespace of inside."""
        def ask():
            for address in global_addresses(pod).values():
                self.assertEqual(fetch(address), PAGE, address)
            for place in (f"{NODE[4]}:{port}", f"[{NODE[6]}]:{port}"):
                self.assertEqual(fetch(place), PAGE, place)
        if inside is None:
            return ask()
        addresses = global_addresses(pod)
        with inside.inside():
            for place in [*addresses.values(), f"{NODE[4]}:{port}"]:
                self.assertEqual(fetch(place), PAGE, place)


@suite.spread
class Lists(KubernetesTest):
    @suite.cases([(name, name) for name in LISTS])
    def a_list_as_it_is_written_serves_pods_with_hostPorts_and_limits(self, name):
        conf, limits, bridge = LISTS[name]
        self.needs(conf)
        write_subnet()
        self.use(conf)
        leases = "/var/lib/cni/networks" if bridge else "/run/cni-ipam-state"
        before = snapshot()
        one, inside_one = self.run_seen("one", mapping(8080, 80))
        two, inside_two = self.run_seen("two", mapping(8081, 80), annotations=LIMITS)
        self.assertEqual(rates(), {"veth": 10_000_000, "ifb": 5_000_000} if limits else {})
        mtu = 1400 if name == "kind" else 1450
        self.assertEqual(json.loads(inside_one.run("ip", "-j", "link", "show", "eth0"))[0]["mtu"], mtu)
        for pod, port, other in ((inside_one, 8080, inside_two), (inside_two, 8081, inside_one)):
            self.assertTrue(global_addresses(pod)[4].startswith("10.244.1."), global_addresses(pod))
            self.served(pod, port)
            self.served(pod, port, other)
            self.served(pod, port, pod)  # to itself by its hostPort, too
        with self.outside.inside():
            self.assertEqual(fetch(f"{NODE[4]}:8080"), PAGE)
        self.end(one)
        self.assertIsNone(fetch(f"{NODE[4]}:8080", seconds=0))
        self.served(inside_two, 8081)
        self.end(two)
        self.assertEqual([name for name in os.listdir(f"{leases}/{conf['name']}") if name[0].isdigit() or ":" in name], [])
        self.assert_left_by_design(before, bridge or "none", "file/run/cni-ipam-state/")

    def needs(self, conf):
        for plugin in conf["plugins"]:
            if plugin["type"] not in PLUGINS:
                self.skipTest(f"{plugin['type']} is not among the plugins")


class Template(KubernetesTest):
    """A node whose config containerd writes itself, for the ranges that the kubelet names."""

    CNI = 'conf_template = "/run/c8d/cni.template"\n'
    FILE = f"{FOLDER}/10-containerd-net.conflist"

    def setUp(self):
        super().setUp()
        with open("/run/c8d/cni.template", "w", encoding="ascii") as file:
            file.write(TEMPLATE)

    def ranges(self):
        with open(self.FILE, encoding="ascii") as file:
            conf = json.load(file)
        ipam = conf["plugins"][0]["ipam"]
        return [one["subnet"] for one, in ipam["ranges"]], [one["dst"] for one in ipam["routes"]]

    def test_pods_get_addresses_of_the_families_that_the_kubelet_names(self):
        v4, v6 = "10.244.3.0/24", "fd00:10:244:3::/64"
        for cidrs in ([v4], [v6], [v4, v6]):
            self.assertFalse(self.cri.is_ready())
            self.cri.update_pod_cidrs(cidrs)
            self.assertTrue(wait_for(self.cri.is_ready, 20, 0.1))
            self.assertEqual(self.ranges(), (cidrs, [route for cidr, route in ((v4, "0.0.0.0/0"), (v6, "::/0"))
                                                     if cidr in cidrs]))
            self.assertEqual(cnitool("validate", self.FILE).status, 0)
            one, pod = self.run_seen("one", mapping(8080, 80), annotations=LIMITS)
            self.assertEqual(sorted(global_addresses(pod)), [4 if cidr == v4 else 6 for cidr in cidrs])
            for family, address in global_addresses(pod).items():
                self.assertEqual(fetch(address), PAGE)
                self.assertEqual(fetch(f"[{NODE[6]}]:8080" if family == 6 else f"{NODE[4]}:8080"), PAGE)
                default, = [one for one in json.loads(pod.run("ip", "-j", f"-{family}", "route"))
                            if one["dst"] == "default"]
                self.assertEqual(default["gateway"], "10.244.3.1" if family == 4 else "fd00:10:244:3::1")
            self.assertEqual(rates(), {"veth": 10_000_000, "ifb": 5_000_000})
            self.end(one)
            self.forget()

    def forget(self):
        """It is not written again while it is there."""
        os.unlink(self.FILE)
        self.assertTrue(wait_for(lambda: not self.cri.is_ready(), 20, 0.1))

    def test_other_ranges_need_a_new_file_and_repair_brings_back_the_pods_of_before(self):
        where = {"NETCONFPATH": FOLDER, "CNI_PATH": "/opt/cni/bin"}
        self.cri.update_pod_cidrs(["10.244.3.0/24"])
        self.assertTrue(wait_for(self.cri.is_ready, 20, 0.1))
        _, old = self.run_seen("old", mapping(8080, 80))
        self.cri.update_pod_cidrs(["10.244.4.0/24"])
        self.assertEqual(self.ranges()[0], ["10.244.3.0/24"])
        self.forget()
        self.cri.update_pod_cidrs(["10.244.4.0/24"])
        self.assertTrue(wait_for(self.cri.is_ready, 20, 0.1))
        self.assertEqual(self.ranges()[0], ["10.244.4.0/24"])
        new, pod = self.run_seen("new", mapping(8081, 80))
        self.assertTrue(global_addresses(pod)[4].startswith("10.244.4."))
        for place in (global_addresses(pod)[4], f"{NODE[4]}:8081"):
            self.assertEqual(fetch(place), PAGE, place)
        # forceAddress took the gateway from the pods of before.
        self.assertIn("default/old (eth0)", cnitool("doctor", "-q", **where).stdout)
        self.assertEqual(cnitool("repair", "--pod", "default/old", **where).status, 0)
        for place in (f"{NODE[4]}:8080", f"{NODE[4]}:8081"):
            self.assertEqual(fetch(place), PAGE, place)
        with old.inside():
            self.assertEqual(fetch(f"{NODE[4]}:8081"), PAGE)
        self.end(new)
        self.assertEqual(fetch(f"{NODE[4]}:8080"), PAGE)


class Reboot(KubernetesTest):
    """After a power cut no pod is left, and disk, leases, cache and a bridge that another program made are."""

    def crash(self):
        """Without DEL: pods and their links vanish."""
        self.running.clear()
        self.daemon.process.kill()
        self.daemon.process.wait(20)
        for name in os.listdir("/run/netns"):
            if name.startswith("cni-"):
                for pid in run("ip", "netns", "pids", name, check=False).split():
                    os.kill(int(pid), 9)
                run("ip", "netns", "del", name)
        for table in ("inet patchbay_masquerade", "inet patchbay_hostport"):
            run("nft", "delete", "table", *table.split(), check=False)
        boot(60)

    def test_pods_start_on_the_bridge_of_before_with_a_subnet_of_before_or_another(self):
        if "flannel" not in PLUGINS:
            self.skipTest("flannel is not among the plugins")
        write_subnet()
        self.use(K3S)
        for n in range(2):
            self.run_pod(f"old-{n}", mapping(8080 + n, 80))
        for octet in (1, 2):
            self.crash()
            os.unlink("/run/flannel/subnet.env")
            self.daemon.restart()
            self.assertTrue(wait_for(self.cri.is_ready, 20, 0.1))
            with self.assertRaisesRegex(RuntimeError, "subnet.env"):
                self.run_pod("early")
            write_subnet(octet)
            for n in range(2):
                _, pod = self.run_seen(f"new-{octet}-{n}", mapping(8080 + n, 80))
                self.assertTrue(global_addresses(pod)[4].startswith(f"10.244.{octet}."), global_addresses(pod))
                self.served(pod, 8080 + n)
            addresses = json.loads(run("ip", "-j", "-4", "addr", "show", "cni0"))[0]["addr_info"]
            self.assertEqual([one["local"] for one in addresses], [f"10.244.{octet}.1"])


class Version(KubernetesTest):
    def test_the_runtime_asks_for_STATUS_with_1_1_0_alone(self):
        """And no GC, which neither release calls: that is for `cnitool gc` and a timer."""
        if not self.is_newer():
            self.skipTest("containerd 1 does not call STATUS: scripts/containerd")
        for version, asks in (("1.0.0", False), ("1.1.0", True)):
            calls = f"/run/c8d/calls-{version}"
            self.use({"cniVersion": version, "name": "net", "plugins": [
                {"type": "ptp", "patchbayLog": calls, "ipam": KIND["plugins"][0]["ipam"]}]})
            self.end(self.run_pod(f"pod-{version}"))
            with open(calls, encoding="utf-8") as file:
                verbs = {json.loads(line)["verb"] for line in file}
            self.assertEqual(verbs, {"ADD", "DEL", "STATUS"} if asks else {"ADD", "DEL"}, version)

    def findings(self):
        got = cnitool("doctor", "--json", NETCONFPATH=FOLDER, CNI_PATH="/opt/cni/bin").json["findings"]
        return [one for one in got if one["check"] == "runtime"]

    def test_validate_and_doctor_say_which_cniVersion_the_runtime_takes(self):
        newer = self.is_newer()
        takes, other = ("1.1.0", "1.0.0") if newer else ("1.0.0", "1.1.0")
        file = f"{FOLDER}/10-patchbay.conflist"
        self.use(K3S | {"cniVersion": takes, "plugins": [KIND["plugins"][0], PORTMAP]})
        self.assertEqual([one["level"] for one in self.findings()], ["ok"])
        self.assertEqual(cnitool("validate", "--strict", file).status, 0)
        self.use(K3S | {"cniVersion": other, "plugins": [KIND["plugins"][0], PORTMAP]})
        found, = self.findings()
        self.assertEqual(found["level"], "note" if newer else "error", found)
        self.assertIn(f"cniVersion {other}", found["what"])
        self.assertIn("containerd (", found["what"])
        got = cnitool("validate", "--strict", file)
        self.assertEqual(got.status, 0 if newer else 1, str(got))
        self.assertIn(f'set "{takes}"', got.stdout)
        if newer:
            self.end(self.run_pod("one"))
        else:
            with self.assertRaisesRegex(RuntimeError, "1.1.0"):
                self.run_pod("one")
        shell(found["remedy"])
        self.assertEqual([one["level"] for one in self.findings()], ["ok"])
        self.assertTrue(wait_for(self.cri.is_ready, 20, 0.1))
        sandbox, pod = self.run_seen("two", mapping(8080, 80))
        self.served(pod, 8080)
        self.end(sandbox)


class Doctor(KubernetesTest):
    """Pods of three networks: that of containerd, and two whose interfaces are added as Multus does."""

    MORE = {"lan": {"type": "macvlan", "master": "up1", "ipam": {"type": "host-local", "subnet": "10.7.0.0/24"}},
            "back": {"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.8.0.0/24"}}}

    def test_a_healthy_node_with_pods_of_three_networks_has_no_finding(self):
        for name, plugin in self.MORE.items():
            with open(f"{FOLDER}/30-{name}.conflist", "w", encoding="ascii") as file:
                json.dump({"cniVersion": "1.0.0", "name": name, "plugins": [plugin]}, file)
        self.use({"cniVersion": "1.0.0", "name": "pods", "plugins": [
            {"type": "bridge", "bridge": "cni0", "isDefaultGateway": True, "ipMasq": True, "hairpinMode": True,
             "ipam": {"type": "host-local", "ranges": KIND["plugins"][0]["ipam"]["ranges"]}}, PORTMAP, BANDWIDTH]})
        where = {"NETCONFPATH": FOLDER, "CNI_PATH": "/opt/cni/bin"}
        run("ip", "route", "add", "default", "via", OUTSIDE[4])
        seen = []
        for n in range(PODS):
            sandbox, pod = self.run_seen(f"web-{n}", *([mapping(8080 + n, 80)] if n % 2 == 0 else []),
                                         annotations=LIMITS if n % 3 == 0 else {})
            seen.append((sandbox, pod))
            for k, network in enumerate(self.MORE):
                self.assert_ok(cnitool("add", network, pod.path, "-i", f"net{k + 1}", "--container-id", sandbox,
                                       CNI_ARGS=f"IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-{n}", **where))
        got = cnitool("doctor", "--json", **where)
        found = [one for one in got.json["findings"] if one["level"] != "ok"]
        found = [one for one in found if "is in memory" not in one["what"]]  # as all disks of a test
        expected = ["network names", *(["runtime"] if self.is_newer() else [])]  # it advises 1.1.0
        self.assertEqual((got.status, got.stderr, [one["check"] for one in found]), (0, "", expected), found)
        self.assertEqual({one["level"] for one in found}, {"note"})
        listed = cnitool("list", "--json", **where).json["attachments"]
        self.assertEqual(len(listed), 4 * PODS)  # with containerd's own network for lo
        self.assertEqual({one["podName"] for one in listed}, {f"default/web-{n}" for n in range(PODS)})
        self.assertEqual([one["ifname"] for one in cnitool("list", "--json", "--pod", "web-1", **where).json["attachments"]],
                         ["net2", "lo", "net1", "eth0"])
        self.assertEqual(cnitool("doctor", "--pod", "web-1", **where).stdout,
                         f"no problem found: net2 (back), lo (cni-loopback), net1 (lan), eth0 (pods)\n{UNSEEN}")
        self.assertEqual(cnitool("repair", **where).status, 0)
        # It can find: one rule less is one pod's error.
        seen[1][1].run("ip", "link", "del", "net2")
        self.assertIn("default/web-1 (net2)", cnitool("doctor", "-q", **where).stdout)


if __name__ == "__main__":
    suite.main(needs=NEEDED)
