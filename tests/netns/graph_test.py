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
PICTURE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs/graph.svg")
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
                       "└─ bridge cni0\n", "to eth9, masqueraded", "   └─ pod web  pods",
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
        self.assertEqual(len(cards), 3)

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
        dot = cnitool("graph", "--format", "dot").stdout
        for line in ('"link:eth9" -- "network:lan";', '"network:lan" -- "pod:wired" [label="eth0"];'):
            self.assertIn(line, dot)
        others = {one["containerID"]: (one["type"], one["master"], one["portOf"])
                  for one in json.loads(cnitool("graph", "--json").stdout)["others"]}
        self.assertEqual(others, {"wired": ("macvlan", "eth9", ""), "vm": ("tap", "", "br1")})
        with_bridge.remove()  # what the kernel showed is gone with it
        self.assertNotIn("port of br1", cnitool("graph").stdout)

    def test_dot_is_what_graphviz_reads(self):
        self.add("web", "web", ports=1)
        dot = cnitool("graph", "--format", "dot").stdout
        self.assertIn('"link:cni0" -- "pod:web" [label="eth0"];', dot)
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


def boxes_of(root):
    """(class, x, y, width, height, lines) of each box of a picture."""
    rects = list(root.iter(SVG + "rect"))[1:]
    texts = [(float(one.get("x")), float(one.get("y")), one.text) for one in root.iter(SVG + "text")]
    out = []
    for rect in rects:
        x, y, w, h = (float(rect.get(key)) for key in ("x", "y", "width", "height"))
        inside = [(at, text) for tx, at, text in texts if x <= tx <= x + w and y <= at <= y + h]
        out.append((rect.get("class"), x, y, w, h, inside))
    return out


def box_at(boxes, y, x):
    """The lines of the box whose left edge is at x, and which has y."""
    return next(one[5] for one in boxes if one[1] == x and one[2] <= y <= one[2] + one[4])


def drawn_in_svg(root):
    """(segment, pod, interface) of each line to a pod; {link, segment} of each rail; the lines of each pod."""
    boxes = boxes_of(root)
    segments = {one[0].split()[1]: one[5][0][1] for one in boxes if one[0].startswith("bridge ")}
    wires = set()
    for circle in root.iter(SVG + "circle"):
        x, y = float(circle.get("cx")), float(circle.get("cy"))
        lines = box_at(boxes, y, x)
        ifname = min(lines, key=lambda line: abs(line[0] - 4 - y))[1].split()[0]
        wires.add((segments[circle.get("class")], lines[0][1], ifname))
    rails = {}
    for path in root.iter(SVG + "path"):
        if path.get("class") in ("way", "on") and "H" in path.get("d"):
            x, y, end = (float(n) for n in re.fullmatch(r"M(\S+) (\S+)H(\S+)", path.get("d")).groups())
            rails.setdefault(x, []).append(box_at(boxes, y, end)[0][1])
    links = {(next(one for one in titles if one.startswith(("uplink ", "link "))), title)
             for titles in rails.values() for title in titles if not title.startswith(("uplink ", "link "))}
    return wires, links, {lines[0][1]: sorted(text for _, text in lines) for kind, *_, lines in boxes if kind == "card"}


def drawn_in_dot(dot):
    label = {name: text.split("\\n") for name, text in re.findall(r'^  "([^"]+)" \[shape.* label="([^"]*)"', dot, re.M)}
    edges = re.findall(r'^  "([^"]+)" -- "([^"]+)"(?: \[label="([^"]*)"\])?;', dot, re.M)
    wires = {(label[a][0], label[b][0], text) for a, b, text in edges if b.startswith("pod:")}
    links = {(label[a][0], label[b][0]) for a, b, _ in edges if not b.startswith("pod:")}
    return wires, links, {lines[0]: sorted(lines) for name, lines in label.items() if name.startswith("pod:")}


def drawn_in_text(text):
    wires, links, pods, segment, pod = set(), set(), {}, None, None
    for line in text.splitlines()[1:]:
        words = line.lstrip("│├└─ ")
        if words.startswith(("bridge ", "network ")) and line[0] in "├└":
            segment, pod = " ".join(words.split()[:2]), None
        elif words.startswith("pod "):
            pod = words.split()[1]
            pods.setdefault(pod, {pod})
        elif pod is None and (found := re.fullmatch("to ([a-z0-9, ]+?)(, masqueraded)?", words)):
            links |= {(f"uplink {one}", segment) for one in found[1].split(", ")}
        elif pod is None and (found := re.fullmatch(r"\w+ on (\w+)", words)):
            links.add((f"link {found[1]}", segment))
        elif pod is not None and not words.startswith("also "):
            if re.match(r"(eth|net)\d ", words):
                wires.add((segment, pod, words.split()[0]))
            pods[pod].add(words)
    return wires, links, {name: sorted(lines) for name, lines in pods.items()}


class Picture(GraphTest):
    """Three networks of different kinds and twelve pods, one of them with an interface in each."""

    def setUp(self):
        super().setUp()
        if reason := lack("macvlan"):
            self.skipTest(reason)
        run("ip", "link", "add", "eth1", "type", "veth", "peer", "name", "lan")
        for name in ("eth1", "lan"):
            run("ip", "link", "set", name, "up")
        mac = {"capabilities": {"mac": True}}
        use({"cniVersion": "1.0.0", "name": "pods", "plugins": [
            {"type": "bridge", "bridge": "cni0", "isDefaultGateway": True, "ipMasq": True,
             "ipam": {"type": "host-local", "subnet": "10.1.0.0/24"}} | mac,
            {"type": "portmap", "capabilities": {"portMappings": True}},
            {"type": "firewall", "ingressPolicy": "same-bridge"},
            {"type": "bandwidth", "capabilities": {"bandwidth": True}}]})
        use({"cniVersion": "1.0.0", "name": "edge", "plugins": [
            {"type": "ptp", "ipMasq": True, "ipam": {"type": "host-local", "subnet": "10.2.0.0/24"}}]}, "20.conflist")
        use({"cniVersion": "1.0.0", "name": "storage", "plugins": [
            {"type": "macvlan", "master": "eth1", "ipam": {"type": "host-local", "subnet": "10.3.0.0/24"}} | mac]},
            "30.conflist")
        self.expected = set()
        kinds = ("pods", "edge", "storage")
        for n in range(12):
            networks = (kinds[n % 3],) if n > 0 else kinds
            for k, network in enumerate(networks):
                self.attach(n, network, "eth0" if k == 0 else f"net{k}")

    def attach(self, n, network, ifname):
        name = f"shop/{'web' if n % 3 == 0 else 'db'}-{n}"
        pod = self.pod(f"pod{n}") if ifname == "eth0" else self.known[n]
        self.known = getattr(self, "known", {}) | {n: pod}
        caps = {"mac": f"02:00:00:00:{n:02x}:{ord(ifname[-1]):02x}"}
        if network == "pods" and n % 2 == 0:
            caps["portMappings"] = [{"hostPort": 8000 + n, "containerPort": 80, "protocol": "tcp"}]
        if network == "pods" and n == 0:
            caps["bandwidth"] = {"ingressRate": 8000000, "ingressBurst": 800000}
        space, short = name.split("/")
        self.assert_ok(cnitool("add", network, pod.path, "-i", ifname, "--container-id", f"{n:02}" + "c4f3" * 15 + "ab",
                               CAP_ARGS=caps, CNI_ARGS=f"IgnoreUnknown=1;K8S_POD_NAMESPACE={space};K8S_POD_NAME={short}"))
        self.expected.add(({"pods": "bridge cni0"}.get(network, f"network {network}"), name, ifname))

    def test_text_dot_and_picture_say_the_same(self):
        root = self.picture("kinds")
        svg, dot, text = (drawn_in_svg(root), drawn_in_dot(cnitool("graph", "--format", "dot").stdout),
                          drawn_in_text(cnitool("graph").stdout))
        links = {("uplink eth9", "bridge cni0"), ("uplink eth9", "network edge"), ("link eth1", "network storage")}
        for wires, drawn, _ in (svg, dot, text):
            self.assertEqual((wires, drawn), (self.expected, links))
        self.assertEqual(svg[2], dot[2])
        self.assertEqual(len(svg[2]), 12)
        for pod, lines in text[2].items():  # the text has the network beside the pod's name
            self.assertEqual(lines, sorted({line for line in svg[2][pod] if not line.startswith("network ")}))
        for pod in self.known.values():  # as the kernel has it
            for one in json.loads(pod.run("ip", "-j", "-4", "addr")):
                for address in one["addr_info"] if one["ifname"] != "lo" else ():
                    self.assertIn(f"{address['local']}/{address['prefixlen']}", sum(svg[2].values(), []))
        self.assert_wires_are_beside_boxes(root)

    def assert_wires_are_beside_boxes(self, root):
        for path in root.iter(SVG + "path"):
            x, y, way, end = re.fullmatch(r"M(\d+) (\d+)([HV])(\d+)", path.get("d")).groups()
            a, b = (int(x), int(y)), (int(end), int(y)) if way == "H" else (int(x), int(end))
            for kind, bx, by, w, h, _ in boxes_of(root):
                covers = (max(a[0], b[0]) > bx and min(a[0], b[0]) < bx + w
                          and max(a[1], b[1]) > by and min(a[1], b[1]) < by + h)
                self.assertFalse(covers, f"{path.get('d')} crosses a {kind} at {bx},{by}")

    def test_the_picture_of_the_documentation_is_what_is_drawn(self):
        self.picture("documented")
        with open("/run/documented.svg", encoding="utf-8") as file:
            drawn = file.read()
        macs = list(dict.fromkeys(re.findall("(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", drawn)))
        for n, mac in enumerate(macs, 1):  # of bridges and ptp the kernel chooses them
            drawn = drawn.replace(mac, f"02:00:00:00:00:{n:02x}")
        if os.environ.get("PATCHBAY_PICTURE"):
            with open(PICTURE, "w", encoding="utf-8") as file:
                file.write(drawn)
        with open(PICTURE, encoding="utf-8") as file:
            self.assertEqual(file.read() == drawn, True, f"write it: PATCHBAY_PICTURE=1 {sys.argv[0]} documentation")


if __name__ == "__main__":
    suite.main()
