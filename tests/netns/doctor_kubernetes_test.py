#!/usr/bin/env python3
"""cnitool doctor --kubernetes: a node of Kubernetes on which all is well has no finding. Each thing that can be wrong is
broken on purpose: exactly its line appears, and its remedy, carried out literally, makes the line vanish."""

import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool, container_of  # noqa: E402
from support.doctor import BANDWIDTH, PORTMAP, write  # noqa: E402
from support.kubernetes import (BIN, BRIDGE, CONF, ENV, FAKES, FILE, FLANNEL, NODE, SUBNET_ENV, SUBNETS, TOML,  # noqa: E402
                                ClusterNodeTest, network, private_etc, use)
from support.world import MS_NOEXEC, Pod, mount, run  # noqa: E402

#: A plugin of another project, of each version.
FOREIGN = """#!/bin/sh
[ "$CNI_COMMAND" = VERSION ] && echo '{"cniVersion": "1.1.0", "supportedVersions": ["1.0.0", "1.1.0"]}'
exit 0
"""


def sysctl(key, value):
    return lambda test: test.set(key, value)


def conf(*plugins, **more):
    return lambda test: use(network(*plugins, **more))


def bridge(**keys):
    return conf(BRIDGE | keys, PORTMAP, BANDWIDTH)


def commands(*lines):
    return lambda test: [run(*line.split()) for line in lines]


def toml(text):
    """The runtime starts with another config."""
    def broken(test):
        write(TOML, text)
        os.utime(TOML, (0, 0))
        test.fake("systemctl", f"touch -d @0 {TOML}")
    return broken


def both(*steps):
    return lambda test: [step(test) for step in steps]


def flannel(env=ENV):
    """A network of flannel; kubectl makes flanneld write its file as it should be."""
    def broken(test):
        shutil.copy(f"{BIN}/bridge", f"{BIN}/flannel")
        write(f"{BIN}/flannel", FOREIGN, 0o755)
        use(network(FLANNEL, PORTMAP, name="cbr0"))
        write("/run/right.env", ENV)
        if env is not None:
            write(SUBNET_ENV, env)
        test.fake("kubectl", f"""[ "$*" = "-n kube-flannel rollout restart daemonset kube-flannel-ds" ] &&
            mkdir -p /run/flannel && cp /run/right.env {SUBNET_ENV}""")
    return broken


def old_subnet_env(test):
    flannel()(test)
    test.start("flanneld")
    os.utime(SUBNET_ENV, (1_000_000_000, 1_000_000_000))


def without_module(test):
    mount("tmpfs", "/proc/sys/net/bridge", "tmpfs")
    test.fake("modprobe", "[ $1 = br_netfilter ] && umount /proc/sys/net/bridge")


def router_advertisement(test):
    run("ip", "-6", "route", "del", "default")
    run("ip", "-6", "route", "add", "default", "via", "2001:db8::fe", "dev", "up0", "proto", "ra")
    test.set("net/ipv6/conf/up0/accept_ra", 1)


def overlay(mtu=1450, strict=False):
    def broken(test):
        run("ip", "link", "add", "flannel.1", "type", "vxlan", "id", "1", "local", "192.0.2.1", "dstport", "8472")
        run("ip", "link", "set", "flannel.1", "mtu", str(mtu))
        for link in ("all", "up0", "flannel.1"):
            test.set(f"net/ipv4/conf/{link}/rp_filter", 1 if strict and link == "flannel.1" else 0)
    return broken


def manager(test):
    private_etc()
    os.makedirs("/etc/NetworkManager/conf.d", exist_ok=True)
    test.fake("systemctl", "[ \"$*\" = 'reload NetworkManager' ]")
    test.start("NetworkManager")


def mac_policy(test):
    private_etc()
    write(f"{BIN}/bridge", FOREIGN, 0o755)
    test.fake("udevadm", "[ \"$*\" = 'control --reload' ]")
    test.start("systemd-udevd")


def late_config(test):
    os.utime(TOML)
    os.utime(TOML, (4_000_000_000, 4_000_000_000))
    test.fake("systemctl", f"[ \"$*\" = 'restart containerd' ] && touch -d @0 {TOML}")


def crio(text):
    def broken(test):
        test.stop("containerd")
        write("/run/crio.conf", text)
        os.utime("/run/crio.conf", (0, 0))
        test.fake("systemctl", "[ \"$*\" = 'restart crio' ] && touch -d @0 /run/crio.conf")
        test.start("crio", "--config", "/run/crio.conf", "--config-dir", "/run/crio.conf.d")
    return broken


def noexec(test):
    files = {name: open(f"{BIN}/{name}", "rb").read() for name in os.listdir(BIN)}
    mount("tmpfs", BIN, "tmpfs", flags=MS_NOEXEC, options="mode=755")
    for name, content in files.items():
        with open(f"{BIN}/{name}", "wb") as file:
            file.write(content)
        os.chmod(f"{BIN}/{name}", 0o755)


def labels(test):
    mount("tmpfs", "/sys/fs", "tmpfs")
    write("/sys/fs/selinux/enforce", "1")
    label = b"system_u:object_r:bin_t:s0"
    for name in os.listdir(BIN):
        os.setxattr(f"{BIN}/{name}", "security.selinux", label)
    os.setxattr(f"{BIN}/bridge", "security.selinux", label.replace(b"bin_t", b"usr_t"))
    write(f"{FAKES}/restorecon", f"#!{sys.executable}\nimport os, sys\nassert sys.argv[1:] == ['-R', '{BIN}']\n"
          f"os.setxattr('{BIN}/bridge', 'security.selinux', {label!r})\n", 0o755)


def replaced_file(name, content, suffix=".conflist"):
    return lambda test: write(f"{CONF}/{name}{suffix}", json.dumps(content))


def aside(test):
    os.rename(FILE, f"{CONF}/10-kubenet.conflist.txt")


def node_object(*subnets):
    return lambda test: write("/run/node.json", json.dumps(NODE | {"spec": {"podCIDRs": list(subnets)}}))


OTHER = network(BRIDGE | {"bridge": "cni1", "ipam": {"type": "host-local", "subnet": "10.88.0.0/16"}}, name="other")
PLUGIN_CHECKS = ("plugins", "status", "leftovers", "pods", "spec versions", "releases", "permissions")
V3 = f"version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['{BIN}']\n"

#: What is wrong: how, the check, its level, words of its line, and checks that see it too.
BROKEN = {
    "1 br_netfilter is not loaded": (without_module, "br_netfilter", "error", ["not loaded"]),
    "1 bridge-nf-call-iptables is 0": (sysctl("net/bridge/bridge-nf-call-iptables", 0), "br_netfilter", "error",
                                       ["bridge-nf-call-iptables is 0"]),
    "1 bridge-nf-call-ip6tables is 0": (sysctl("net/bridge/bridge-nf-call-ip6tables", 0), "br_netfilter", "error",
                                        ["bridge-nf-call-ip6tables is 0"]),
    "2 IPv4 is not forwarded": (sysctl("net/ipv4/ip_forward", 0), "forwarding", "error", ["net/ipv4/ip_forward is 0"]),
    "2 IPv6 is not forwarded": (sysctl("net/ipv6/conf/all/forwarding", 0), "forwarding", "error",
                                ["net/ipv6/conf/all/forwarding is 0"]),
    "2 what the uplink receives is not forwarded": (sysctl("net/ipv4/conf/up0/forwarding", 0), "forwarding", "error",
                                                    ["conf/up0/forwarding is 0"]),
    "2 a default route of a router advertisement expires": (router_advertisement, "router advertisements", "error",
                                                            ["up0/accept_ra is 1"]),
    "3 the policy of FORWARD is DROP": (commands("iptables -P FORWARD DROP"), "forward policy", "error",
                                        ["ip filter FORWARD", "drops packets by default"]),
    "4 a network of containerd is the first file": (
        both(lambda test: os.rename(FILE, f"{CONF}/20-kubenet.conflist"), replaced_file("10-containerd-net", OTHER)),
        "first network", "error", ["10-containerd-net.conflist is a network of containerd", "the first file"]),
    "4 a network of podman beside the cluster's": (replaced_file("87-podman-bridge", OTHER), "first network", "warning",
                                                   ["is a network of podman"]),
    "4 a file with another extension": (aside, "networks", "error", ["no network in"]),
    "5 a plugin is missing": (lambda test: shutil.move(f"{BIN}/portmap", "/run/portmap"), "plugins", "error",
                              ["'portmap' is not in /opt/cni/bin"]),
    "5 the delegate of flannel is missing": (
        both(flannel(), lambda test: shutil.move(f"{BIN}/host-local", "/run/host-local")), "plugins", "error",
        ["'host-local' is not in"]),
    "6 containerd has both bin_dir and bin_dirs": (toml(V3 + "bin_dir = '/usr/lib/cni'\n"), "runtime config", "error",
                                                   ["has both bin_dir and bin_dirs"]),
    "6 containerd's plugin cri is disabled": (toml(f"disabled_plugins = ['cri']\n{V3}"), "runtime config", "error",
                                              ["disables the plugin cri"]),
    "6 the runtime was started before its config was written": (late_config, "runtime config", "warning",
                                                                ["was started before its config"]),
    "6 CRI-O waits for a network that no file has": (
        crio(f"[crio.network]\ncni_default_network = \"gone\"\nplugin_dirs = [\n  '{BIN}/', # ours\n]\n"),
        "first network", "error", ["waits for network 'gone'"]),
    "7 the network has another subnet than the Node": (node_object("10.244.9.0/24", SUBNETS[1]), "pod subnets", "error",
                                                       ["10.244.1.0/24", "10.244.9.0/24"]),
    "7 flanneld has another subnet than the Node": (
        both(flannel(ENV.replace("10.244.1.1", "10.244.7.1"))), "pod subnets", "error", ["subnet.env has 10.244.7.0/24"]),
    "7 the bridge has an address of an earlier subnet": (
        commands("ip link add cni0 type bridge", "ip addr add 10.244.9.1/24 dev cni0"), "bridge addresses", "error",
        ["'cni0' has address 10.244.9.1/24"]),
    "8 the overlay has a larger MTU than fits": (overlay(mtu=1500), "overlay MTU", "error",
                                                 ["'flannel.1' has MTU 1500", "leaves it 1450"]),
    "8 the network has a larger MTU than the overlay": (both(overlay(), bridge(mtu=1500)), "overlay MTU", "warning",
                                                        ["has MTU 1500", "'flannel.1' 1450"]),
    "9 subnet.env does not exist": (flannel(None), "subnet.env", "error", ["subnet.env does not exist"]),
    "9 subnet.env is not complete": (flannel("FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\n"),
                                     "subnet.env", "error", ["lacks FLANNEL_MTU, FLANNEL_IPMASQ"]),
    "9 subnet.env cannot be parsed": (flannel(ENV.replace("1450", "many")), "subnet.env", "error", ["many"]),
    "9 subnet.env is older than flanneld": (old_subnet_env, "subnet.env", "warning", ["older than the flanneld"]),
    "10 portmap jumps to a chain of another mode of kube-proxy": (
        both(conf(BRIDGE, PORTMAP | {"externalSetMarkChain": "KUBE-MARK-MASQ"}, BANDWIDTH),
             commands("nft add table ip kube-proxy", "nft add chain ip kube-proxy services")),
        "Service marks", "error", ["'KUBE-MARK-MASQ'", "in mode nftables"]),
    "12 NetworkManager manages the bridge": (manager, "NetworkManager", "warning", ["cni0"]),
    "12 udev changes the MAC address of the bridge": (mac_policy, "MAC policy", "warning", ["bridge 'cni0'"]),
    "13 hairpinMode and promiscMode": (bridge(promiscMode=True), "hairpin", "error", ["hairpinMode and promiscMode"]),
    "13 a promiscuous bridge with hairpinMode": (
        commands("ip link add cni0 type bridge", "ip link set cni0 promisc on"), "hairpin", "warning",
        ["'cni0' is promiscuous"]),
    "13 no hairpinMode": (bridge(hairpinMode=False), "hairpin", "warning", ["has no hairpinMode"]),
    "14 the reverse path filter of the overlay is strict": (overlay(strict=True), "overlay reverse path", "warning",
                                                            ["flannel.1/rp_filter"]),
    "17 the plugins are on a file system without exec": (noexec, "plugin directories", "error", ["mounted noexec"]),
    "17 a plugin has a label that runtimes may not execute": (labels, "plugin directories", "error",
                                                              ["/opt/cni/bin/bridge (system_u:object_r:usr_t:s0)"]),
}
#: Checks that see the same, as one of them calls the plugin.
SEEN_TOO = {"5 a plugin is missing": PLUGIN_CHECKS, "5 the delegate of flannel is missing": PLUGIN_CHECKS,
            "13 hairpinMode and promiscMode": ("status", "leftovers"),
            "17 the plugins are on a file system without exec": PLUGIN_CHECKS,
            "10 portmap jumps to a chain of another mode of kube-proxy": ("status",),
            "4 a network of containerd is the first file": ("pod subnets",)}


def kubelet(config):
    def broken(test):
        write("/run/kubelet.yaml", config)
        test.start("kubelet", "--config=/run/kubelet.yaml")
    return broken


def renumbered(test):
    """The subnet of the node changes under a pod."""
    test.assert_ok(cnitool("add", "kubenet", Pod("web").path, CNI_PATH=BIN, NETCONFPATH=CONF))
    test.assertEqual(test.doctor(), [])
    new = ["10.244.5.0/24", "fd00:244:0:5::/64"]
    bridge(ipam={"type": "host-local", "ranges": [[{"subnet": subnet}] for subnet in new]})(test)
    node_object(*new)(test)


def foreign_vlan(test):
    if vlan_known():
        test.skipTest("this kernel has links of kind vlan")
    write(f"{BIN}/vlan", FOREIGN, 0o755)
    replaced_file("20-vlan", {"cniVersion": "1.0.0", "name": "lan", "plugins": [{"type": "vlan", "master": "up0", "vlanId": 5}]})(test)


def vlan_known():
    run("ip", "link", "add", "link", "up0", "name", "probe", "type", "vlan", "id", "9", check=False)
    return bool(run("ip", "link", "del", "probe", check=False, timeout=5)) or os.path.isdir("/proc/net/vlan")


#: As BROKEN, where the remedy is a decision or something to look at: what it says, and how the node is right again.
DIAGNOSED = {
    "4 a file is not JSON": (replaced_file("05-torn", "x"), "networks", "cnitool validate /etc/cni/net.d/05-torn.conflist",
                             commands(f"rm {CONF}/05-torn.conflist"), ()),
    "6 the config of containerd is not TOML": (
        toml("[plugins.cri.cni\n"), "runtime config", f"containerd --config {TOML} config dump",
        toml(f"[plugins.cri.cni]\nbin_dir = '{BIN}'\n"), ()),
    "6 options name other directories": (lambda test: setattr(test, "conf_dir", "/run/other"), "runtime directories",
                                         f"cnitool doctor --kubernetes --conf-dir {CONF} --path {BIN}",
                                         lambda test: setattr(test, "conf_dir", None), ("networks", "permissions")),
    "7 a pod has an address of an earlier subnet": (
        renumbered, "lease ranges", "restart ", lambda test: [run("ip", "link", "del", "cni0"), node_object(*SUBNETS)(test),
                                                              use(network())], ("bridge addresses", "pods", "addresses")),
    "11 the pod network overlaps the nodes'": (
        flannel(ENV.replace("10.244.0.0/16", "192.0.0.0/8")), "cluster ranges", "--pod-network-cidr", flannel(), ()),
    "11 the Service network overlaps the pods'": (
        lambda test: test.start("kube-apiserver", "--service-cluster-ip-range=10.244.0.0/16,fd00:99::/112"),
        "cluster ranges", "--service-cidr", lambda test: test.stop("kube-apiserver"), ()),
    "11 the DNS of the cluster has an address of the nodes'": (
        kubelet("clusterDomain: cluster.local\nclusterDNS:\n- 192.0.2.10\nmore: 1\n"), "cluster ranges", "--service-cidr",
        lambda test: test.stop("kubelet"), ()),
    "15 the kernel has no links of a kind": (foreign_vlan, "kernel features", "modprobe 8021q",
                                             commands(f"rm {CONF}/20-vlan.conflist"), ()),
}


@suite.spread
class Preflight(ClusterNodeTest):
    @suite.cases([(name, (name, *row)) for name, row in BROKEN.items()])
    def broken(self, row):
        name, broken, check, level, words = row
        broken(self)
        found = self.doctor()
        mine = [one for one in found if one["check"] == check]
        self.assertEqual(len(mine), 1, f"{found}")
        self.assertEqual(mine[0]["level"], level, str(mine))
        for word in words:
            self.assertIn(word, mine[0]["what"])
        self.assertTrue(mine[0]["why"] and mine[0]["remedy"], str(mine))
        self.assertEqual({one["check"] for one in found} - {check} - set(SEEN_TOO.get(name, ())), set(), str(found))
        os.chdir("/run")  # where a missing plugin is
        self.carry_out(mine[0]["remedy"])
        self.assertEqual(self.doctor(), [])


    @suite.cases([(name, row) for name, row in DIAGNOSED.items()])
    def diagnosed(self, row):
        broken, check, remedy, cure, besides = row
        broken(self)
        found = self.doctor()
        mine = [one for one in found if one["check"] == check]
        self.assertEqual(len(mine), 1, str(found))
        self.assertIn(remedy, mine[0]["remedy"])
        self.assertEqual({one["check"] for one in found} - {check} - set(besides), set(), str(found))
        cure(self)
        self.assertNotIn(check, [one["check"] for one in self.doctor()])

    def test_7_the_gateway_of_pods_that_live_is_not_removed_under_them(self):
        renumbered(self)
        found = [one for one in self.doctor() if one["check"] == "bridge addresses"]
        self.assertEqual(len(found), 2, str(found))
        id_begins = container_of("/run/netns/web")[:12]
        for one in found:
            self.assertRegex(one["remedy"], f"^remove the pods {id_begins} .eth0., then ip addr del 1?[0-9a-f.:]+/[0-9]+ dev cni0$")
        self.assert_ok(cnitool("del", "kubenet", "/run/netns/web", CNI_PATH=BIN, NETCONFPATH=CONF))
        found = [one for one in self.doctor() if one["check"] == "bridge addresses"]
        for one in found:
            self.carry_out(one["remedy"])
        self.assertEqual(self.doctor(), [])

    def test_16_elements_of_pods_that_k3s_killall_removed(self):
        """It removes the state of all plugins, and no table of nftables."""
        pod = Pod("web")
        self.assert_ok(cnitool("add", "kubenet", pod.path, CNI_PATH=BIN, NETCONFPATH=CONF, CAP_ARGS={
            "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}))
        pod.remove()
        run("ip", "link", "del", "cni0")
        shutil.rmtree("/var/lib/cni")
        self.assertIn("8080", run("nft", "list", "ruleset"))
        found = self.doctor()
        self.assertEqual([one["check"] for one in found], ["leftovers"], str(found))
        self.carry_out(found[0]["remedy"])
        self.assertEqual(self.doctor(), [])
        self.assertNotIn("8080", run("nft", "list", "ruleset"))
        self.assertEqual(json.load(open(FILE, encoding="utf-8"))["cniVersion"], "1.0.0")


class Healthy(ClusterNodeTest):
    def test_networks_and_plugins_of_k3s_are_found_by_the_config_of_its_containerd(self):
        self.stop("containerd")
        data = "/var/lib/rancher/k3s"
        for folder in (f"{data}/data/cni", f"{data}/agent/etc/cni/net.d", f"{data}/agent/etc/containerd"):
            os.makedirs(folder)
        for name in os.listdir(BIN):
            shutil.move(f"{BIN}/{name}", f"{data}/data/cni")
        shutil.move(FILE, f"{data}/agent/etc/cni/net.d/10-flannel.conflist")
        config = f"{data}/agent/etc/containerd/config.toml"
        write(config, f"version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\n  bin_dirs = [\"{data}/data/cni\"]\n"
              f"  conf_dir = \"{data}/agent/etc/cni/net.d\"\n")
        os.utime(config, (0, 0))
        self.start("containerd", "-c", config)
        self.assertEqual(self.doctor(), [])

    def test_an_import_replaces_the_section_of_a_plugin(self):
        write("/run/conf.d/10.toml", f"[plugins.'io.containerd.grpc.v1.cri'.cni]\nbin_dir = '{BIN}'\n")
        toml("version = 2\nimports = ['conf.d/*.toml']\n[plugins.'io.containerd.grpc.v1.cri'.cni]\n"
             "bin_dir = '/run/nothing'\nconf_dir = '/run/nothing'\n")(self)
        os.utime("/run/conf.d/10.toml", (0, 0))
        self.assertEqual(self.doctor(), [])

    def test_the_containerd_of_docker_is_not_the_runtime_of_pods(self):
        self.stop("containerd")
        write("/run/docker/containerd.toml", "disabled_plugins = ['cri']\n")
        os.utime("/run/docker/containerd.toml", (0, 0))
        self.start("containerd", "--config", "/run/docker/containerd.toml")
        self.assertEqual([one["check"] for one in self.doctor()], ["runtime config"])

    def test_a_healthy_node_has_a_line_for_each_subject_and_no_finding(self):
        self.assertEqual(self.doctor(), [])
        outcome = cnitool("doctor", "--kubernetes", "--node-json", "/run/node.json", CNI_PATH=None, NETCONFPATH=None)
        lines = outcome.stdout.splitlines()
        self.assertLess(len(lines), 13, outcome.stdout)
        self.assertRegex(outcome.stdout, rf"runtime +ok +containerd, {TOML}\n")
        self.assertRegex(outcome.stdout, r"cluster +ok +pod network kubenet, 10.244.1.0/24, fd00:244:0:1::/64\n")
        self.assertEqual(lines[-2], "0 errors, 0 warnings")

    def test_a_node_of_flannel_with_an_overlay_is_healthy(self):
        overlay()(self)
        flannel()(self)
        self.start("flanneld")
        os.utime(SUBNET_ENV, (4_000_000_000, 4_000_000_000))
        self.assertEqual(self.doctor(), [])


NODES = "/run/nodes.json"
TWO_NODES = (("n1", ["10.244.1.0/24", "fd00:244:0:1::/64"], ["192.0.2.1", "2001:db8::1"]),
             ("n2", ["10.244.2.0/24", "fd00:244:0:2::/64"], ["192.0.2.2", "2001:db8::2"]))
ROUTES = ("ip route add 10.244.2.0/24 via 192.0.2.2", "ip -6 route add fd00:244:0:2::/64 via 2001:db8::2")


def write_nodes(*nodes):
    """As `kubectl get nodes -o json` prints them."""
    items = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
              "spec": {"podCIDR": subnets[0], "podCIDRs": subnets} if subnets else {},
              "status": {"addresses": [{"type": "InternalIP", "address": one} for one in addresses] +
                         [{"type": "Hostname", "address": name}]}} for name, subnets, addresses in nodes]
    write(NODES, json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def third_node(subnet, address):
    return lambda test: write_nodes(*TWO_NODES, ("n3", [subnet], [address]))


#: As BROKEN, of a node with routes to n2; and what the line proposes.
BROKEN_PEERS = {
    "a route is missing": (commands("ip route del 10.244.2.0/24"), "peer routes", "error",
                           ["10.244.2.0/24 of node 'n2' (192.0.2.2)"],
                           "ip route add 10.244.2.0/24 via 192.0.2.2 dev up0"),
    "an IPv6 route is missing": (commands("ip -6 route del fd00:244:0:2::/64"), "peer routes", "error",
                                 ["fd00:244:0:2::/64 of node 'n2'"],
                                 "ip -6 route add fd00:244:0:2::/64 via 2001:db8::2 dev up0"),
    "a route leads to another node": (commands("ip route replace 10.244.2.0/24 via 192.0.2.77"), "peer routes", "warning",
                                      ["leads via 192.0.2.77 dev up0"],
                                      "ip route replace 10.244.2.0/24 via 192.0.2.2 dev up0"),
    "a route is a black hole": (commands("ip route del 10.244.2.0/24", "ip route add blackhole 10.244.2.0/24"), "peer routes",
                                "error", ["10.244.2.0/24"], "ip route replace 10.244.2.0/24 via 192.0.2.2 dev up0"),
    "a peer behind a router": (third_node("10.244.3.0/24", "203.0.113.3"), "peer routes", "error",
                               ["10.244.3.0/24 of node 'n3' (203.0.113.3)"],
                               "ip route add 10.244.3.0/24 via 192.0.2.254 dev up0"),
    "packets to peers are masqueraded": (bridge(ipMasq=True), "peer masquerading", "warning",
                                         ["10.244.2.0/24, fd00:244:0:2::/64"],
                                         f'in {FILE} set "ipMasqExcept": ["10.244.2.0/24","fd00:244:0:2::/64"] in the plugin '
                                         '"bridge"'),
    "packets are not forwarded": (sysctl("net/ipv4/ip_forward", 0), "forwarding", "error", ["ip_forward is 0"],
                                  "sysctl -w net.ipv4.ip_forward=1"),
}
#: Objects that are refused, and the words.
REFUSED = {": kind is \"Pod\", expected \"Node\"": {"kind": "Pod"},
           ": items[0]: spec.podCIDRs: not a network: \"10.244.2.0\"": {
               "kind": "List", "items": [{"kind": "Node", "spec": {"podCIDRs": ["10.244.2.0"]}}]},
           ": no Node has spec.podCIDRs": {"kind": "List", "items": [{"kind": "Node"}]}}


@suite.spread
class Peers(ClusterNodeTest):
    def setUp(self):
        super().setUp()
        commands(*ROUTES)(self)
        write_nodes(*TWO_NODES)

    @suite.cases(list(BROKEN_PEERS.items()))
    def peers(self, row):
        broken, check, level, words, remedy = row
        broken(self)
        found = self.doctor("--nodes", NODES)
        self.assertEqual([(one["check"], one["level"], one["remedy"]) for one in found], [(check, level, remedy)], str(found))
        for word in words:
            self.assertIn(word, found[0]["what"])
        self.carry_out(remedy)
        self.assertEqual(self.doctor("--nodes", NODES), [])

    def test_a_node_that_reaches_its_peers_is_healthy(self):
        self.assertEqual(self.doctor("--nodes", NODES), [])
        self.assertEqual(self.doctor("--kubernetes", "--nodes", NODES), [])
        outcome = cnitool("doctor", "--nodes", NODES, CNI_PATH=BIN, NETCONFPATH=CONF)
        self.assertRegex(outcome.stdout, r"peers +ok +2 nodes, 2 subnets\n")

    def test_a_peer_through_an_overlay_needs_no_other_route(self):
        overlay()(self)
        commands("ip route del 10.244.2.0/24", "ip link set flannel.1 up",
                 "ip route add 10.244.2.0/24 via 10.244.2.0 dev flannel.1 onlink")(self)
        self.assertEqual(self.doctor("--nodes", NODES), [])

    def test_subnets_of_two_nodes_that_overlap_are_named_until_the_file_is_right(self):
        for subnet, other in (("10.244.2.128/25", "10.244.2.0/24 of node 'n2'"), ("10.244.1.0/25", "10.244.1.0/24 of node 'n1'")):
            third_node(subnet, "192.0.2.3")(self)
            commands(f"ip route add {subnet} via 192.0.2.3")(self)
            found = [one for one in self.doctor("--nodes", NODES) if one["check"] == "peer subnets"]
            self.assertIn(f"subnet {subnet} of node 'n3' overlaps {other}", [one["what"] for one in found])
            commands(f"ip route del {subnet}")(self)

    def test_a_peer_without_any_route_is_named(self):
        commands("ip route del default")(self)
        third_node("10.244.3.0/24", "203.0.113.3")(self)
        found = [one for one in self.doctor("--nodes", NODES) if one["check"] == "peer routes"]
        self.assertEqual([one["what"] for one in found], ["there is no route to node 'n3' (203.0.113.3)"])

    def test_a_peer_without_an_address_of_the_family_is_unknown_and_one_without_subnet_no_peer(self):
        write_nodes(*TWO_NODES, ("n3", ["fd00:244:0:3::/64"], ["192.0.2.3"]), ("n4", [], ["192.0.2.4"]))
        self.assertEqual([(one["level"], one["what"]) for one in self.doctor("--nodes", NODES)],
                         [("unknown", "node 'n3' has pods fd00:244:0:3::/64, and no InternalIP of that family")])

    @suite.cases([(words, (words, wrong)) for words, wrong in REFUSED.items()])
    def refused(self, row):
        words, wrong = row
        write(NODES, json.dumps(wrong))
        error = cnitool("doctor", "--json", "--nodes", NODES).json
        self.assertEqual((error["code"], error["msg"]), (7, f"{NODES}{words}"))


if __name__ == "__main__":
    suite.main()
