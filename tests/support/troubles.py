"""A node that is broken in one way after the other: two pods of a bridge network in both families, one of a ptp network, a
router and a host beyond it. Each trouble is made, `cnitool probe` has to name it, and its remedy has to heal."""

import json
import os
import shutil
import subprocess

from support import suite
from support.cnitool import CONF_DIR, cnitool, environment, use
from support.doctor import BIN, BRIDGE, shell
from support.plugin import OURS
from support.world import Pod, World, run, wait_for

PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
PTP = {"type": "ptp", "ipMasq": True,
       "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.2.0.0/24"}], [{"subnet": "fd00:2::/64"}]],
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}
# What programs say of what the kernel was built without.
LACKS = ("kind is unknown", "classifier not found", "action module", "Unknown device type", "Operation not supported",
         "No such file or directory; did you mean")
_node = None


def words(make, *what, **more):
    """A row: how it is broken, and what has to be in the finding. undo: ends the trouble where the remedy is no command, or
    leaves something. remedy: what has to be in it. others: parts of findings that may be beside it. works: a command that succeeds by then."""
    return {"make": make, "words": what, **more}


class Node:
    """{a}, {b}, {p}: IPv4 addresses of the pods; {a6}, {b6}; {va}, {vb}, {vp}: their host veths; {maca}, {macb}."""

    def __init__(self):
        World()
        os.makedirs(BIN)
        for name in ("bridge", "host-local", "portmap", "ptp"):
            shutil.copy(os.path.join(OURS, name), BIN)
        self._uplink()
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [BRIDGE, PORTMAP]})
        use({"cniVersion": "1.1.0", "name": "point", "plugins": [PTP, PORTMAP]}, "20-point.conflist")
        self.names = {}
        for n, (name, network) in enumerate((("a", "net"), ("b", "net"), ("p", "point"))):
            self._add(name, network, 8080 + n)
        wait_for(lambda: '"tentative":true' not in self._addresses())

    def _addresses(self):
        return "".join(run("ip", "-j", *where, "addr") for where in ((), ("-n", "a"), ("-n", "b"), ("-n", "p")))

    @staticmethod
    def _uplink():
        outside = Pod("outside")
        run("ip", "link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", "outside")
        run("ip", "addr", "add", "192.0.2.1/24", "dev", "up0")
        outside.run("ip", "addr", "add", "192.0.2.2/24", "dev", "eth0")
        outside.run("ip", "link", "set", "eth0", "up")
        outside.run("ip", "link", "set", "lo", "up")
        run("ip", "link", "set", "up0", "up")
        run("ip", "route", "add", "default", "via", "192.0.2.2")

    def _add(self, name, network, port):
        pod = Pod(name)
        done = cnitool("add", network, pod.path, CNI_PATH=BIN, CAP_ARGS={
            "portMappings": [{"hostPort": port, "containerPort": 80, "protocol": "tcp"}]})
        assert done.status == 0, str(done)
        link = json.loads(pod.run("ip", "-j", "addr", "show", "dev", "eth0"))[0]
        for address in link["addr_info"]:
            if address["scope"] == "global":
                self.names[name + ("6" if address["family"] == "inet6" else "")] = address["local"]
        self.names["mac" + name] = link["address"]
        self.names["v" + name] = next(one["ifname"] for one in json.loads(run("ip", "-j", "link"))
                                      if one["ifindex"] == link["link_index"])

    def filled(self, text):
        for name, value in self.names.items():
            text = text.replace("{" + name + "}", value)
        return text

    def shell(self, command):
        env = environment(CNI_PATH=BIN)
        env["PATH"] = f"{env['PATH']}:/usr/sbin:/sbin:{OURS}"  # a plugin is called bridge, too
        return subprocess.run(["sh", "-c", self.filled(command)], env=env, capture_output=True, text=True, timeout=60, check=False)

    def probe(self):
        done = cnitool("probe", "--json", "--rate", "2000", CNI_PATH=BIN)
        return done.status, json.loads(done.stdout)["findings"], done.stderr


def current_node():
    """The one that all rows share."""
    return _node


def take_node():
    """The same, and nobody else has it from then on: what is done to it may stay."""
    global _node
    node, _node = _node, None
    return node


def shown(findings):
    return "\n".join("\n    ".join([one["what"], *one["lines"], one["remedy"]]) for one in findings)


class TroubleTest(suite.NodeTest):
    def setUp(self):
        global _node
        if _node is None:
            _node = Node()
            self.assertEqual(_node.probe()[:2], (0, []))

    def assert_silent(self, node, after):
        status, findings, _ = node.probe()
        self.assertEqual((status, shown(findings)), (0, ""), after)

    def heal(self, node, findings):
        """Carries out their remedies that are commands. Returns these."""
        commands = [one["remedy"] for one in findings if one["remedy"] and not one["remedy"].startswith("restart ")]
        for command in commands:
            done = node.shell(command)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
        return commands

    def assert_named(self, row):
        global _node
        node = take_node()  # a row that fails may leave anything: the next one gets another node
        done = node.shell(f"set -e; {row['make']}")
        if done.returncode != 0 and any(lack in done.stderr for lack in LACKS):
            node.shell(row.get("undo", "true"))
            _node = node
            self.skipTest("this kernel lacks what the row needs")
        self.assertEqual(done.returncode, 0, done.stderr)
        status, findings, _ = node.probe()
        wanted = [node.filled(one) for one in row["words"]]
        mine = [one for one in findings if all(part in one["what"] for part in wanted)]
        others = [one for one in findings if one not in mine and not any(part in one["what"] for part in row.get("others", ()))]
        self.assertTrue(mine, shown(findings))
        self.assertEqual((status, shown(others)), (1, ""), shown(mine))
        for one in mine:
            self.assertIn(node.filled(row.get("remedy", "")), one["remedy"])
        commands = self.heal(node, mine)
        if commands and row.get("heals", True):
            _, left, _ = node.probe()
            if self.heal(node, [one for one in left if all(part in one["what"] for part in wanted)]):  # another one explained these
                _, left, _ = node.probe()
            self.assertEqual(shown(left), "", commands)
            self.assertEqual(node.shell(row.get("works", "true")).returncode, 0, commands)
        if undo := row.get("undo"):
            node.shell(undo)
            self.assert_silent(node, undo)
        _node = node
