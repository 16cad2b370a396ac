#!/usr/bin/env python3
"""The task pages of docs/: their commands are typed on a node of their own, which is as before afterwards."""

import glob
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from e2e.walk import PAGES as WALKED  # noqa: E402
from support import agent, block_nodes, dhcp, dra_cluster, firewalld, k3s, kubelet, suite  # noqa: E402
from support.cnitool import CONTAINERD, default_containerd  # noqa: E402
from support.configs import lack, provide  # noqa: E402
from support.pages import ROOTS_PATH, blocks, text_of, typed, walk  # noqa: E402
from support.plugin import OURS, REFERENCE, ROOT, has_reference, have  # noqa: E402
from support.qemu import everybody_may_open_tun  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import MS_BIND, World, mount, run, umount  # noqa: E402

BUILD = os.path.join(ROOT, "build")


def segment():
    """A link eth1 of the node."""
    return provide("macvlan")


def segment_with_dhcp():
    if reason := lack("macvlan", "dhcp"):
        return reason
    provide("macvlan")
    run("ip", "addr", "add", "192.0.2.6/29", "dev", "eth1-out")
    os.mkdir("/run/served")
    dhcp.dnsmasq(pool="192.0.2.3,192.0.2.5", folder="/run/served", interface="eth1-out")
    return None


def uplink():
    run("ip", "-batch", "-", stdin="link add up0 type veth peer name up0-out\nlink set up0 up\nlink set up0-out up\n"
        "addr add 192.0.2.1/24 dev up0\nroute add default via 192.0.2.254\n")


def cluster_node():
    """An uplink, a network of the examples and the settings of a Kubernetes node."""
    uplink()
    shutil.copy(f"{ROOT}/conf-examples/10-kubernetes.conflist", "/etc/cni/net.d")
    with open(f"{ROOT}/conf-examples/node/sysctl.d-kubernetes.conf", encoding="utf-8") as file:
        lines = [line for line in file if line.strip() and not line.startswith("#")]
    for key, value in (line.split("=") for line in lines):
        with open("/proc/sys/" + key.strip().replace(".", "/"), "w", encoding="ascii") as setting:
            setting.write(value.strip())


def tun():
    if reason := lack("tap"):
        return reason
    return everybody_may_open_tun()


def own_etc():
    """What is written into /etc stays on this node."""
    World.private("/mnt")
    for path in ("/mnt/upper", "/mnt/work"):
        os.mkdir(path)
    mount("overlay", "/etc", "overlay", options="lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work")
    default_containerd()


def runtimes():
    """containerd and podman of the machine, containerd with Debian's folder, and a config of CRI-O."""
    if missing := have("containerd", "podman"):
        return f"needs {missing}"
    World.private("/usr/lib/cni")
    own_etc()
    os.makedirs("/etc/containerd", exist_ok=True)
    os.makedirs("/etc/crio")
    os.mkdir("/run/crio")
    for path, text in ((CONTAINERD, '[plugins."io.containerd.grpc.v1.cri".cni]\nbin_dir = "/usr/lib/cni"\n'),
                       ("/etc/crio/crio.conf", '[crio.network]\nplugin_dirs = [\n\t"/run/crio/bin/",\n]\n')):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    return None


def k3s_node():
    k3s.start("v1.9.1-k3s1")


def reference():
    """The reference plugins in a folder of this node's own."""
    if not has_reference("firewall"):
        return f"the Go plugins are not in {REFERENCE}"
    if missing := have("iptables", "ip6tables"):
        return f"needs {missing}"
    os.mkdir("/run/reference")
    for name in ("bridge", "firewall", "host-local", "portmap"):
        shutil.copy2(os.path.join(REFERENCE, name), "/run/reference")
    mount("/run/reference", "/usr/lib/cni", flags=MS_BIND)
    return None


def node_with_nic():
    """A NIC with a segment, a kubelet, and programs that play systemd and the cluster."""
    if reason := agent.why_impossible() or kubelet.why_impossible():
        return reason
    run("ip", "-batch", "-", stdin="link add ens5f1 type veth peer name segment\nlink set segment up\n")
    World.private("/usr/local")
    own_etc()
    os.makedirs("/etc/cni/net.d", exist_ok=True)
    return dra_cluster.DraCluster("pods-devices")


def two_nodes():
    """A segment with etcd's address, and node2: a mount namespace with folders and a name of its own. `ssh` runs there."""
    if reason := agent.why_impossible() or lack("macvlan", "cluster-pool"):
        return reason
    if missing := have("etcd"):
        return f"needs {missing}"
    provide("macvlan")
    own_etc()
    os.makedirs("/etc/cni/net.d", exist_ok=True)
    run("ip", "addr", "add", "192.0.2.1/24", "dev", "eth1")
    run("hostname", "node1")
    os.symlink(agent.PROGRAM, "/run/tools/patchbay-agent")
    return block_nodes.Other("node2", "/run/tools/ssh")


def compiler():
    missing = have("cmake", "c++", "make")
    return f"needs {missing}" if missing else None


#: {page: what makes the node that it needs, and says what is missing for that, or gives what is to be stopped}.
PAGES = {
    "docs/cluster-pool.md": two_nodes,
    "docs/devices.md": node_with_nic,
    "docs/dhcp.md": segment_with_dhcp,
    "docs/hostports.md": None,
    "docs/install.md": runtimes,
    "docs/k3s.md": k3s_node,
    "docs/kubernetes.md": None,
    "docs/kubernetes-node.md": cluster_node,
    "docs/kubevirt.md": tun,
    "docs/limits.md": None,
    "docs/multus.md": segment,
    "docs/pod-without-network.md": None,
    "docs/probe.md": None,
    "docs/upgrade.md": reference,
    "docs/which-config.md": uplink,
    "docs/writing-a-plugin.md": compiler,
}
#: Pages whose commands nobody types, beside those that tests/e2e/walk.py types.
UNTYPED = {
    "docs/kernels.md": "the command is a step of scripts/test --full",
    "docs/reliability.md": "the commands are sweeps, which take hours",
    "docs/security.md": "the commands are tests",
    "docs/speed.md": "the commands are the benchmark",
    "docs/testing.md": "the commands are the tests",
}
#: Fenced commands, by the beginning of their block: the reason why nobody types them.
NOT_TYPED = {
    "systemctl enable --now cni-dhcp.socket": "needs systemd; netns.dhcp_systemd plays it, with these units",
    "restorecon -R /var/lib/rancher/k3s/data/cni": "needs SELinux; install.installer sees that the label is kept",
    "skopeo copy --all": "needs a registry and a cluster; install.image reads the image and the file",
    "kubectl -n kube-flannel patch daemonset": "needs a cluster; install.image reads the file",
    "kubectl get node \"$(hostname)\" -o json | cnitool preset kubenet": "needs a cluster; netns.preset plays it",
    "kubectl get node \"$(hostname)\" -o json | cnitool preset kind": "needs a cluster; netns.preset plays it",
    "modprobe br_netfilter": "changes the machine; netns.doctor_kubernetes finds the settings",
    "kubectl get node $(hostname) -o json | cnitool": "needs a cluster",
    "printf '[Route]": "needs systemd-networkd",
    "kubectl apply -f /tmp/lan.yaml": "needs a cluster with Multus",
    "kubectl get nodes -o json | cnitool doctor --nodes -": "needs a cluster; netns.doctor_kubernetes plays it",
    "crictl info | grep -A3 NetworkReady": "needs a cluster",
    "kubectl get nodes -o custom-columns=NAME:.metadata.name,POD_CIDR:.spec.podCIDR": "needs a cluster",
    "cp conf-examples/87-podman.conflist /etc/cni/net.d/87-podman-bridge.conflist":
        "pulls an image; e2e.podman does this with an image of its own",
}


def install_as_readme():
    """The build at build/release, the plugins and cnitool where the README installs them; /tmp is this node's own."""
    built = os.path.dirname(OURS)  # which /tmp may have
    os.mkdir("/run/built")
    mount(built, "/run/built", flags=MS_BIND)
    mount("tmpfs", "/tmp", "tmpfs", options="mode=1777")
    os.makedirs(BUILD, exist_ok=True)
    mount("tmpfs", BUILD, "tmpfs")
    for place in {f"{BUILD}/release", built}:
        os.makedirs(place, exist_ok=True)
        mount("/run/built", place, flags=MS_BIND)
    umount("/run/built")
    os.rmdir("/run/built")
    World.private("/opt/cni/bin")
    run(f"{OURS}/patchbay", "install", "/opt/cni/bin")
    os.makedirs("/etc/cni/net.d", exist_ok=True)
    default_containerd()
    os.mkdir("/run/tools")
    os.symlink(f"{OURS}/cnitool", "/run/tools/cnitool")


def of_a_daemon(place):
    """What the daemons that a page needs write while it is typed."""
    return "/firewalld/" in place or place.startswith(("file/run/served", "file/run/cni/dhcp"))


@suite.spread
class Pages(suite.NodeTest):
    def setUp(self):
        super().setUp()
        install_as_readme()

    def type_page(self, page, without=()):
        """Types it. apt-get installs what this test needs of the machine."""
        roots = ("/var/lib", "/run", "/etc/cni", "/tmp")
        before, plugins = snapshot(roots), sorted(os.listdir("/opt/cni/bin"))
        text, _ = typed([page], ["apt-get ", *without])
        walked = walk(text, env=os.environ | {"PATH": f"/run/tools:{ROOTS_PATH}"}, seconds=300)
        if os.environ.get("PATCHBAY_SHOW"):  # for whoever writes a page
            print(walked.output)
        failure = walked.failure(text)
        self.assertIsNone(failure, f"{page}: {failure}\n{walked.output}")
        self.assertEqual(sorted(os.listdir("/opt/cni/bin")), plugins)
        self.assert_same(before, snapshot(roots), what=page,
                         ignore=lambda place: left_by_design(place) or of_a_daemon(place))

    @suite.cases([(os.path.basename(page), page) for page in PAGES])
    def can_be_typed(self, page):
        made = PAGES[page]() if PAGES[page] else None
        if isinstance(made, str):
            self.skipTest(made)
        if made:
            self.addCleanup(made.stop)
        self.type_page(page, ["firewall-cmd "])

    def test_hostports_while_firewalld_runs(self):
        if reason := firewalld.lack():
            self.skipTest(reason)
        firewalld.Firewalld(self)
        self.type_page("docs/hostports.md")


class Sources(suite.unittest.TestCase):
    """The pages themselves."""

    def test_each_page_with_commands_is_typed(self):
        pages = [os.path.relpath(path, ROOT) for path in sorted(glob.glob(f"{ROOT}/docs/*.md"))]
        with_commands = {page for page in pages if blocks(page)}
        self.assertEqual(with_commands - PAGES.keys() - UNTYPED.keys() - set(WALKED), set())

    def test_each_fenced_command_has_a_reason(self):
        fenced = [first for page in PAGES for first in re.findall(r"^```console\n(.*)$", text_of(page), re.MULTILINE)]
        begun = [next((begin for begin in NOT_TYPED if first.startswith(begin)), first) for first in fenced]
        self.assertEqual(sorted(begun), sorted(NOT_TYPED))

    def test_what_a_command_does_not_print_is_an_error(self):
        for words, wrong in (("two", []), ("three", ["/run/page:3: three"])):
            with open("/run/page", "w", encoding="ascii") as file:
                file.write(f"# Page\n\n    echo one; echo two    # prints: {words}\n")
            text, _ = typed(["/run/page"])
            self.assertEqual(walk(text).wrong, wrong)

    def test_a_command_that_fails_ends_the_page(self):
        for command, failure in (("false", "in /run/page:3"), ("sleep 60 &", "in the background"), ("true", None)):
            with open("/run/page", "w", encoding="ascii") as file:
                file.write(f"# Page\n\n    {command}\n")
            text, _ = typed(["/run/page"])
            got = walk(text).failure(text)
            self.assertTrue(got is None if failure is None else failure in got, got)


if __name__ == "__main__":
    suite.main(needs=("bash", "ping", "python3"))
