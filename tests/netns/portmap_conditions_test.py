#!/usr/bin/env python3
"""Conditions that are no condition of one rule are refused, and nothing of them is executed or left."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.hostport import mapping  # noqa: E402
from support.portmap import PortmapTest  # noqa: E402
from support.snapshot import snapshot  # noqa: E402


@suite.spread
class Conditions(PortmapTest):
    @suite.cases([("a condition that nft does not know", ("nftables", ["no such words"])),
                  ("a condition that iptables does not know", ("iptables", ["--no-such-match"])),
                  ("a condition that ends the rule and begins another",
                   ("nftables", ["ip daddr 192.0.2.1; add table ip evil;"])),
                  ("a condition with a line of its own",
                   ("nftables", ["ip daddr 192.0.2.1 accept\nadd table ip evil\n#"])),
                  ("a condition that closes a block", ("nftables", ["ip daddr 192.0.2.1 } table ip evil {"])),
                  ("a condition that includes a file", ("nftables", ['include "/etc/hostname"'])),
                  ("a condition that defines a variable", ("nftables", ["define evil = 192.0.2.1"])),
                  ("a condition with a NUL", ("nftables", ["ip daddr 192.0.2.1 accept\0"])),
                  ("a condition of iptables with a line of its own",
                   ("iptables", ["-d", "192.0.2.1\nCOMMIT\n*filter\n:EVIL - [0:0]\nCOMMIT"]))])
    def refuses(self, row):
        self.backend, conditions = row
        one = self.container()
        before = snapshot()
        outcome = self.call("ADD", one, [mapping(8080, 80)], conditionsV4=conditions)
        after = snapshot()
        self.assertFalse([place for place in after if "evil" in place.lower()])
        self.assert_error(outcome, msg="conditionsV4")
        left = [place for place in after.keys() - before.keys()
                if place.startswith(("nft/elem", "nft/table/ip/patchbay", "file/run/cni/portmap/"))
                and not
                place.endswith(("/lock", "/claims/", "/portmap/")) or "CNI-DN-" in place]
        self.assertEqual(left, [])


if __name__ == "__main__":
    suite.main()
