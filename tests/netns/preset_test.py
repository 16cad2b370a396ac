#!/usr/bin/env python3
"""cnitool preset: what it writes validates and gives pods a network, and what it refuses."""

import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import hostport, suite  # noqa: E402
from support.chain import Network  # noqa: E402
from support.hostport import BEYOND, NODE, OUTSIDE, SECOND, Server, Site  # noqa: E402
from support.plugin import OURS, PLUGINS, ROOT  # noqa: E402
from support.world import run  # noqa: E402

CNITOOL = os.path.join(OURS, "cnitool")
V4, V6 = "10.244.1.0/24", "fd00:244:0:1::/64"
SUBNET_ENV = ("FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_IPV6_NETWORK=fd00:244::/56\n"
              "FLANNEL_IPV6_SUBNET=fd00:244:0:1::1/64\nFLANNEL_MTU=1410\nFLANNEL_IPMASQ=true\n")


def call(*words, stdin=""):
    return subprocess.run([CNITOOL, "preset", *words], input=stdin, capture_output=True, text=True, timeout=60)


def node(**spec):
    return json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": spec})


def render(template, cidrs):
    """What Go's text/template makes of containerd's: two loops with their separator."""
    routes = ["::/0" if ":" in cidr else "0.0.0.0/0" for cidr in cidrs]
    values = {".PodCIDRRanges": cidrs, ".Routes": routes}

    def loop(found):
        name, list_of, separator, body = found.groups()
        return separator.join(body.replace("{{" + name + "}}", value) for value in values[list_of])
    pattern = r"\{\{range \$i, (\$\w+) := (\.\w+)\}\}\{\{if \$i\}\}(.*?)\{\{end\}\}(.*?)\{\{end\}\}"
    return re.sub(pattern, loop, template)


class PresetTest(suite.NodeTest):
    def preset(self, *words, stdin=""):
        done = call(*words, stdin=stdin)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def valid(self, text):
        """The list, if validate has no complaint."""
        checked = subprocess.run([CNITOOL, "validate", "--strict", "-"], input=text, capture_output=True, text=True,
                                 env=os.environ | {"CNI_PATH": OURS}, timeout=60)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        return json.loads(text)

    def write(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


@suite.spread
class Lists(PresetTest):
    def test_kubenet_has_the_bridge_the_gateway_hairpin_and_both_families(self):
        conf = self.valid(self.preset("kubenet", "--pod-cidr", f"{V6},{V4}", "--mtu", "1450", "--cni-version", "1.1.0"))
        self.assertEqual((conf["cniVersion"], conf["name"]), ("1.1.0", "kubenet"))
        bridge, portmap, bandwidth = conf["plugins"]
        self.assertEqual(bridge, {
            "type": "bridge", "bridge": "cbr0", "mtu": 1450, "isGateway": True, "isDefaultGateway": True,
            "forceAddress": True, "ipMasq": False, "hairpinMode": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": V4}], [{"subnet": V6}]],
                     "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}})
        self.assertEqual((portmap["capabilities"], bandwidth["capabilities"]),
                         ({"portMappings": True}, {"bandwidth": True}))

    def test_the_example_of_kubenet_is_what_the_preset_writes(self):
        with open(os.path.join(ROOT, "conf-examples/kubernetes/10-kubenet.conflist"), encoding="utf-8") as file:
            example = json.load(file)
        words = ("kubenet", "--pod-cidr", V4, "--mtu", "1460", "--cni-version", "1.1.0")
        self.assertEqual(json.loads(self.preset(*words)), example)

    def test_the_example_of_kind_is_what_the_preset_writes(self):
        with open(os.path.join(ROOT, "conf-examples/kubernetes/10-kind.conflist"), encoding="utf-8") as file:
            example = json.load(file)
        conf = self.valid(self.preset("kind", "--pod-cidr", "10.244.1.0/24,fd00:10:244:1::/64", "--mtu", "1500"))
        self.assertEqual(conf, example | {"cniVersion": "1.0.0"})

    def test_flannel_is_the_list_of_k3s(self):
        text = self.preset("flannel")
        with open(os.path.join(ROOT, "conf-examples/kubernetes/10-flannel.conflist"), encoding="utf-8") as file:
            self.assertEqual(json.loads(text), json.load(file))
        if "flannel" in PLUGINS:
            self.valid(text)

    def test_flannel_names_another_file(self):
        path = self.write("/run/other/subnet.env", SUBNET_ENV)
        plugin = json.loads(self.preset("flannel", "--subnet-env", path, "--mtu", "1300"))["plugins"][0]
        self.assertEqual((plugin["subnetFile"], plugin["delegate"]["mtu"]), (path, 1300))

    def test_exceptions_turn_masquerading_on(self):
        for name, words in (("kubenet", ("--pod-cidr", V4)), ("kind", ("--pod-cidr", V4)), ("containerd-template", ())):
            text = self.preset(name, *words, "--masquerade-except", "10.0.0.0/8,fd00::/8", "--mtu", "1400")
            plugin = json.loads(render(text, [V4]))["plugins"][0]
            self.assertEqual((plugin["ipMasq"], plugin["ipMasqExcept"]), (True, ["10.0.0.0/8", "fd00::/8"]), name)

    @suite.cases([("IPv4", [V4]), ("IPv6", [V6]), ("both families", [V4, V6])])
    def containerd_makes_of_the_template_what_kubenet_is(self, cidrs):
        rendered = self.valid(render(self.preset("containerd-template", "--mtu", "1460"), cidrs))
        kubenet = json.loads(self.preset("kubenet", "--pod-cidr", ",".join(cidrs), "--mtu", "1460"))
        self.assertEqual(rendered, kubenet)

    def test_with_devices_the_plugin_devices_follows_the_interface(self):
        cidr = ("--pod-cidr", V4)
        for name, words in (("kubenet", cidr), ("kind", cidr), ("flannel", ()), ("containerd-template", ())):
            text = self.preset(name, *words, "--devices")
            plugins = json.loads(render(text, [V4]) if name == "containerd-template" else text)["plugins"]
            self.assertEqual([one["type"] for one in plugins[1:]], ["devices", "portmap", "bandwidth"], name)

    def test_the_example_of_the_template_is_what_the_preset_writes(self):
        with open(os.path.join(ROOT, "conf-examples/kubernetes/containerd-cni.template"), encoding="utf-8") as file:
            self.assertEqual(file.read(), self.preset("containerd-template", "--mtu", "1460"))


@suite.spread
class Sources(PresetTest):
    def test_the_pod_CIDR_and_the_MTU_of_subnet_env(self):
        path = self.write("/run/flannel/subnet.env", SUBNET_ENV)
        bridge = self.valid(self.preset("kubenet", "--subnet-env", path))["plugins"][0]
        self.assertEqual((bridge["mtu"], bridge["ipam"]["ranges"]), (1410, [[{"subnet": V4}], [{"subnet": V6}]]))

    @suite.cases([("podCIDRs", node(podCIDR=V4, podCIDRs=[V4, V6])), ("podCIDR alone", node(podCIDR=V4)),
                  ("a list of one", json.dumps({"kind": "List", "items": [json.loads(node(podCIDR=V4))]}))])
    def the_pod_CIDR_of_a_Node_on_stdin_and_in_a_file(self, text):
        path = self.write("/run/node.json", text)
        for words, stdin in ((("--node-json", "-"), text), (("--node-json", path), "")):
            bridge = self.valid(self.preset("kubenet", *words, stdin=stdin))["plugins"][0]
            self.assertEqual(bridge["ipam"]["ranges"][0], [{"subnet": V4}])

    def test_the_MTU_is_that_of_the_smallest_uplink_without_what_is_said(self):
        self.assertEqual(self.mtu(), 1460, "no uplink")
        run("ip", "-batch", "-", stdin="link add br0 mtu 700 type bridge\nlink add ve0 type veth peer name ve1\n"
            "link add if0 mtu 900 type ifb\nlink add up0 link ve1 mtu 1400 type macvlan\n"
            "link add up1 link ve1 mtu 1300 type macvlan\nlink set ve1 up\nlink set ve0 mtu 800 up\n"
            "link set br0 up\nlink set if0 up\nlink set up0 up\n")
        self.assertEqual(self.mtu(), 1400, "up1 is down")
        run("ip", "link", "set", "up1", "up")
        self.assertEqual(self.mtu(), 1300)
        self.assertEqual(self.mtu("--mtu", "auto", "--overhead", "50"), 1250)
        run("ip", "link", "set", "up1", "mtu", "500")
        self.assertEqual(self.mtu(), 1460, "as kubenet: it is smaller than any IPv4 host must take")

    def mtu(self, *words):
        return json.loads(self.preset("kubenet", "--pod-cidr", V4, *words))["plugins"][0]["mtu"]

    def test_a_file_is_replaced_at_once_and_has_no_other_name_that_a_runtime_reads(self):
        path = self.write("/etc/cni/net.d/10-kubenet.conflist", "{}")
        before = os.stat(path).st_ino
        self.assertEqual(self.preset("kubenet", "--pod-cidr", V4, "-o", path), "")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(self.valid(file.read())["name"], "kubenet")
        self.assertNotEqual(os.stat(path).st_ino, before)
        self.assertEqual(os.listdir("/etc/cni/net.d"), ["10-kubenet.conflist"])


def refused(name, words, error, stdin=""):
    return error, (name, words, error, stdin)


@suite.spread
class Refused(PresetTest):
    @suite.cases([
        refused("kubenet", (), "expected one of --pod-cidr, --subnet-env or --node-json"),
        refused("kubenet", ("--pod-cidr", V4, "--node-json", "-"), "expected one of --pod-cidr, --subnet-env "),
        refused("kubenet", ("--pod-cidr", "10.244.1.5/24"), "--pod-cidr 10.244.1.5/24 has host bits"),
        refused("kubenet", ("--pod-cidr", "10.244.1.0"), '--pod-cidr: not a network: "10.244.1.0"'),
        refused("kubenet", ("--pod-cidr", "10.244.1.0/31"), "10.244.1.0/31 is too small"),
        refused("kubenet", ("--pod-cidr", "fd00::/127"), "fd00::/127 is too small"),
        refused("kubenet", ("--pod-cidr", "10.244.0.0/16,10.244.1.0/24"), "10.244.1.0/24 overlaps with 10.244.0.0/16"),
        refused("kubenet", ("--pod-cidr", "10.1.0.0/24,10.2.0.0/24"), "10.1.0.0/24 and 10.2.0.0/24 are of one family"),
        refused("kubenet", ("--pod-cidr", "224.0.0.0/24"), "224.0.0.0/24 is no network for pods"),
        refused("kubenet", ("--pod-cidr", "fe80::/64"), "fe80::/64 is link-local: nobody routes it"),
        refused("kubenet", ("--pod-cidr", "169.254.7.0/24"), "169.254.7.0/24 is link-local"),
        refused("kubenet", ("--pod-cidr", f"{V4},{V6},10.9.0.0/24"), "expected at most two networks"),
        refused("kubenet", ("--subnet-env", "/nonexistent/env"), "open /nonexistent/env: no such file or directory"),
        refused("kubenet", ("--node-json", "-"), "stdin: the Node has no spec.podCIDRs", node()),
        refused("kubenet", ("--node-json", "-"), 'stdin: kind is "Pod", expected "Node"', '{"kind": "Pod"}'),
        refused("kubenet", ("--node-json", "-"), "stdin: a list of 2 objects", json.dumps(
            {"kind": "List", "items": [{"kind": "Node"}] * 2})),
        refused("kubenet", ("--node-json", "-"), "stdin", "{"),
        refused("kubenet", ("--node-json", "-"), "spec.podCIDRs: not a network", node(podCIDRs=["x"])),
        refused("kubenet", ("--pod-cidr", V6, "--mtu", "1279"), "--mtu: 1279 bytes are too few"),
        refused("kubenet", ("--pod-cidr", V4, "--mtu", "1500x"), '--mtu: expected a number of bytes or auto: "1500x"'),
        refused("kubenet", ("--pod-cidr", V4, "--mtu", "1500", "--overhead", "50"), "--overhead is for --mtu auto"),
        refused("kubenet", ("--pod-cidr", V4, "--masquerade-except", "10.0.0.1/8"), "10.0.0.1/8 has host bits"),
        refused("kubenet", ("--pod-cidr", V4, "-o", "/nonexistent/f"), "open /nonexistent: no such file or directory"),
        refused("flannel", ("--pod-cidr", V4), "--pod-cidr does not fit"),
        refused("containerd-template", ("--node-json", "-"), "--node-json does not fit"),
    ])
    def an_input_that_cannot_be(self, row):
        name, words, error, stdin = row
        done = call(name, *words, stdin=stdin)
        self.assertEqual((done.returncode, done.stdout), (1, ""), str(done))
        self.assertIn(error, done.stderr)

    def test_the_network_of_the_node_itself(self):
        Site()
        for family, lan in ((4, "192.0.2.0/24"), (6, "2001:db8:1::/64")):
            run("ip", f"-{family}", "route", "add", "default", "via", OUTSIDE[family])
            done = call("kubenet", "--pod-cidr", lan)
            self.assertEqual((done.returncode, done.stdout), (1, ""), str(done))
            self.assertRegex(done.stderr, rf"--pod-cidr {lan} overlaps {lan}, the node's network on up0;")

    def test_a_subnet_env_that_is_not_complete(self):
        path = self.write("/run/subnet.env", "FLANNEL_SUBNET=10.244.1.1/24\n")
        for name in ("kubenet", "flannel"):
            done = call(name, "--subnet-env", path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{path} is missing FLANNEL_NETWORK, FLANNEL_IPV6_NETWORK, FLANNEL_MTU, FLANNEL_IPMASQ", done.stderr)


class Pods(PresetTest):
    def test_pods_of_the_preset_kubenet(self):
        """Item 22 of the test list: the bridge, its address, default routes, hairpin, no masquerading of a pod."""
        site = Site()
        Server(self, "outside", (7000,), site.outside, protocols=("tcp",))
        Server(self, "beyond", (7000,), site.beyond, protocols=("tcp",))
        words = ("kubenet", "--pod-cidr", f"{V4},{V6}")
        pod = self.pod()
        for words, masquerades in ((words, False), ((*words, "--masquerade-except", "198.51.100.0/24,2001:db8:2::/64"), True)):
            network = Network(json.loads(self.preset(*words)), (OURS,))
            result, failed = network.add({}, netns=pod.path)
            self.assertIsNone(failed, str(failed))
            links = {one["ifname"]: one for one in json.loads(run("ip", "-j", "-d", "address"))}
            found = {f"{one['local']}/{one['prefixlen']}" for one in links["cbr0"]["addr_info"]}
            self.assertLessEqual({"10.244.1.1/24", "fd00:244:0:1::1/64"}, found)
            port, = [one for one in links.values() if one.get("master") == "cbr0"]
            self.assertTrue(port["linkinfo"]["info_slave_data"]["hairpin"])
            self.assertIn("default via 10.244.1.1", pod.run("ip", "route"))
            self.assertIn("default via fd00:244:0:1::1", pod.run("ip", "-6", "route"))
            probes = [hostport.Probe(pod, "tcp", where[family], 7000) for where in (OUTSIDE, BEYOND) for family in (4, 6)]
            sources = [answer.split()[-1] for answer in hostport.ask(probes)]
            own = [one["address"].split("/")[0] for one in result["ips"]]
            self.assertEqual(sources[2:], own, "excepted, or nothing is masqueraded")
            for family, source, address in zip((4, 6), sources, own):
                self.assertIn(source, (NODE[family], SECOND[family]) if masquerades else (address,))
            self.assertIsNone(network.each("DEL", None, {}, netns=pod.path))


if __name__ == "__main__":
    suite.main(needs=("nft",))
