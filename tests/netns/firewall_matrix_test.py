#!/usr/bin/env python3
"""Who reaches a pod, by the policy of its network: each cell is asked by traffic, in both families, with and
without bridge netfilter, with every backend of ours and with the reference plugin.

--table=FILE writes the table into a document.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.chain import Network  # noqa: E402
from support.faults import figures  # noqa: E402
from support.firewall import BACKENDS, Attached, FirewallTest, bridge, reference_knows  # noqa: E402
from support.hostport import NODE, Probe, Server, Site, ask, mapping  # noqa: E402
from support.plugin import OURS, REFERENCE, has_reference  # noqa: E402

TABLE = next((a.split("=", 1)[1] for a in sys.argv if a.startswith("--table=")), None)
POLICIES = ("open", "same-bridge", "isolated")
#: Where a client is.
SOURCES = ("same bridge", "other bridge, same-bridge", "other bridge, open", "other bridge, no firewall",
           "node", "other host")
PUBLISHED = tuple(f"{source}, by hostPort" for source in SOURCES)


def expected(policy, source):
    """Whether the pod is to be reached."""
    source = source.removesuffix(", by hostPort")
    if source == "same bridge":
        return policy != "isolated"
    if source == "other bridge, same-bridge":
        return policy == "open"
    return True


class Rig:
    """A target and its neighbour per policy, and a pod per source; all answer with their names."""

    def __init__(self, test, backend, reference):
        self.test, self.backend, self.reference = test, backend, reference
        self.targets, self.origins = {}, {}
        self.outside = Site().outside
        for number, policy in enumerate(POLICIES, 1):
            if reference and not reference_knows(policy):
                continue
            port = mapping(8000 + number, 80)
            self.targets[policy] = target = self.attach(number, policy, [port])
            Server(test, policy, (80,), target.pod, protocols=("tcp",))
            self.origins[policy, "same bridge"] = self.attach(number, policy).pod
        common = {"other bridge, same-bridge": self.attach(5, "same-bridge").pod,
                  "other bridge, open": self.attach(6, "open").pod,
                  "other bridge, no firewall": self.attach(7, None).pod,
                  "node": None, "other host": self.outside}
        for policy in self.targets:
            self.origins |= {(policy, source): origin for source, origin in common.items()}

    def attach(self, number, policy, ports=()):
        """Only the plugin firewall is the reference's."""
        portmap = {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}}
        firewall = {"type": "firewall", "backend": self.backend, "ingressPolicy": policy}
        plugins = [bridge(number, hairpinMode=True), portmap, *([firewall] if policy else [])]
        net = Network({"cniVersion": "1.0.0", "name": f"net{number}", "plugins": plugins}, (OURS,))
        if self.reference:
            folder = "/run/mixed"
            if not os.path.isdir(folder):
                os.mkdir(folder)
                os.symlink(f"{REFERENCE}/firewall", f"{folder}/firewall")
            net.directories = (folder, OURS)
        return Attached(self.test, net, self.test.pod(), ports)

    def cells(self, known=()):
        """{(policy, source, family): whether the pod answered}. Those that are to answer get the time that they
        need on a busy machine; known are cells in which the reference plugin differs."""
        probes = {}
        for (policy, source), origin in self.origins.items():
            address, port = self.targets[policy].address, 8001 + POLICIES.index(policy)
            for family in (4, 6):
                probes[policy, source, family] = Probe(origin, "tcp", address[family], 80)
                probes[policy, f"{source}, by hostPort", family] = Probe(origin, "tcp", NODE[family], port)
        found = {}
        for wanted, seconds in ((True, 30.0), (False, 2.0)):
            asked = {cell: probe for cell, probe in probes.items() if (expected(*cell[:2]) or cell in known) == wanted}
            for cell, answer in zip(asked, ask(list(asked.values()), seconds)):
                found[cell] = answer.startswith(f"{cell[0]} 80 ")
        return found


@suite.spread
class Matrix(FirewallTest):
    SEEN = {}

    def cells(self, backend, bridge_netfilter, reference=False, known=()):
        self.use(backend)
        rig = Rig(self, backend[0], reference)
        self.set_bridge_netfilter(bridge_netfilter)
        return rig.cells(known)

    @suite.cases([(f"{name}, bridge netfilter {'on' if on else 'off'}", (name, row, on))
                  for name, row in BACKENDS for on in (True, False)])
    def each_pod_is_reached_by_whom_its_policy_allows(self, case):
        name, row, on = case
        cells = self.cells(row, on)
        self.SEEN[name, on] = cells
        wrong = {cell: seen for cell, seen in cells.items() if seen != expected(*cell[:2])}
        self.assertEqual(wrong, {})
        self.assertEqual(len(cells), 2 * len(POLICIES) * len(SOURCES + PUBLISHED))

    @suite.cases([(f"bridge netfilter {'on' if on else 'off'}", on) for on in (True, False)])
    def the_reference_plugin_differs_where_the_readme_says(self, on):
        if not has_reference("firewall"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        # Frames between ports of a bridge pass it without bridge netfilter.
        known = set() if on else {("isolated", "same bridge", 4), ("isolated", "same bridge", 6)}
        cells = self.cells(("iptables", "nft"), on, reference=True, known=known)
        self.SEEN["reference", on] = cells
        wrong = {cell for cell, seen in cells.items() if seen != expected(*cell[:2])}
        self.assertEqual(wrong, known & set(cells))


def _cell(columns, policy, source):
    """What the columns say of both families, if they agree."""
    seen = {Matrix.SEEN[column].get((policy, source, family)) for column in columns for family in (4, 6)}
    return {True: "yes", False: "no", None: "-"}[seen.pop()] if len(seen) == 1 else "differs"


def tell_all():
    """A table: what is the same in all backends is one column."""
    known = {"patchbay": [column for column in Matrix.SEEN if column[0] != "reference"],
             "reference, bridge netfilter on": [column for column in Matrix.SEEN if column == ("reference", True)],
             "reference, bridge netfilter off": [column for column in Matrix.SEEN if column == ("reference", False)]}
    head = ["policy", "client on", *known]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for policy in POLICIES:
        for source in SOURCES:
            cells = [" / ".join(_cell(columns, policy, way) for way in (source, f"{source}, by hostPort"))
                     for columns in known.values() if columns]
            lines.append("| " + " | ".join([f"`{policy}`", source, *cells]) + " |")
    text = "\n".join(lines)
    print(text, flush=True)
    if TABLE:
        figures.publish(TABLE, "policies", text)


if __name__ == "__main__":
    suite.main(needs=("iptables",), summary=tell_all)
