"""A node of Kubernetes without pods: a runtime that runs, a network, an uplink; and remedies carried out on it."""

import json
import os
import re
import shutil
import subprocess

from support import suite
from support.cnitool import cnitool, environment
from support.doctor import BANDWIDTH, PORTMAP, write
from support.plugin import OURS
from support.world import Pod, World, mount, run, wait_for, MS_BIND

CONF = "/etc/cni/net.d"
BIN = "/opt/cni/bin"
FILE = f"{CONF}/10-kubenet.conflist"
FAKES = "/run/fakes"
TOML = "/run/containerd.toml"
SUBNETS = ["10.244.1.0/24", "fd00:244:0:1::/64"]
NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}, "spec": {"podCIDRs": SUBNETS},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": "n1"}]}}
BRIDGE = {"type": "bridge", "bridge": "cni0", "mtu": 1450, "isDefaultGateway": True, "hairpinMode": True,
          "ipam": {"type": "host-local", "ranges": [[{"subnet": subnet}] for subnet in SUBNETS]}}
FLANNEL = {"type": "flannel", "delegate": {"hairpinMode": True, "isDefaultGateway": True}}
SUBNET_ENV = "/run/flannel/subnet.env"
ENV = ("FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_IPV6_NETWORK=fd00:244::/56\n"
       "FLANNEL_IPV6_SUBNET=fd00:244:0:1::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n")

SETTING = re.compile(r'in (?P<file>\S+) set "(?P<key>\w+)": (?P<value>.+?) in '
                     r'(?:"(?P<member>\w+)"(?: of the plugin "(?P<owner>\w+)")?|the plugin "(?P<plugin>[\w-]+)")')
REMOVAL = re.compile(r'in (?P<file>\S+) remove "(?P<key>\w+)" from the plugin "(?P<plugin>\w+)"')


def network(*plugins, name="kubenet", version="1.0.0"):
    return {"cniVersion": version, "name": name, "plugins": list(plugins or (BRIDGE, PORTMAP, BANDWIDTH))}


def use(conflist, file=FILE):
    write(file, json.dumps(conflist))


def edit(remedy):
    """What a person does with a remedy that names a file and a key. False: it is a command."""
    found = SETTING.fullmatch(remedy) or REMOVAL.fullmatch(remedy)
    if found is None:
        return False
    part = found.groupdict()
    with open(part["file"], encoding="utf-8") as file:
        conf = json.load(file)
    type_of = part["plugin"] or part.get("owner")
    place = next((one for one in conf["plugins"] if one["type"] == type_of), conf["plugins"][0])
    if part.get("member"):
        place = place[part["member"]]
    if "value" in part:
        place[part["key"]] = json.loads(part["value"])
    else:
        del place[part["key"]]
    use(conf, part["file"])
    return True


def private_etc():
    """A copy of /etc, which can be written to."""
    shutil.copytree("/etc", "/run/etc", symlinks=True, ignore_dangling_symlinks=True,
                    ignore=shutil.ignore_patterns("cni"))
    os.makedirs("/run/etc/cni")
    shutil.copytree(CONF, "/run/etc/cni/net.d")
    mount("/run/etc", "/etc", flags=MS_BIND)


class ClusterNodeTest(suite.NodeTest):
    def setUp(self):
        super().setUp()
        self.processes = {}
        self.conf_dir = None
        os.makedirs(FAKES)
        World.private(BIN)
        for name in ("bridge", "host-local", "portmap", "bandwidth"):
            shutil.copy(os.path.join(OURS, name), BIN)
        outside = Pod("outside")
        run("ip", "link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", "outside")
        run("ip", "addr", "add", "192.0.2.1/24", "dev", "up0")
        run("ip", "-6", "addr", "add", "2001:db8::1/64", "dev", "up0", "nodad")
        outside.run("ip", "link", "set", "eth0", "up")
        run("ip", "link", "set", "up0", "up")
        run("ip", "route", "add", "default", "via", "192.0.2.254")
        run("ip", "-6", "route", "add", "default", "via", "2001:db8::fe")
        wait_for(lambda: json.loads(run("ip", "-j", "link", "show", "up0"))[0]["operstate"] == "UP")
        self.set("net/ipv4/ip_forward", 1)
        self.set("net/ipv6/conf/all/forwarding", 1)
        use(network())
        write("/run/node.json", json.dumps(NODE))
        write(TOML, f"version = 2\n[plugins.'io.containerd.grpc.v1.cri'.cni]\nbin_dir = '{BIN}'\nconf_dir = \"{CONF}\"\n")
        os.utime(TOML, (0, 0))
        self.start("containerd", "--config", TOML)

    def tearDown(self):
        for name in list(self.processes):
            self.stop(name)

    @staticmethod
    def set(key, value):
        with open(f"/proc/sys/{key}", "w", encoding="ascii") as file:
            file.write(str(value))

    @staticmethod
    def fake(name, script):
        """A program of the node that does only this."""
        write(f"{FAKES}/{name}", f"#!/bin/sh\n{script}\n", 0o755)

    def start(self, name, *words):
        """A process of that name on the node, which does nothing."""
        write(f"/run/processes/{name}", "#!/bin/sh\nread forever\n", 0o755)
        self.processes[name] = (words, subprocess.Popen([f"/run/processes/{name}", *words], stdin=subprocess.PIPE))
        comm = f"/proc/{self.processes[name][1].pid}/comm"
        with open(comm, encoding="ascii") as file:
            wait_for(lambda: file.seek(0) or file.read().strip() == name[:15])

    def stop(self, name):
        _, process = self.processes.pop(name)
        process.stdin.close()
        process.wait()

    def restart(self, name):
        words, _ = self.processes[name]
        self.stop(name)
        self.start(name, *words)

    def doctor(self, *options):
        """Exit status, and what is more than a note."""
        outcome = cnitool("doctor", *(options or ("--kubernetes", "--node-json", "/run/node.json")), "--json",
                          CNI_PATH=None, NETCONFPATH=self.conf_dir)
        self.assertEqual(outcome.stderr, "")
        found = [one for one in outcome.json["findings"] if one["level"] not in ("ok", "note")]
        errors = [one for one in found if one["level"] == "error"]
        self.assertEqual(outcome.status, 1 if errors else 0, str(outcome))
        return found

    def carry_out(self, remedy):
        if edit(remedy):
            return
        env = environment(CNI_PATH=None, NETCONFPATH=None)
        env["PATH"] = f"{FAKES}:{OURS}:{env['PATH']}:/usr/sbin:/sbin"
        done = subprocess.run(["sh", "-c", remedy], env=env, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, f"{remedy}: {done.stderr}")
