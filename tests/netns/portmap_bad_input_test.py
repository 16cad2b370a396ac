#!/usr/bin/env python3
"""What is wrong with portmap's config is said before anything is changed: where, what, and what was
expected there."""

import dataclasses
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.hostport import mapping  # noqa: E402
from support.portmap import PortmapTest  # noqa: E402
from support.snapshot import snapshot  # noqa: E402

PORTS = "runtimeConfig.portMappings"


@dataclasses.dataclass
class Case:
    """conf is laid over a good config; says: what the message must contain."""

    name: str
    says: tuple
    conf: dict = dataclasses.field(default_factory=dict)
    mappings: object = None
    verbs: tuple = ("ADD", "CHECK")
    code: int = 7


def entry(name, says, **more):
    """A second entry of the list with something wrong in it."""
    bad = {key: value for key, value in (mapping(80, 8080) | more).items() if value is not None}
    return Case(name, (f"{PORTS}[1]", *says), mappings=[mapping(1, 1), bad])


IPTABLES_STYLE = ["-d", "192.0.2.0/24"]
NFTABLES_STYLE = ["ip daddr 192.0.2.0/24"]

CASES = [
    entry("hostPort 0", (".hostPort", "Invalid host port number: 0"), hostPort=0),
    entry("hostPort -1", (".hostPort", "Invalid host port number: -1"), hostPort=-1),
    entry("hostPort 65536", (".hostPort", "65536", "65535"), hostPort=65536),
    entry("hostPort of 2^40", (".hostPort",), hostPort=1 << 40),
    entry("hostPort is text", (".hostPort", "from 1 to 65535", '"80"'), hostPort="80"),
    entry("hostPort is a fraction", (".hostPort", "80.5"), hostPort=80.5),
    entry("hostPort is missing", (".hostPort",), hostPort=None),
    entry("containerPort 0", (".containerPort", "Invalid container port number: 0"),
          containerPort=0),
    entry("containerPort -5", (".containerPort", "Invalid container port number: -5"),
          containerPort=-5),
    entry("containerPort 65536", (".containerPort", "65536", "65535"), containerPort=65536),
    entry("containerPort is missing", (".containerPort",), containerPort=None),
    entry("protocol is unknown", (".protocol", '"icmp"', "tcp", "udp", "sctp"), protocol="icmp"),
    entry("protocol is empty", (".protocol", '""', "tcp"), protocol=""),
    entry("protocol is a number", (".protocol", "6"), protocol=6),
    entry("protocol is missing", (".protocol", "missing"), protocol=None),
    entry("hostIP is no address", (".hostIP", '"1.2.3"'), hostIP="1.2.3"),
    entry("hostIP has leading zeros", (".hostIP", '"192.0.2.01"'), hostIP="192.0.2.01"),
    entry("hostIP has a prefix", (".hostIP", '"192.0.2.1/24"'), hostIP="192.0.2.1/24"),
    entry("hostIP is a name", (".hostIP", '"localhost"'), hostIP="localhost"),
    entry("hostIP is a number", (".hostIP", "1"), hostIP=1),
    entry("hostIP is a multicast group", (".hostIP", '"224.0.0.1"'), hostIP="224.0.0.1"),
    Case("an entry is no object", (f"{PORTS}[0]", '"8080:80"'), mappings=["8080:80"]),
    Case("two entries that contradict each other",
         (f"{PORTS}[1].hostPort: mapped to container port 80 already: 8080",),
         mappings=[mapping(8080, 80), mapping(8080, 81)]),
    Case("two entries that contradict each other in one family", (PORTS, "8080"),
         mappings=[mapping(8080, 80), mapping(8080, 81, "tcp", "0.0.0.0")]),
    Case("portMappings is an object", (PORTS,), mappings={"hostPort": 80}),
    Case("portMappings is text", (PORTS,), mappings="8080:80"),
    Case("backend is unknown", ('unrecognized backend "x"', "nftables", "iptables"),
         {"backend": "x"}),
    Case("backend is empty", ('unrecognized backend ""',), {"backend": ""}),
    Case("backend is a number", ("backend", "5"), {"backend": 5}),
    Case("options of nftables with iptables, IPv4",
         ("iptables backend was requested but configuration contains nftables-specific options "
          "[conditionsV4]",), {"backend": "iptables", "conditionsV4": NFTABLES_STYLE}),
    Case("options of nftables with iptables, both",
         ("iptables backend was requested but configuration contains nftables-specific options "
          "[conditionsV4 conditionsV6]",),
         {"backend": "iptables", "conditionsV4": NFTABLES_STYLE,
          "conditionsV6": ["ip6 daddr 2001:db8::/32"]}),
    Case("options of iptables with nftables, all",
         ("nftables backend was requested but configuration contains iptables-specific options "
          "[externalSetMarkChain conditionsV4 conditionsV6]",),
         {"backend": "nftables", "externalSetMarkChain": "X", "conditionsV4": IPTABLES_STYLE,
          "conditionsV6": ["!", "-d", "2001:db8::/32"]}),
    Case("options of iptables with nftables, the chain",
         ("nftables backend was requested but configuration contains iptables-specific options "
          "[externalSetMarkChain]",), {"backend": "nftables", "externalSetMarkChain": "X"}),
    Case("options of iptables with nftables, IPv6",
         ("nftables backend was requested but configuration contains iptables-specific options "
          "[conditionsV6]",), {"backend": "nftables", "conditionsV6": ["!", "-d", "2001:db8::1"]}),
    Case("conditions in both styles", ("[conditionsV6]", "iptables because of conditionsV4"),
         {"backend": None, "conditionsV4": IPTABLES_STYLE, "conditionsV6": ["ip6 daddr ::1"]}),
    Case("conditions are text", ("conditionsV4",), {"conditionsV4": "-d 192.0.2.1"}),
    Case("a condition is a number", ("conditionsV4[1]",),
         {"backend": "iptables", "conditionsV4": ["-d", 5]}),
    Case("markMasqBit 32", ("markMasqBit", "MasqMarkBit must be between 0 and 31", "32"),
         {"markMasqBit": 32}),
    Case("markMasqBit -1", ("markMasqBit", "MasqMarkBit must be between 0 and 31", "-1"),
         {"markMasqBit": -1}),
    Case("markMasqBit is text", ("markMasqBit", "from 0 to 31", '"13"'), {"markMasqBit": "13"}),
    Case("markMasqBit and a chain for it",
         ("Cannot specify externalSetMarkChain and markMasqBit",),
         {"backend": "iptables", "markMasqBit": 5, "externalSetMarkChain": "KUBE-MARK-MASQ"}),
    Case("snat is text", ("snat", '"true"'), {"snat": "true"}),
    Case("masqAll is a number", ("masqAll", "1"), {"masqAll": 1}),
    Case("externalSetMarkChain is a number", ("externalSetMarkChain",),
         {"backend": "iptables", "externalSetMarkChain": 1}),
    Case("hostPortConflict is unknown",
         ("hostPortConflict", '"ask"', "refuse", "refuse-claimed", "replace"),
         {"hostPortConflict": "ask"}),
    Case("hostPortConflict is a boolean", ("hostPortConflict", "true"), {"hostPortConflict": True}),
    *(Case(f"deniedHostPorts has {json.dumps(bad)}", ("deniedHostPorts[1]", json.dumps(bad)),
           {"deniedHostPorts": [22, bad]})
      for bad in ("", "x", "22-", "-22", "30-20", "0", "65536", "22/icmp", "22/", "1-2-3", " 22", 0,
                  65536, -1, 22.5, True, [22])),
    Case("deniedHostPorts has null", ("deniedHostPorts[1]",), {"deniedHostPorts": [22, None]}),
    Case("deniedHostPorts is text", ("deniedHostPorts",), {"deniedHostPorts": "22"}),
    Case("no prevResult, ADD", ("must be called as chained plugin",), {"prevResult": None},
         verbs=("ADD",)),
    Case("no prevResult and no mappings, ADD", ("must be called as chained plugin",),
         {"prevResult": None}, [], ("ADD",)),
    Case("no prevResult, CHECK", ("Required prevResult missing",), {"prevResult": None},
         verbs=("CHECK",)),
    Case("prevResult is a list", ("prevResult",), {"prevResult": []}, code=6),
    Case("prevResult with a broken address", ("ips[0].address", '"10.1.2.2"'),
         {"prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.2"}]}}, code=None),
]


@suite.spread
class BadInput(PortmapTest):
    @suite.cases([(case.name, case) for case in CASES])
    def refused(self, case):
        one = self.container()
        mappings = [mapping(8080, 80)] if case.mappings is None else case.mappings
        before = snapshot()
        for verb in case.verbs:
            outcome = self.call(verb, one, mappings, **case.conf)
            error = self.assert_error(outcome, case.code)
            said = error["msg"] + " " + error.get("details", "")
            for word in case.says:
                self.assertIn(word, said)
            self.assertFalse(re.search(r"json\.exception|terminate|what\(\)", outcome.stdout))
            self.assert_same(before)

    @suite.cases([(case.name, case) for case in CASES if "ADD" in case.verbs and case.code == 7])
    def and_DEL_succeeds_nevertheless(self, case):
        """What was refused left nothing, and a runtime must get rid of the pod."""
        one = self.container()
        mappings = [mapping(8080, 80)] if case.mappings is None else case.mappings
        before = snapshot()
        self.assert_ok(self.call("DEL", one, mappings, **case.conf))
        self.assert_same(before)

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
    def conditions(self, row):
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
