#!/usr/bin/env python3
"""What `cnitool probe` says where the node, the kernel or its capabilities keep something from it, and that the rest goes on."""

import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, refused, suite  # noqa: E402
from support.cnitool import environment, finish, start  # noqa: E402
from support.doctor import BIN  # noqa: E402
from support.places import ROOT  # noqa: E402
from support.probe import connections, differences, traces  # noqa: E402
from support.troubles import Node  # noqa: E402
from support.world import MS_BIND, MS_RDONLY, MS_REMOUNT, mount, run, umount, wait_for  # noqa: E402

UNSEEN = "the kernel's own reasons for drops are not seen: "
UNNAMED = "rules of nf_tables that drop packets are not named: "
RULE = "chain 'i' of table inet site drops packets"
_node = None


def why_without_bpf():
    """What the note has to say, and what goes in front of a command: nothing, where the kernel is locked down (VM_ARGUMENTS of
    scripts/vm), or cnitool was built so (tests/install/without_bpf.sh)."""
    if os.environ.get("PATCHBAY_WITHOUT_BPF"):
        return "this build is without eBPF (CMake's option CNI_BPF was off)", ()
    with open("/proc/cmdline", encoding="ascii") as file:
        if "lockdown=confidentiality" in file.read():
            return "(the kernel's lockdown is \"confidentiality\")", ()
    return "operation not permitted", refused.wrap("bpf")


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def without(*capabilities):
    """Goes in front of a command."""
    return ("setpriv", "--bounding-set=" + ",".join(f"-{one}" for one in capabilities))


class Limits(suite.NodeTest):
    def setUp(self):
        global _node
        if _node is None:
            guest.load("nf_tables", "nft_reject_inet", "ip_tables", "iptable_filter")
            _node = Node()
            self.assertEqual(_node.probe()[:2], (0, []))
            run("nft", "add table inet site; add chain inet site i { type filter hook input priority 0; }; "
                "add rule inet site i ip saddr 10.1.2.0/28 icmp type echo-request drop")
            wait_for(lambda: '"tentative":true' not in run("ip", "-j", "addr"))  # the uplink's of its link
            run("ping", "-c1", "-W2", "-q", "192.0.2.2")  # who was asked for its MAC address may ask back
        self.before = traces("a", "b", "p"), connections()

    def tearDown(self):
        self.assertEqual(differences(self.before[0], traces("a", "b", "p")), {})
        self.assertEqual(connections() - self.before[1], set())

    def cnitool(self, *words, wrap=()):
        return finish(start(*words, wrap=wrap, CNI_PATH=BIN))

    def probed(self, wrap=()):
        """What a run says, which finds something, and its notes: each is a line of the text, too."""
        done = self.cnitool("probe", "--json", "--rate", "2000", wrap=wrap)
        answer = json.loads(done.stdout)
        self.assertEqual((done.status, answer["ok"]), (1, False), done.stdout)
        # Its tables stay in use where a test has used them.
        return [one["what"] for one in answer["findings"]], [one for one in answer["limits"] if "are not traced" not in one]

    def assert_lost(self, *wanted, wrap=()):
        """The rule is named, and each of these is said in one note, and nothing else."""
        found, limits = self.probed(wrap)
        self.assertEqual(len(found), 1, found)
        self.assertIn(RULE, found[0])
        self.assertEqual(len(limits), len(wanted), limits)
        for one in wanted:
            self.assertTrue(any(one in each for each in limits), limits)

    def hide(self, path, by="/dev/null"):
        mount(by, path, flags=MS_BIND)
        self.addCleanup(umount, path)

    def test_nothing_is_lost_without_tracefs_locked_memory_and_a_sys_that_can_be_written(self):
        mount("/sys", "/sys", flags=MS_BIND)
        self.addCleanup(umount, "/sys")
        mount("", "/sys", flags=MS_BIND | MS_REMOUNT | MS_RDONLY)
        self.assertFalse(os.path.ismount("/sys/kernel/tracing"))
        self.assert_lost(wrap=("prlimit", "--memlock=0", *without("sys_resource", "bpf", "perfmon")))  # CAP_SYS_ADMIN is enough

    def test_without_bpf(self):
        why, wrap = why_without_bpf()
        self.assert_lost(UNSEEN, wrap=wrap)
        done = self.cnitool("probe", "-q", "--rate", "2000", wrap=wrap)
        notes = [line for line in done.stdout.splitlines() if line.startswith("note: ")]
        self.assertEqual(len(notes), 1, done.stdout)
        self.assertIn(why, notes[0])

    def test_without_addresses_of_functions_and_without_nft(self):
        self.hide("/proc/kallsyms")
        self.assert_lost("kernel.kptr_restrict hides where they are")
        self.hide(shutil.which("nft"))
        found, limits = self.probed()
        self.assertEqual(len(limits), 2, limits)
        self.assertIn("named by their handles alone: nft is not installed", "".join(limits))
        self.assertRegex(found[0], RULE + r": handle \d+")
        umount(shutil.which("nft") or "/usr/sbin/nft")
        self._cleanups.pop()

    def test_without_nfnetlink(self):
        found, limits = self.probed(wrap=refused.wrap("netfilter"))
        self.assertEqual(len(limits), 2, limits)
        self.assertIn("tracked connections are not seen, and those of probes stay until they expire", limits[0])
        self.assertIn(UNNAMED, limits[1])
        self.assertFalse(any("no rule of nf_tables" in one for one in found), found)
        self.before = self.before[0], connections()

    def test_without_conntrack_messages(self):
        """In the virtual machine, whose kernel loads no more modules then: nf_conntrack_netlink is one of its own."""
        if not os.environ.get("PATCHBAY_GUEST"):
            self.skipTest("needs a kernel of its own")
        run("modprobe", "-d", os.environ["PATCHBAY_KERNEL"], "-r", "nf_conntrack_netlink", check=False)
        with open("/proc/sys/kernel/modprobe", "r+", encoding="ascii") as file:
            self.addCleanup(lambda path=file.read(): write("/proc/sys/kernel/modprobe", path))
        write("/proc/sys/kernel/modprobe", "/bin/false\n")
        self.assert_lost("those of probes stay until they expire: the kernel has no ctnetlink (module nf_conntrack_netlink)")
        self.before = self.before[0], connections()

    def test_a_node_of_a_user_without_root(self):
        """As rootless podman makes one: root of a user namespace, whose kernel programs are refused."""
        script = (f"import sys; sys.path[:0] = [{ROOT + '/tests'!r}]\nfrom support.troubles import Node, shown\nfrom support.world import run\n"
                  "node = Node()\nassert node.probe()[:2] == (0, []), node.probe()\n"
                  "run('nft', 'add table inet site; add chain inet site i { type filter hook input priority 0; }; "
                  "add rule inet site i ip saddr 10.1.2.0/28 icmp type echo-request drop')\n"
                  "for _ in range(3):\n status, found, _ = node.probe()\n assert status == 1 and len(found) == 1, shown(found)\n print(found[0]['what'])")
        done = subprocess.run(["unshare", "-Urmpf", "--mount-proc", sys.executable, "-c", script], capture_output=True, text=True, check=False)
        if "unshare" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual((done.returncode, done.stdout.count(RULE)), (0, 3), done.stderr)

    def test_without_iptables_legacy_save(self):
        if shutil.which("iptables-legacy-save") is None or subprocess.run(["iptables-legacy", "-S"], capture_output=True, check=False).returncode:
            self.skipTest("needs iptables-legacy")
        self.hide(os.path.realpath(shutil.which("iptables-legacy-save")))
        self.assert_lost("rules of iptables-legacy (filter) are neither traced nor read: iptables-legacy-save is not installed")

    def test_capabilities_that_it_needs_are_named_before_anything_is_sent(self):
        for capability in ("net_admin", "net_raw", "sys_admin"):
            done = self.cnitool("probe", wrap=without(capability))
            self.assertEqual((done.status, done.stdout), (1, ""), str(done))
            self.assertIn(f"(this needs CAP_{capability.upper()}): operation not permitted", done.stderr)
        done = self.cnitool("probe", wrap=("unshare", "-Ur"))
        self.assertEqual((done.status, done.stdout), (1, ""), str(done))
        self.assertIn("operation not permitted", done.stderr)

    def test_doctor_goes_on_and_fails(self):
        done = self.cnitool("doctor", "--probe", "--json", wrap=without("net_raw"))
        answer = json.loads(done.stdout)
        mine = [one for one in answer["findings"] if "pods were not probed" in one["what"]]
        self.assertEqual([one["level"] for one in mine], ["error"], answer)
        self.assertGreater(len(answer["findings"]), 10)
        self.assertEqual((done.status, answer["ok"]), (1, False))

    def test_doctor_says_what_probes_do_not_see(self):
        done = self.cnitool("doctor", "--probe", "--json", wrap=why_without_bpf()[1])
        answer = json.loads(done.stdout)
        self.assertEqual([one["level"] for one in answer["findings"] if UNSEEN in one["what"]], ["note"], answer)
        self.assertEqual(len([one for one in answer["findings"] if RULE in one["what"]]), 1)
        self.assertEqual(done.status, 1)


if __name__ == "__main__":
    suite.main(needs=("setpriv", "prlimit", "unshare"))
