#!/usr/bin/env python3
"""ipMasq by nftables beside rules for NAT that the operator or the reference plugin made."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import hostport, suite  # noqa: E402
from support.hostport import NODE, OUTSIDE, SECOND, Server, Site  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.world import run, wait_for  # noqa: E402

#: What the operator's rules make of a pod's address.
OPERATOR = {4: "192.0.2.77", 6: "2001:db8:1::77"}
OURS, TABLE = "patchbay_masquerade", "cni_plugins_masquerade"
#: One transaction of the reference plugin's ADD (1.9.1), without the rules of the pod.
REFERENCE = f"""
add table inet {TABLE} {{ comment "Masquerading for plugins from github.com/containernetworking/plugins" ; }}
add chain inet {TABLE} masq_checks {{ comment "Masquerade traffic from certain IPs to any (non-multicast) IP outside their subnet" ; }}
add chain inet {TABLE} postrouting {{ type nat hook postrouting priority 100 ; }}
flush chain inet {TABLE} postrouting
add rule inet {TABLE} postrouting ip daddr == 224.0.0.0/4  return
add rule inet {TABLE} postrouting ip6 daddr == ff00::/8  return
add rule inet {TABLE} postrouting goto masq_checks
"""


def config(**more):
    return {"cniVersion": "1.0.0", "name": "net1", "type": "bridge", "isDefaultGateway": True,
            "ipMasq": True, "ipMasqBackend": "nftables",
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}],
                                                      [{"subnet": "fd00:1::/64"}]]}} | more


def snat(family):
    """iptables -t nat -I POSTROUTING, as in the manual of a firewall."""
    program = "iptables" if family == 4 else "ip6tables"
    run(program, "-t", "nat", "-I", "POSTROUTING", "-s",
        "10.1.0.0/24" if family == 4 else "fd00:1::/64", "-o", "up0", "-j", "SNAT",
        "--to-source", OPERATOR[family])


def chains():
    """table: priority of the base chains that masquerade pods."""
    listed = json.loads(run("nft", "-j", "list", "chains", "inet"))["nftables"]
    return {one["chain"]["table"]: one["chain"]["prio"] for one in listed
            if "hook" in one.get("chain", {})}


def elements(*names):
    """address: owner, of the pods in our maps."""
    listed = json.loads(run("nft", "-j", "list", "maps"))["nftables"]
    return {key["elem"]["val"]: key["elem"]["comment"].split("id: ")[1]
            for one in listed if one.get("map", {}).get("table") == OURS
            and one["map"]["name"] in (names or ("pods4", "pods6"))
            for key, _ in one["map"].get("elem", ())}


def reference_rules():
    return run("nft", "list", "ruleset").count("masquerade comment")


def of_the_reference(pod, address):
    """ADD of the reference plugin, as far as nftables goes."""
    run("nft", "-f", "-", stdin=REFERENCE + (
        f"add rule inet {TABLE} masq_checks ip saddr == {address} ip daddr != 10.1.0.0/24 "
        f'masquerade comment "8e48f37d5de60467-0000000000000000, net: net1, if: eth0, id: {pod}"'))


class Order(suite.NodeTest):
    def setUp(self):
        super().setUp()
        self.site = Site()
        for family in ("-4", "-6"):  # what has no NAT is lost outside
            self.site.outside.run("ip", family, "route", "del", "default")
        for address in ("192.0.2.77/32", "2001:db8:1::77/128"):  # deprecated: no masquerading with it
            run("ip", "addr", "add", address, "dev", "up0", "nodad", "preferred_lft", "0")
        Server(self, "outside", (7000,), self.site.outside, protocols=("tcp",))

    def add(self, pod, **more):
        return self.assert_ok(cni("bridge", "ADD", config(**more), netns=pod.path,
                                  container=pod.name))

    def delete(self, pod):
        self.assert_ok(cni("bridge", "DEL", config(), netns=pod.path, container=pod.name))

    def sources(self, pod):
        """The addresses that the host outside sees of the pod."""
        probes = [hostport.Probe(pod, "tcp", OUTSIDE[family], 7000) for family in (4, 6)]
        return {family: answer.split()[-1] for family, answer in zip((4, 6), hostport.ask(probes))}

    def assert_masqueraded(self, pod):
        for family, source in self.sources(pod).items():
            self.assertIn(source, (NODE[family], SECOND[family]))

    def test_alone_the_node_masquerades(self):
        pod = self.pod()
        self.add(pod)
        self.assert_masqueraded(pod)

    def test_SNAT_of_the_operator_decides_whether_it_is_there_before_or_after(self):
        for family in (4, 6):
            snat(family)
        before = self.pod()
        self.add(before)
        self.assertEqual(self.sources(before), OPERATOR)
        for program in ("iptables", "ip6tables"):
            run(program, "-t", "nat", "-F", "POSTROUTING")
        self.assert_masqueraded(before)
        for family in (4, 6):
            run("nft", "delete", "table", "ip" if family == 4 else "ip6", "nat")
            snat(family)
        self.assertEqual(self.sources(before), OPERATOR)

    def test_on_a_node_of_the_reference_plugin_too(self):
        """Or of an older release."""
        for family in (4, 6):
            snat(family)
        of_the_reference("old", "10.1.0.200")
        pod = self.pod()
        result = self.add(pod)
        self.assertEqual(self.sources(pod), OPERATOR)
        self.assertEqual(chains(), {OURS: 150, TABLE: 100})
        checked = cni("bridge", "CHECK", config() | {"prevResult": result}, netns=pod.path,
                      container=pod.name)
        self.assert_ok(checked)
        self.assertEqual(set(elements().values()), {pod.name})
        self.assertEqual(reference_rules(), 1)

    def test_both_plugins_add_in_turn_and_ours_removes(self):
        pods = [self.pod() for _ in range(3)]
        for number, pod in enumerate(pods):
            self.add(pod)
            of_the_reference(f"theirs{number}", f"10.1.0.{200 + number}")
            self.assertEqual(chains(), {OURS: 150, TABLE: 100})
            self.assert_masqueraded(pod)
        self.assertEqual(sorted(elements().values()), sorted(2 * [pod.name for pod in pods]))
        for pod in pods:
            self.delete(pod)
        self.assertEqual((elements(), reference_rules()), ({}, 3))
        gc = config(cniVersion="1.1.0") | {"cni.dev/valid-attachments": []}
        self.assert_ok(cni("bridge", "GC", gc))
        self.assertEqual(reference_rules(), 0)

    def test_a_pod_of_an_earlier_version(self):
        """CHECK takes its rule, also below the base chain of the reference plugin; DEL removes it."""
        pod = self.pod()
        only_v4 = {"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}]]}}
        result = self.add(pod, **only_v4)
        comment = run("nft", "list", "map", "inet", OURS, "pods4").split('comment "')[1].split('"')[0]
        run("nft", "delete", "table", "inet", OURS)
        again = config(**only_v4) | {"prevResult": result}
        options = {"netns": pod.path, "container": pod.name}
        self.assert_error(cni("bridge", "CHECK", again, **options), None, "asquerad")
        of_the_reference("theirs", "10.1.0.200")
        run("nft", "add", "rule", "inet", TABLE, "masq_checks", "ip", "saddr", "10.1.0.2", "ip",
            "daddr", "!=", "10.1.0.0/24", "masquerade", "comment", f'"{comment}"')
        self.assert_ok(cni("bridge", "CHECK", again, **options))
        self.assertEqual(reference_rules(), 2)
        run("nft", "flush", "chain", "inet", TABLE, "postrouting")
        self.assert_error(cni("bridge", "CHECK", again, **options), None, "asquerad")
        self.assert_ok(cni("bridge", "DEL", again, **options))
        self.assertEqual(reference_rules(), 1)

    def test_an_address_belongs_to_the_pod_that_has_it(self):
        """The last ADD has an address that two pods share, and a late DEL leaves it alone."""
        static = {"ipam": {"type": "static", "addresses": [{"address": "10.1.0.9/24"}]}}
        first, second = self.pod(), self.pod()
        self.add(first, **static)
        result = self.add(second, name="net2", **static)
        self.assertEqual(elements(), {"10.1.0.9": second.name})
        late = config(**static) | {"prevResult": result}
        self.assert_ok(cni("bridge", "DEL", late, container=first.name))
        self.assertEqual(elements(), {"10.1.0.9": second.name})
        self.assertEqual(elements("pods4_more"), {})

    def test_who_shares_an_address_keeps_its_masquerading_when_another_is_removed(self):
        static = {"ipam": {"type": "static", "addresses": [{"address": "10.1.0.9/24", "gateway": "10.1.0.1"}]}}
        calls = {}
        for name in ("net1", "net2", "net3"):
            pod = self.pod()
            conf = config(name=name, bridge=f"br-{name}", forceAddress=False, **static)
            options = {"netns": pod.path, "container": pod.name}
            calls[name] = conf | {"prevResult": self.assert_ok(cni("bridge", "ADD", conf, **options))}, options
        for gone in ("net2", "net3", "net1"):
            self.assertEqual(list(elements()), ["10.1.0.9"])
            for conf, options in calls.values():
                self.assert_ok(cni("bridge", "CHECK", conf, **options))
            conf, options = calls.pop(gone)
            for _ in range(2):
                self.assert_ok(cni("bridge", "DEL", conf, **options))
        self.assertEqual((elements(), elements("pods4_more")), ({}, {}))


if __name__ == "__main__":
    suite.main(needs=("iptables", "ip6tables"))
