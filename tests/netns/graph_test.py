#!/usr/bin/env python3
"""`cnitool graph` draws what is on the node: as text, for graphviz, as a picture in which nothing is cut
off or covered, and for programs. PATCHBAY_GRAPHS=DIR keeps the pictures."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool, use  # noqa: E402
from support.configs import lack  # noqa: E402
from support.plugin import OURS, REFERENCE, has_reference  # noqa: E402
from support.snapshot import snapshot  # noqa: E402
from support.world import run  # noqa: E402

KEEP = os.environ.get("PATCHBAY_GRAPHS")
SVG = "{http://www.w3.org/2000/svg}"
WIDEST = 0.62  # of a character to the size of its font, among monospaced fonts


def network(name="pods", bridge="cni0", number=2, **more):
    return {"cniVersion": "1.0.0", "name": name, "plugins": [
        {"type": "bridge", "bridge": bridge, "isDefaultGateway": True, "ipMasq": True,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": f"10.1.{number}.0/24"}],
                                                   [{"subnet": f"fd00:1:{number}::/64"}]]}} | more,
        {"type": "portmap", "capabilities": {"portMappings": True}},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}}]}


class GraphTest(suite.NodeTest):
    def setUp(self):
        super().setUp()
        run("ip", "link", "add", "eth9", "type", "veth", "peer", "name", "wall")
        run("ip", "-batch", "-", stdin="addr add 192.0.2.10/24 dev eth9\naddr add 2001:db8::10/64 "
            "dev eth9 nodad\nlink set eth9 up\nlink set wall up\nroute add default via 192.0.2.1\n"
            "route add default via 2001:db8::1\n")
        use(network())

    def add(self, name, container, where="pods", ports=0, limited=False):
        pod = self.pod(name)
        mappings = [{"hostPort": 8000 + 100 * self.pods + n, "containerPort": 80 + n,
                     "protocol": "tcp"} for n in range(ports)]
        limits = {"ingressRate": 8000000, "ingressBurst": 800000, "egressRate": 2500000,
                  "egressBurst": 250000}
        self.assert_ok(cnitool("add", where, pod.path, "--container-id", container, CAP_ARGS={
            "portMappings": mappings} | ({"bandwidth": limits} if limited else {})))
        return pod

    def picture(self, name):
        """The SVG, looked through for what an eye would not like; and kept, where that is wanted."""
        file = f"/run/{name}.svg"
        self.assertEqual(self.assert_ok(cnitool("graph", "--format", "svg", "--output", file)), None)
        with open(file, encoding="utf-8") as svg:
            text = svg.read()
        if KEEP:
            with open(os.path.join(KEEP, f"{name}.svg"), "w", encoding="utf-8") as kept:
                kept.write(text)
        root = ET.fromstring(text)
        self.assertNotRegex(text, r"<script|href|url\(|@import|@font-face|<image")
        self.assert_readable(root)
        return root

    def assert_readable(self, root):
        width, height = (float(root.get(key)) for key in ("width", "height"))
        self.assertLess(width, 2000)
        page, *boxes = [tuple(float(one.get(key, 0)) for key in ("x", "y", "width", "height"))
                        for one in root.iter(SVG + "rect")]
        self.assertEqual(page[2:], (width, height))
        for x, y, w, h in boxes:
            self.assertTrue(x >= 8 and y >= 8 and x + w <= width - 8 and y + h <= height - 8)
        for a, b in itertools.combinations(boxes, 2):
            self.assertTrue(a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1]
                            or b[1] + b[3] <= a[1], f"{a} covers {b}")
        lines = {}
        for one in root.iter(SVG + "text"):
            x, y = float(one.get("x")), float(one.get("y"))
            inside = [(bx, by, w, h) for bx, by, w, h in boxes
                      if bx <= x <= bx + w and by <= y - 9 and y + 3 <= by + h]
            self.assertEqual(len(inside), 1, f"'{one.text}' is in {inside}")
            end = inside[0][0] + inside[0][2]
            self.assertLess(x + 12 * WIDEST * len(one.text), end, f"'{one.text}' is cut")
            self.assertNotIn((x, y), lines, f"'{one.text}' covers '{lines.get((x, y))}'")
            lines[x, y] = one.text

    def texts(self, root):
        return [one.text for one in root.iter(SVG + "text")]


class Drawn(GraphTest):
    def test_one_pod(self):
        self.add("web", "web", ports=2, limited=True)
        before = snapshot()
        root = self.picture("one")
        texts = self.texts(root)
        for wanted in ("uplink eth9", "192.0.2.10/24", "default by 192.0.2.1", "bridge cni0",
                       "10.1.2.1/24", "fd00:1:2::1/64", "masqueraded", "web", "10.1.2.2/24",
                       "fd00:1:2::2/64", "/run/netns/web", "limits in 8 Mbit/s, out 2.5 Mbit/s",
                       "ports 8100 -> 80/tcp, 8101 -> 81/tcp"):
            self.assertIn(wanted, texts)
        self.assertEqual(len(list(root.iter(SVG + "circle"))), 1)
        text = cnitool("graph").stdout
        for wanted in ("uplink eth9  192.0.2.10/24 2001:db8::10/64  by 192.0.2.1 2001:db8::1",
                       "└─ bridge cni0  10.1.2.1/24 fd00:1:2::1/64", "   └─ pod web  pods",
                       "10.1.2.2/24", "limits in 8 Mbit/s, out 2.5 Mbit/s"):
            self.assertIn(wanted, text)
        self.assertNotIn("\x1b", text)
        file = f"/run/one.svg"
        os.unlink(file)
        self.assert_same(before, what="graph changes something:")

    def test_thirty_pods_in_columns(self):
        for n in range(30):
            self.add(f"pod{n}", f"{n:02}" + "c4f3" * 15 + "ab", ports=n % 4, limited=n % 3 == 0)
        root = self.picture("thirty")
        self.assertEqual(len(list(root.iter(SVG + "circle"))), 30)
        titles = [text for text in self.texts(root) if re.fullmatch("[0-9]{2}(c4f3)*c4", text)]
        self.assertEqual(len(titles), 30)
        cards = {one.get("x") for one in root.iter(SVG + "rect") if one.get("class") == "card"}
        self.assertEqual(len(cards), 4)

    def test_a_node_where_much_is_odd(self):
        use(network("second", "br-with-a-name1", 3), "20.conflist")
        use({"cniVersion": "1.0.0", "name": "lo", "plugins": [{"type": "loopback"}]}, "30.conflist")
        self.add("web", "web", ports=30)
        gone = self.add("gone", "gone")
        self.add("db", "d" * 64, "second", ports=1)
        self.add("x" * 80, "a-container-with-a-name-that-somebody-chose-to-be-long", "second")
        lost = self.add("lost", "lost")
        gone.remove()
        lost.run("ip", "link", "del", "eth0")
        run("ip", "tuntap", "add", "tap7", "mode", "tap")
        run("ip", "link", "set", "tap7", "master", "cni0")
        pod = self.pod("loop")
        self.assert_ok(cnitool("add", "lo", pod.path, "--container-id", "looped", "-i", "lo"))
        root = self.picture("odd")
        texts = self.texts(root)
        for wanted in ("no namespace", "no interface", "tap7", "foreign port, tun", "looped",
                       "dddddddddddd", "      and more: 30 in all"):
            self.assertIn(wanted, texts)
        model = cnitool("graph", "--json").json
        self.assertEqual([one["name"] for one in model["bridges"]], ["br-with-a-name1", "cni0"])
        self.assertEqual([one["name"] for one in model["bridges"][1]["foreignPorts"]], ["tap7"])
        self.assertEqual({one["containerID"]: one["state"] for one in model["bridges"][1]["pods"]},
                         {"web": "alive", "gone": "no namespace", "lost": "no interface"})
        self.assertEqual([one["containerID"] for one in model["others"]], ["looped"])
        run("ip", "link", "del", "cni0")
        root = self.picture("deleted")
        self.assertIn("does not exist", self.texts(root))
        self.assertIn("bridge cni0  does not exist", cnitool("graph").stdout)

    def lan(self):
        """A pod with a macvlan of the reference's on the uplink."""
        if not has_reference("macvlan"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        use({"cniVersion": "1.0.0", "name": "lan", "plugins": [
            {"type": "macvlan", "master": "eth9", "ipam": {"type": "host-local", "subnet": "192.0.2.0/24"}}]},
            "20-lan.conflist")
        self.assert_ok(cnitool("add", "lan", self.pod("wired").path, "--container-id", "wired",
                               CNI_PATH=f"{OURS}:{REFERENCE}"))

    def test_an_interface_without_veth_and_its_master(self):
        if reason := lack("tap"):
            self.skipTest(reason)
        self.lan()
        use({"cniVersion": "1.0.0", "name": "vms", "plugins": [{"type": "tap", "bridge": "br1"}]}, "30-vms.conflist")
        with_bridge = self.pod("vm")
        with_bridge.run("ip", "link", "add", "br1", "type", "bridge")
        self.assert_ok(cnitool("add", "vms", with_bridge.path, "--container-id", "vm"))
        wanted = ("macvlan on eth9", "tap, port of br1 in the pod")
        texts, text = self.texts(self.picture("kinds")), cnitool("graph").stdout
        for line in wanted:
            self.assertIn(line, texts)
            self.assertIn(line, text)
        self.assertIn('"link:eth9" -- "pod:lan/wired/eth0" [label="macvlan"];',
                      cnitool("graph", "--format", "dot").stdout)
        others = {one["containerID"]: (one["type"], one["master"], one["portOf"])
                  for one in json.loads(cnitool("graph", "--json").stdout)["others"]}
        self.assertEqual(others, {"wired": ("macvlan", "eth9", ""), "vm": ("tap", "", "br1")})
        with_bridge.remove()  # what the kernel showed is gone with it
        self.assertNotIn("port of br1", cnitool("graph").stdout)

    def test_dot_is_what_graphviz_reads(self):
        self.add("web", "web", ports=1)
        dot = cnitool("graph", "--format", "dot").stdout
        self.assertRegex(dot, r'"link:cni0" -- "pod:pods/web/eth0" \[label="veth[0-9a-f]{8}"\];')
        self.assertRegex(dot, r'"link:eth9" -- "link:cni0" \[label="masqueraded"\];')
        if shutil.which("dot") is None:
            self.skipTest("graphviz is not installed")
        done = subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_kubernetes_pod_has_its_name(self):
        pod = self.pod("web")
        self.assert_ok(cnitool("add", "pods", pod.path, "--container-id", "c" * 64,
                               CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-1"))
        self.assertIn("pod default/web-1  pods\n", cnitool("graph").stdout)
        self.assertIn("default/web-1", self.texts(self.picture("kubernetes")))
        self.assertIn("default/web-1", cnitool("graph", "--format", "dot").stdout)

    def test_an_empty_node_and_wrong_words(self):
        self.assertEqual(cnitool("graph").stdout.splitlines()[0], "node")
        self.picture("empty")
        self.assertEqual(cnitool("graph", "--format", "png").status, 2)
        done = cnitool("graph", "--output", "/nowhere/x")
        self.assertEqual(done.status, 1)
        self.assertIn("write '/nowhere/x': no such file or directory", done.stderr)


if __name__ == "__main__":
    suite.main()
