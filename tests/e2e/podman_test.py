#!/usr/bin/env python3
"""podman with its CNI backend, on our plugins: a container serves a page to its node."""

import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, cdi, image, suite  # noqa: E402
from support.cnitool import cache_names, cached, cnitool  # noqa: E402
from support.configs import lack  # noqa: E402
from support.firewall import addresses as accepted, elements  # noqa: E402
from support.plugin import OURS, ROOT  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import RUN, fetch, mount, remove_cgroups, run  # noqa: E402

PAGE = "patchbay answers\n"

# cgroupfs and runc: no systemd in a node made of namespaces. The limits are ones that a machine
# with low hard limits allows as well.
CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "none"
[network]
network_backend = "cni"
cni_plugin_dirs = ["{plugins}"]
network_config_dir = "/etc/cni/net.d"
default_network = "patchbay"
"""

STORAGE_CONF = """\
[storage]
driver = "vfs"
runroot = "{work}/runroot"
graphroot = "{work}/root"
"""

# What podman itself leaves in /run while its images are there.
PODMANS_OWN = ("file/run/podman/", "file/run/libpod/", "file/run/lock/", "file/run/runc/",
               "file/run/containers/", "file/var/lib/cni/results/")

RANGES = {
    "IPv4": [[{"subnet": "10.89.7.0/24", "gateway": "10.89.7.1"}]],
    "dual-stack": [[{"subnet": "10.89.7.0/24"}], [{"subnet": "fd00:89:7::/64"}]],
}


def network(ranges, backend=None, portmap=None):
    bridge = {"type": "bridge", "bridge": "cni-podman7", "isGateway": True, "ipMasq": True,
              "hairpinMode": True, "capabilities": {"ips": True},
              "ipam": {"type": "host-local", "ranges": ranges,
                       "routes": [{"dst": "0.0.0.0/0"}] +
                       [{"dst": "::/0"}] * (len(ranges) > 1)}}
    if backend:
        bridge["ipMasqBackend"] = backend
    ports = {"type": "portmap", "capabilities": {"portMappings": True}} | (portmap or {})
    return {"cniVersion": "0.4.0", "name": "patchbay", "plugins": [bridge, ports]}


@suite.spread
class Podman(suite.NodeTest):
    def setUp(self):
        super().setUp()
        os.makedirs("/etc/cni/net.d")
        self.work = "/run/podman"
        os.mkdir(self.work)
        with open(f"{self.work}/containers.conf", "w", encoding="ascii") as file:
            file.write(CONTAINERS_CONF.format(plugins=OURS))
        with open(f"{self.work}/storage.conf", "w", encoding="ascii") as file:
            file.write(STORAGE_CONF.format(work=self.work))
        with open(f"{self.work}/policy.json", "w", encoding="ascii") as file:
            json.dump({"default": [{"type": "insecureAcceptAnything"}]}, file)
        os.environ["CONTAINERS_CONF"] = f"{self.work}/containers.conf"
        os.environ["CONTAINERS_STORAGE_CONF"] = f"{self.work}/storage.conf"
        self.cgroup = f"patchbay-podman-{RUN}"
        self.addCleanup(remove_cgroups, self.cgroup)
        self.addCleanup(self.podman, "rm", "-f", "-a", "-t", "0", check=False)
        image.build(f"{self.work}/image.tar", PAGE)

    def podman(self, *arguments, check=True):
        done = subprocess.run(
            ["podman", *arguments], capture_output=True, text=True, timeout=120)
        if "cni support is not enabled in this build" in done.stderr:
            self.skipTest("this podman was built without CNI")  # Debian 13's
        if check:
            self.assertEqual(done.returncode, 0, f"podman {arguments}: {done.stderr}")
        return done

    def start(self, *options, check=True):
        """A container in the background; the cgroup parent is one that the test removes."""
        return self.podman("run", "-d", "--cgroup-parent", f"/{self.cgroup}", *options,
                           image.NAME, check=check)

    def use(self, conflist):
        with open("/etc/cni/net.d/87-patchbay.conflist", "w", encoding="ascii") as file:
            json.dump(conflist, file)

    @suite.cases(list(RANGES.items()))
    def serves_its_page_to_the_node(self, ranges):
        self.use(network(ranges))
        self.podman("load", "--signature-policy", f"{self.work}/policy.json",
                    "-i", f"{self.work}/image.tar")
        before = snapshot()
        self.start("--name", "web")
        state = json.loads(self.podman("inspect", "web").stdout)[0]["NetworkSettings"]
        found = state["Networks"]["patchbay"]
        addresses = [found["IPAddress"], found.get("GlobalIPv6Address")]
        for address in filter(None, addresses):
            self.assertEqual(fetch(address), PAGE)
        self.assertEqual(len(list(filter(None, addresses))), len(ranges), str(found))
        # The container reaches its gateway, and a second container reaches the first.
        self.podman("exec", "web", "ping", "-c1", "-W2", found["Gateway"])
        fetched = self.podman("run", "--rm", "--cgroup-parent", f"/{self.cgroup}", image.NAME,
                              "wget", "-qO-", f"http://{addresses[0]}/")
        self.assertEqual(fetched.stdout, PAGE)
        self.podman("rm", "-f", "-t", "0", "web")
        self.assert_same(before, ignore=lambda place: left_by_design(place, "cni-podman7")
                         or place.startswith(PODMANS_OWN))

    def test_plugins_of_patchbay_install_serve_the_network_of_conf_examples(self):
        """As docs/install.md installs."""
        folder = "/usr/lib/cni"  # of Debian
        if not os.path.isdir(folder):
            self.skipTest(f"there is no {folder}")
        for each in (folder, "/usr/local/libexec/cni", "/usr/libexec/cni", "/usr/local/lib/cni", "/opt/cni/bin"):
            if os.path.isdir(each):  # the first of them with plugins counts, and the machine may have some
                mount("tmpfs", each, "tmpfs")
        with open(f"{self.work}/containers.conf", "w", encoding="ascii") as file:
            file.write(CONTAINERS_CONF.format(plugins=folder).replace('"patchbay"', '"podman"'))
        run(f"{OURS}/patchbay", "install", run(f"{OURS}/cnitool", "runtimes", "podman", "--plugin-dir").strip())
        self.assertIn("bridge", os.listdir(folder))
        shutil.copy(f"{ROOT}/conf-examples/87-podman.conflist", "/etc/cni/net.d/87-podman-bridge.conflist")
        self.podman("load", "--signature-policy", f"{self.work}/policy.json", "-i", f"{self.work}/image.tar")
        self.start("--name", "web", "-p", "8080:80")
        self.assertEqual(fetch("127.0.0.1:8080"), PAGE)
        self.podman("rm", "-f", "-t", "0", "web")

    @suite.cases([(name, {"backend": name}) for name in ("nftables", "iptables")])
    def publishes_ports(self, portmap):
        self.use(network(RANGES["dual-stack"], portmap=portmap))
        self.podman("load", "--signature-policy", f"{self.work}/policy.json",
                    "-i", f"{self.work}/image.tar")
        run("ip", "link", "add", "out", "type", "veth", "peer", "name", "far")
        run("ip", "addr", "add", "192.0.2.1/24", "dev", "out")
        run("ip", "addr", "add", "2001:db8::1/64", "dev", "out", "nodad")
        run("ip", "link", "set", "out", "up", "addrgenmode", "none")
        run("ip", "link", "set", "far", "up", "addrgenmode", "none")
        run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")  # or `out` changes when bridge does it
        before = snapshot()
        self.start("--name", "web", "-p", "8080:80", "-p", "192.0.2.1:8081:80",
                   "-p", "9000-9009:80-89", "-p", "5353:53/udp")
        for place in ("192.0.2.1:8080", "127.0.0.1:8080", "[2001:db8::1]:8080", "192.0.2.1:8081",
                      "192.0.2.1:9000"):
            self.assertEqual(fetch(place), PAGE, place)
        self.assertIsNone(fetch("127.0.0.1:8081", 0.5), "8081 is for one address")
        again = self.start("-p", "8080:80", check=False)
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("8080", again.stderr)
        self.assertEqual(fetch("192.0.2.1:8080"), PAGE, "the first one goes on")
        self.podman("restart", "-t", "0", "web")
        self.assertEqual(fetch("192.0.2.1:8080"), PAGE, "after a restart")
        run("nft", "flush", "ruleset")
        self.podman("network", "reload", "web")
        self.assertEqual(fetch("192.0.2.1:8080"), PAGE, "after a reload of the firewall")
        self.podman("rm", "-f", "-a", "-t", "0")
        self.assert_same(before, ignore=lambda place: left_by_design(place, "cni-podman7")
                         or place.startswith(PODMANS_OWN))

    @suite.cases([("macvlan, its parent named", ("macvlan", "-o", "parent=eth1")),
                  ("macvlan, at the default route", ("macvlan",)),
                  # podman 4.3 takes no parent for it.
                  ("ipvlan, at the default route", ("ipvlan",))])
    def a_network_of_podmans_own_joins_the_segment_of_a_link(self, row):
        driver, *options = row
        if reason := lack(driver):
            self.skipTest(reason)
        outside = self.pod("outside")
        run("ip", "-batch", "-", stdin="link add eth1 type veth peer name eth0 netns outside\n"
            "link set eth1 up\naddr add 10.89.8.9/24 dev eth1\nroute add default via 10.89.8.1\n")
        run("ip", "-n", "outside", "-batch", "-", stdin="link set eth0 up\naddr add 10.89.8.1/24 dev eth0\n")
        self.use(network(RANGES["IPv4"]))
        self.podman("load", "--signature-policy", f"{self.work}/policy.json",
                    "-i", f"{self.work}/image.tar")
        self.podman("network", "create", "-d", driver, *options, "--subnet", "10.89.8.0/24",
                    "--gateway", "10.89.8.1", "lan")
        before = snapshot()
        self.start("--name", "web", "--network", "lan", "--ip", "10.89.8.77")
        found = json.loads(self.podman("inspect", "web").stdout)[0]["NetworkSettings"]["Networks"]["lan"]
        self.assertEqual((found["IPAddress"], found["Gateway"]), ("10.89.8.77", "10.89.8.1"))
        shown = self.podman("exec", "web", "ip", "link", "show", "eth0").stdout
        self.assertIn(found["MacAddress"], shown)
        with outside.inside():
            self.assertEqual(fetch("10.89.8.77"), PAGE, "from the segment")
        self.assertIsNone(fetch("10.89.8.77", 0.5), "from the node, which a macvlan or ipvlan does not reach")
        self.podman("exec", "web", "ping", "-c1", "-W2", "10.89.8.1")
        fetched = self.podman("run", "--rm", "--cgroup-parent", f"/{self.cgroup}", "--network", "lan",
                              image.NAME, "wget", "-qO-", f"http://{found['IPAddress']}/")
        self.assertEqual(fetched.stdout, PAGE)
        self.podman("rm", "-f", "-t", "0", "web")
        self.assert_same(before, ignore=lambda place: left_by_design(place) or place.startswith(PODMANS_OWN)
                         or place.startswith("file/var/lib/cni/networks/lan/") and place.endswith("/"))

    def test_gives_the_address_and_the_MAC_that_the_user_asks_for(self):
        self.use(network(RANGES["IPv4"]))
        self.podman("load", "--signature-policy", f"{self.work}/policy.json",
                    "-i", f"{self.work}/image.tar")
        self.start("--name", "web", "--ip", "10.89.7.77", "--mac-address", "92:d0:c6:0a:29:33")
        shown = self.podman("exec", "web", "ip", "addr", "show", "eth0").stdout
        self.assertIn("10.89.7.77/24", shown)
        self.assertIn("92:d0:c6:0a:29:33", shown)
        again = self.start("--ip", "10.89.7.77", check=False)
        self.assertNotEqual(again.returncode, 0, "the address is taken")

    def test_its_own_default_network_works_with_these_plugins_alone(self):
        """bridge, portmap, firewall and tuning, as podman itself defines them; nobody else's plugins are there."""
        with open(f"{self.work}/containers.conf", "w", encoding="ascii") as file:
            file.write(CONTAINERS_CONF.format(plugins=OURS).replace('"patchbay"', '"podman"'))
        for tool in ("iptables", "ip6tables"):
            run(tool, "-P", "FORWARD", "DROP")  # as docker has it: firewall accepts
        self.podman("load", "--signature-policy", f"{self.work}/policy.json", "-i", f"{self.work}/image.tar")
        network = json.loads(self.podman("network", "inspect", "podman").stdout)[0]
        self.assertEqual((network["name"], network["network_interface"]), ("podman", "cni-podman0"))
        before = snapshot()
        self.start("--name", "web", "-p", "8080:80")
        address = json.loads(self.podman("inspect", "web").stdout)[0]["NetworkSettings"]["Networks"]["podman"]["IPAddress"]
        for place in (address, "127.0.0.1:8080"):
            self.assertEqual(fetch(place), PAGE, place)
        self.assertEqual(accepted(), [address])
        fetched = self.podman("run", "--rm", "--cgroup-parent", f"/{self.cgroup}", image.NAME, "wget", "-qO-",
                              f"http://{address}/")
        self.assertEqual(fetched.stdout, PAGE)
        self.podman("rm", "-f", "-t", "0", "web")
        self.assertEqual(accepted(), [])
        self.assert_same(before, ignore=lambda place: left_by_design(place, "cni-podman0")
                         or place.startswith(PODMANS_OWN))

    def test_isolated_networks_of_podman_are_kept_apart(self):
        """podman network create --opt isolate=true is ingressPolicy same-bridge."""
        self.podman("load", "--signature-policy", f"{self.work}/policy.json", "-i", f"{self.work}/image.tar")
        found = {}
        for name, subnet in (("one", "10.90.1.0/24"), ("two", "10.90.2.0/24")):
            self.podman("network", "create", "--subnet", subnet, "--opt", "isolate=true", name)
            self.start("--name", name, "--network", name)
            settings = json.loads(self.podman("inspect", name).stdout)[0]["NetworkSettings"]
            found[name] = settings["Networks"][name]["IPAddress"]
            self.assertEqual(fetch(found[name]), PAGE)
        self.assertEqual(sorted(elements("same_bridge")), [("cni-podman1", "cni-podman1"),
                                                           ("cni-podman2", "cni-podman2")])
        for name, other in (("one", "two"), ("two", "one")):
            refused = self.podman("exec", name, "wget", "-T", "2", "-qO-", f"http://{found[other]}/", check=False)
            self.assertNotEqual(refused.returncode, 0, refused.stdout)
        for name in found:
            self.podman("rm", "-f", "-t", "0", name)
        self.assertEqual(accepted(), [])

    def test_injects_the_character_devices_of_patchbay_agent_by_their_CDI_names(self):
        if reason := agent.why_impossible():
            self.skipTest(reason)
        node = next((path for path in ("/dev/net/tun", "/dev/fuse", "/dev/loop-control") if os.path.exists(path)), None)
        if node is None:
            self.skipTest("the machine has no device that a container does not have anyway")
        self.podman("load", "--signature-policy", f"{self.work}/policy.json", "-i", f"{self.work}/image.tar")
        pool = {"resource": "vendor.example/tap", "slots": {"count": 2}, "plugins": [{"type": "tap"}], "nodes": [node], "cdi": True}
        by = agent.Agent(pool, flags=("--cdi-dir", "/var/run/cdi"))
        self.addCleanup(by.kill)
        [spec] = cdi.load("/var/run/cdi").values()
        first, second = (f"{spec['kind']}={device['name']}" for device in spec["devices"])
        done = self.podman("run", "--rm", "--cgroup-parent", f"/{self.cgroup}", "--network", "none", "--device", first,
                           image.NAME, "sh", "-c", f"test -c {node} && echo $PATCHBAY_DEVICE_TAP_1.$PATCHBAY_DEVICE_TAP_2")
        self.assertEqual(done.stdout.strip(), "tap:1.")
        self.podman("run", "--rm", "--cgroup-parent", f"/{self.cgroup}", "--network", "none", "--device", first,
                    "--device", second, image.NAME, "sh", "-c", f"test -c {node}")
        # A version that podman 4.3 does not know, as the content never needs it.
        self.assertIn(spec["cdiVersion"], ("0.3.0", "0.5.0"))

    def test_cnitool_goes_on_with_what_podman_noted(self):
        """podman's cache is written by the reference's library."""
        self.use(network(RANGES["IPv4"]))
        self.podman("load", "--signature-policy", f"{self.work}/policy.json",
                    "-i", f"{self.work}/image.tar")
        self.start("--name", "web", "-p", "8080:80", "--mac-address", "92:d0:c6:0a:29:33")
        web = json.loads(self.podman("inspect", "web").stdout)[0]
        container, netns = web["Id"], web["NetworkSettings"]["SandboxKey"]
        where = {"NETCONFPATH": "/etc/cni/net.d"}
        self.assertEqual(cache_names(), [f"patchbay-{container}-eth0"])
        theirs = cached("patchbay", container)
        listed, = cnitool("list", "--json", **where).json["attachments"]
        self.assertEqual((listed["containerID"], listed["addresses"]),
                         (container, [theirs["result"]["ips"][0]["address"]]))
        here = ["patchbay", netns, "--container-id", container]
        self.assert_ok(cnitool("check", *here, **where))
        # Ours, of another container, has the same keys in the same order, with the same meaning.
        pod = self.pod()
        args = ";".join("=".join(pair) for pair in theirs["cniArgs"] if pair[0] != "MAC")
        self.assert_ok(cnitool("add", "patchbay", pod.path, "--container-id", "c1", **where,
                               CNI_ARGS=args, CAP_ARGS=theirs["capabilityArgs"] | {
                                   "portMappings": [{"hostPort": 8081, "containerPort": 80,
                                                     "protocol": "tcp"}]}))
        ours = cached("patchbay", "c1")
        self.assertEqual([key for key in ours if key != "netns"],
                         [key for key in theirs if key != "netns"])
        for key in ("kind", "config", "ifName", "networkName"):
            self.assertEqual(ours[key], theirs[key])
        self.assertEqual(ours["capabilityArgs"].keys(), theirs["capabilityArgs"].keys())
        self.assertEqual(ours["result"].keys(), theirs["result"].keys())
        # What podman has is taken down by ours, and podman does not mind.
        self.assert_ok(cnitool("del", *here, **where))
        self.assertEqual(cache_names(), ["patchbay-c1-eth0"])
        self.podman("rm", "-f", "-t", "0", "web")

    def test_what_others_removed_is_repaired_under_a_running_container(self):
        self.use(network(RANGES["dual-stack"]))
        self.podman("load", "--signature-policy", f"{self.work}/policy.json",
                    "-i", f"{self.work}/image.tar")
        before = snapshot()
        self.start("--name", "web", "-p", "8080:80")
        web = json.loads(self.podman("inspect", "web").stdout)[0]
        found = web["NetworkSettings"]["Networks"]["patchbay"]
        places = [found["IPAddress"], found["GlobalIPv6Address"], "127.0.0.1:8080"]

        def seen():
            return (self.podman("exec", "web", "ip", "addr", "show", "eth0").stdout,
                    self.podman("exec", "web", "ip", "route").stdout)

        for place in places:
            self.assertEqual(fetch(place), PAGE, place)
        inside = seen()
        run("nft", "flush", "ruleset")
        run("ip", "link", "del", "cni-podman7")
        for place in places:
            self.assertIsNone(fetch(place, 0.5), place)
        done = self.assert_ok(cnitool("repair", "--json"))
        one, = done["attachments"]
        self.assertEqual((one["containerID"], one["outcome"]), (web["Id"], "repaired"))
        for place in places:
            self.assertEqual(fetch(place), PAGE, place)
        self.assertEqual(seen(), inside)
        self.podman("exec", "web", "ping", "-c1", "-W2", found["Gateway"])
        again = json.loads(self.podman("inspect", "web").stdout)[0]
        self.assertEqual(again["State"]["Pid"], web["State"]["Pid"])
        self.assertEqual(cnitool("repair").stdout, f"patchbay  web  {web['Id']}  eth0  ok\n")
        self.podman("rm", "-f", "-t", "0", "web")
        self.assert_same(before, ignore=lambda place: left_by_design(place, "cni-podman7")
                         or place.startswith(PODMANS_OWN) or place == "file/var/lib/cni/lock")

    def test_a_container_that_restarts_has_one_lease(self):
        self.use(network(RANGES["IPv4"]))
        self.podman("load", "--signature-policy", f"{self.work}/policy.json",
                    "-i", f"{self.work}/image.tar")
        self.start("--name", "web")
        for _ in range(3):
            self.podman("restart", "-t", "0", "web")
        leases = [name for name in os.listdir("/var/lib/cni/networks/patchbay")
                  if name[0].isdigit()]
        self.assertEqual(len(leases), 1, str(leases))
        links = json.loads(run("ip", "-j", "link", "show", "type", "veth"))
        self.assertEqual(len(links), 1, str(links))


if __name__ == "__main__":
    suite.main(needs=("podman", "runc", "busybox"))
