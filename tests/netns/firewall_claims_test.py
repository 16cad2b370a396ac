#!/usr/bin/env python3
"""What the plugin firewall notes in /run/cni/firewall of addresses whose rules name no owner."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.firewall import CLAIMS, FirewallTest, addresses, result_of  # noqa: E402
from support.world import run, small_disk  # noqa: E402

LOG = "/run/log"
BOTH = ["10.1.2.3", "fd00:1:2::3"]


@suite.spread
class Claims(FirewallTest):
    """Without traffic."""

    def setUp(self):
        super().setUp()
        self.backend = "iptables"
        run("ip", "link", "add", "cni0", "type", "bridge")
        self.add(3)

    def test_torn_and_foreign_claims_harm_nobody(self):
        for name, target in (("10.1.2.2", "nonsense"), ("fd00:1:2::2", "x ufw"), ("10.1.2.9", "a iptables"),
                             ("10.1.2.7", "../../x iptables")):
            os.symlink(target, f"{CLAIMS}/{name}")
        for name, text in (("10.1.2.8", "a file"), ("a", "10.1.2.3  nonsense 10.1.2.9")):
            with open(f"{CLAIMS}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        self.add(2)
        self.assert_ok(self.call("CHECK", "pod2", result_of(2)))
        self.assert_ok(self.call("DEL", "pod2", result_of(2)))
        self.assertEqual(addresses(), BOTH)
        self.assertFalse(os.path.lexists(f"{CLAIMS}/10.1.2.2"))

    @suite.cases([("with prevResult", True), ("without prevResult", False)])
    def del_removes_the_addresses_of_each_add(self, with_result):
        before = sorted(os.listdir(CLAIMS))
        for number in (2, 4):
            self.add(number, "pod2")
        self.assertEqual(addresses(), sorted([*BOTH, "10.1.2.2", "10.1.2.4", "fd00:1:2::2", "fd00:1:2::4"]))
        self.assert_ok(self.call("DEL", "pod2", result_of(4) if with_result else None))
        self.assertEqual(addresses(), BOTH)
        self.assertEqual(sorted(os.listdir(CLAIMS)), before)

    def test_del_needs_no_room_on_a_full_disk(self):
        fill = small_disk(CLAIMS)
        self.add(2)
        fill()
        self.assert_ok(self.call("DEL", "pod2", result_of(2)))
        self.assertEqual(addresses(), BOTH)
        self.assertEqual(sorted(os.listdir(CLAIMS)), ["filler", "lock"])

    @suite.cases([("removed", None), ("empty", ""), ("torn", "10.1")])
    def del_removes_what_a_list_does_not_tell_that_is(self, text):
        before = sorted(os.listdir(CLAIMS))
        self.add(2)
        own, = [name for name in os.listdir(CLAIMS) if name not in before and "." not in name and ":" not in name]
        os.remove(f"{CLAIMS}/{own}")
        if text is not None:
            with open(f"{CLAIMS}/{own}", "w", encoding="ascii") as file:
                file.write(text)
        self.assert_ok(self.call("CHECK", "pod2", result_of(2)))
        for _ in range(2):
            self.assert_ok(self.call("DEL", "pod2", result_of(2)))
            self.assertEqual(addresses(), BOTH)
            self.assertEqual(sorted(os.listdir(CLAIMS)), before)

    @suite.cases([(f"by {verb}, {when}", (verb, missing)) for verb in ("DEL", "GC")
                  for when, missing in (("before the first address", ("10.1.2.2", "fd00:1:2::2")),
                                        ("before the second address", ("fd00:1:2::2",)))])
    def what_a_killed_add_noted_is_removed(self, row):
        verb, missing = row
        before = sorted(os.listdir(CLAIMS))
        self.add(2)
        for address in missing:  # it had not come that far
            os.remove(f"{CLAIMS}/{address}")
        os.symlink("x", f"{CLAIMS}/.new")
        with open(f"{CLAIMS}/.list", "w", encoding="ascii") as file:
            file.write("10.1.2.2")
        self.assert_ok(self.call(verb, "pod2", cniVersion="1.1.0", **{"cni.dev/valid-attachments": [
            {"containerID": "pod3", "ifname": "eth0"}]}))
        self.assertEqual(sorted(os.listdir(CLAIMS)), before)

    @suite.cases([("ADD", "ADD"), ("CHECK", "CHECK"), ("DEL", "DEL")])
    def the_claims_of_others_are_not_read(self, verb):
        def calls():
            for one in ("ADD", "CHECK", "DEL"):
                wrap = ("strace", "-qq", "-e", "trace=%file,getdents64,read", "-o", LOG) if one == verb else ()
                self.assert_ok(self.call(one, "pod2", result_of(2), wrap=wrap))
            with open(LOG, encoding="utf-8", errors="replace") as file:
                return len(file.readlines())

        alone = calls()
        for number in range(1, 250):
            os.symlink(f"{number} iptables", f"{CLAIMS}/10.2.0.{number}")
            with open(f"{CLAIMS}/{number}", "w", encoding="ascii") as file:
                file.write(f"10.2.0.{number}")
        self.assertEqual(calls(), alone)


if __name__ == "__main__":
    suite.main(needs=("iptables", "strace"))
