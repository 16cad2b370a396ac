#!/usr/bin/env python3
"""What plugins do beyond their least config, on this kernel and on those of scripts/vm: ADD, CHECK and DEL of each
variant, after which nothing is left. tests/kernels.py makes a table of it."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import daemons, firewalld, guest, hostport, suite  # noqa: E402
from support.configs import lack  # noqa: E402
from support.faults.subjects import BANDWIDTH, BRIDGE, FIREWALL, PORTMAP, STATIC, SUBJECTS, Stage, comes_and_goes  # noqa: E402
from support.plugin import PLUGINS  # noqa: E402
from support.world import vlan_filtering  # noqa: E402

IPV6 = {"type": "host-local", "ranges": [[{"subnet": "fd00:1::/64"}]], "routes": [{"dst": "::/0"}]}
#: Beside those of the fault sweep.
MORE = {
    "bridge, IPv6 alone": (BRIDGE | {"ipam": IPV6}, None),
    "bridge, VLAN filtering": (BRIDGE | {"isGateway": False, "ipMasq": False, "vlan": 100, "ipam": STATIC}, None),
    "bandwidth, fair queues": (BANDWIDTH | {"queue": "fair"}, None),
    **{f"{name}, iptables-{variant}": (conf, None) for variant in ("nft", "legacy") for name, conf in (
        ("bridge", BRIDGE | {"ipMasqBackend": "iptables"}), ("portmap", PORTMAP | {"backend": "iptables"}),
        ("firewall", FIREWALL | {"backend": "iptables"}))},
}
SUBJECTS.update(MORE)
ROWS = [name for name in SUBJECTS if "," in name and name.split(",")[0] in PLUGINS
        and not name.endswith(", iptables") and ", in its" not in name]
#: What each needs of the kernel, as a sentence where it lacks it.
NEEDS = {
    "bridge, VLAN filtering": lambda: None if vlan_filtering() else "this kernel has no VLAN filtering",
    "bandwidth, fair queues": lambda: None if guest.has_qdisc("fq_codel") else "this kernel has no fq_codel",
    "bandwidth, edt": lambda: None if guest.has_qdisc("fq") else "this kernel has no fq",
    "firewall, firewalld": firewalld.lack,
}


@suite.spread
class Features(suite.NodeTest):
    @suite.cases([(name, name) for name in ROWS])
    def comes_and_goes(self, name):
        reason = lack(name.split(",")[0]) or NEEDS.get(name, lambda: None)()
        if reason:
            self.skipTest(reason)
        self.addCleanup(daemons.stop)
        stage = Stage(name, "ADD")
        if "iptables-" in name and (reason := hostport.select_iptables(name.rsplit("-", 1)[1])):
            self.skipTest(reason)
        comes_and_goes(self, stage)


if __name__ == "__main__":
    suite.main(needs=("iptables-restore",))
