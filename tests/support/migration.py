"""A node with pods of the reference plugins, which is upgraded, migrated and rolled back."""

import os
import re
import shutil
import subprocess

from support import hostport, suite
from support.cnitool import cache_names, cnitool, use
from support.hostport import NODE, OUTSIDE, Site
from support.plugin import OURS, REFERENCE, has_reference
from support.snapshot import left_by_design, snapshot
from support.steady import Echoes, wrong
from support.world import run

DIR = "/run/cni-plugins"  # a copy of the reference's folder
_TYPES = ("bridge", "ptp", "host-local", "portmap", "firewall", "bandwidth", "tuning")
_LIMITS = {"ingressRate": 500_000_000, "ingressBurst": 50_000_000,
           "egressRate": 500_000_000, "egressBurst": 50_000_000}


def network(backend, interface="bridge", **more):
    """All that the reference plugins have in another form."""
    keys = {"backend": backend} if backend else {}
    masq = {"ipMasqBackend": backend} if backend else {}
    pods = {"type": interface, "ipMasq": True, **masq, "ipam": {"type": "host-local", "ranges": [
        [{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1:2::/64"}]]}}
    if interface == "bridge":
        pods |= {"bridge": "cni0", "isDefaultGateway": True, "hairpinMode": True}
    else:
        pods["ipam"]["routes"] = [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]
    return {"cniVersion": "1.0.0", "name": "net", "plugins": [
        pods, {"type": "portmap", "capabilities": {"portMappings": True}, **keys},
        {"type": "bandwidth", **_LIMITS}, {"type": "firewall", **keys, **more}]}


class MigrateTest(suite.NodeTest):
    def prepare(self, conf, pods, variant="nft"):
        if not has_reference("firewall"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        if reason := hostport.select_iptables(variant):
            self.skipTest(reason)
        os.mkdir(DIR)
        for name in _TYPES:
            shutil.copy2(os.path.join(REFERENCE, name), DIR)
        self.site = Site()
        for family in ("-4", "-6"):  # what is not masqueraded is lost outside
            self.site.outside.run("ip", family, "route", "del", "default")
        # Thousands of connections a second, each tracked for two minutes after its end, would fill the table.
        run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.netfilter.nf_conntrack_tcp_timeout_time_wait=5")
        use(conf)
        self.clean, self.files = snapshot(), sorted(os.listdir(DIR))
        self.all = {}
        for _ in range(pods):
            self.add()

    def call(self, *words, **env):
        return cnitool(*words, CNI_PATH=DIR, **env)

    def add(self, directory=DIR):
        pod = self.pod()
        n = self.pods
        ports = [{"hostPort": 8000 + n, "containerPort": 80, "protocol": p} for p in ("tcp", "udp")]
        result = self.assert_ok(cnitool("add", "net", pod.path, "--container-id", pod.name, CNI_PATH=directory,
                                        CAP_ARGS={"portMappings": ports}))
        pod.addresses = {6 if ":" in ip["address"] else 4: ip["address"].split("/")[0] for ip in result["ips"]}
        pod.port = 8000 + n
        self.all[pod.name] = pod
        return pod

    def checks(self):
        """What CHECK says of each pod. That of the reference 1.1.1 fails for dual-stack: it looks for rules of IPv4 in
        ip6tables."""
        return {name: self.call("check", "net", pod.path, "--container-id", name).stderr
                for name, pod in self.all.items()}

    def check_all(self):
        for pod in self.all.values():
            done = self.call("check", "net", pod.path, "--container-id", pod.name)
            self.assertEqual((done.status, done.stderr), (0, ""), f"CHECK of {pod.name}: {done}")

    def delete(self, pod):
        done = self.call("del", "net", pod.path, "--container-id", pod.name)
        self.assertEqual((done.status, done.stderr), (0, ""), str(done))
        del self.all[pod.name]
        self.assertEqual(self.rules_of(pod), [], "DEL leaves rules")

    def delete_by_reference(self, pod, as_own):
        """as_own: the exit status of its DEL for a pod of its own. That of 1.9.1 fails after it removed all, where the
        rules are in nftables and iptables is 1.8.9: it does not expect the answer that a chain does not exist."""
        done = self.call("del", "net", pod.path, "--container-id", pod.name)
        self.assertEqual(done.status, as_own, str(done))
        self.assertEqual(self.rules_of(pod), [], "DEL of the reference leaves rules")
        if done.ok:
            del self.all[pod.name]
        return done.status

    def installer(self, verb, *words, of=OURS):
        done = subprocess.run([os.path.join(of, "patchbay"), verb, DIR, *words], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def migrate(self, *words, status=0):
        done = self.call("migrate", "--json", *words)
        self.assertEqual(done.status, status, str(done))
        return {one["containerID"]: one for one in done.json["attachments"]}

    def assert_migrated(self, outcome, *words):
        found = {name: one["outcome"] for name, one in self.migrate(*words).items()}
        self.assertEqual(found, {name: outcome for name in self.all})

    @staticmethod
    def ruleset():
        return (run("nft", "-a", "list", "ruleset").splitlines() +
                run("iptables-save").splitlines() + run("ip6tables-save").splitlines())

    def rules_of(self, pod):
        """All lines of either firewall that are about the pod."""
        words = (*(re.escape(a) + r"\b(?![.:]\d*[/.])" for a in pod.addresses.values()), rf'"{pod.name}\b',
                 rf"id: {pod.name}\b")
        return [line for line in self.ruleset() if any(re.search(word, line) for word in words)]

    def of_reference(self, pod):
        """Those that only the reference plugins have."""
        return [line for line in self.rules_of(pod)
                if "CNI-DN-" in line or "MASQUERADE" in line or 'comment "' + pod.name in line]

    def ways(self, pods, limit=None):
        """Every way that a rule of the plugins opens, or masquerades."""
        pods = list(pods)
        out = []
        for at, pod in enumerate(pods):
            for family in (4, 6):
                out.append((self.site.outside, NODE[family], pod.port, f"{pod.name} {OUTSIDE[family]}"))
                out.append((pod, OUTSIDE[family], 80, f"outside {NODE[family][:-1]}"))
            out.append((pods[at - 1], NODE[4], pod.port, f"{pod.name} "))
            out.append((None, "127.0.0.1", pod.port, f"{pod.name} "))
        return out[:limit]

    def assert_steady(self, steady, least):
        done = steady.finish()
        self.assertIn("requests", done)
        self.assertEqual((done["failed"][:5], done["slow"][:5]), ([], []), f"of {done['requests']} requests")
        self.assertGreater(done["requests"], least)

    def assert_nothing_left(self):
        for pod in list(self.all.values()):
            self.delete(pod)
        self.assertEqual(cache_names(), [])
        of_every_add = re.compile("nft/rule/ip6?/cni_hostport/(hostports_all|output|prerouting)#")
        self.assert_same(self.clean, ignore=lambda place: left_by_design(place) or of_every_add.match(place)
                         or place.startswith(("file/run/netns/", "file/run/xtables-", "file/run/cni-plugins/",
                                              "file/run/reference/"))
                         or place in ("file/var/lib/cni/lock", "file/var/lib/cni/results/"))

    def begin(self, conf, pods):
        self.prepare(conf, pods)
        shutil.copytree(DIR, "/run/reference")
        self.installer("install")
        Echoes(self, [*self.all.values(), self.site.outside])

    def assert_works(self):
        self.assertEqual(wrong(self.ways(self.all.values())), [])
