#!/usr/bin/env python3
"""cluster-pool over many nodes with the API server of Kubernetes' own libraries (scripts/kube-apiserver): what the simulated one
of tests/netns/blocks_kubernetes_test.py cannot prove of itself. Manifests are applied by kubectl."""

import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, api_alike, block_crowd, block_restore, kube_apiserver, suite  # noqa: E402
from support.api_rights import Account  # noqa: E402
from support.api_server import ApiServer  # noqa: E402
from support.block_nodes import NETWORK, BlocksTest, Killer, uplink  # noqa: E402
from support.kube_apiserver import KubeApiServer  # noqa: E402
from support.world import wait_for  # noqa: E402

API = "blocks.patchbay/v1"
BLOCKS = "addressblocks.blocks.patchbay"
USER = "system:serviceaccount:kube-system:patchbay-blocks"


#: The definition that Multus has of its networks.
MULTUS = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
          "metadata": {"name": "network-attachment-definitions.k8s.cni.cncf.io"}, "spec": {
              "group": "k8s.cni.cncf.io", "scope": "Namespaced",
              "names": {"plural": "network-attachment-definitions", "singular": "network-attachment-definition", "kind": "NetworkAttachmentDefinition"},
              "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                  "type": "object", "properties": {"spec": {"type": "object", "properties": {"config": {"type": "string"}}}}}}}]}}


class ClusterTest(BlocksTest):
    def serve(self):
        self.api = KubeApiServer()
        self.addCleanup(self.api.stop)
        self.api.apply("cluster-pool.yaml")
        self.api.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        self.kubeconfig = self.api.account("blocks", USER, "system:serviceaccounts")

    def engine(self):
        return {"kubernetes": {"kubeconfig": self.kubeconfig}}

    def objects(self):
        return {one["metadata"]["name"]: one["spec"] for one in self.api.list(API, "addressblocks")}

    def make_node(self, name, **conf):
        node = conf.get("node", name)
        if self.api.get("v1", "nodes", node) is None:
            self.api.create("v1", "nodes", {"metadata": {"name": node}})
        return super().make_node(name, **conf)

    def away(self):
        self.api.away()

    def back(self):
        self.api.back()


class ServedTest(ClusterTest):
    def setUp(self):
        super().setUp()
        self.serve()


class Restore(block_restore.Restore, ClusterTest):
    def save(self):
        self.api.save()

    def restore(self):
        self.api.restore()

    def write_much(self):
        for number in range(30):
            self.api.etcdctl("put", "/other", str(number))


class Crowd(block_crowd.Crowd, ClusterTest):
    pass


class Manifests(ClusterTest):
    FILES = ("cluster-pool.yaml", "patchbay-agent.yaml", "patchbay-agent-policy.yaml", "device-classes.yaml", "patchbay-install.yaml",
             "deployment-with-macvlan.yaml", "deployment-with-nic.yaml", "pod-with-nic.yaml", "deployment-with-extended-resource.yaml",
             "deployment-with-cluster-pool.yaml")
    OTHERS = ("patchbay-agent-with-cluster-pool.yaml", "patchbay-agent-before-1.34.yaml")  # of objects that the former have, too

    def test_kubectl_applies_each_plainly_and_by_the_server_without_a_warning(self):
        api = self.api = KubeApiServer()
        self.addCleanup(api.stop)
        api.kubectl("create", "-f", "-", stdin=json.dumps(MULTUS))
        for words in ((), ("--server-side", "--force-conflicts")):
            for manifest in self.FILES:
                for _ in range(2):
                    code, out, error = api.kubectl("apply", *words, "-f", f"{kube_apiserver.MANIFESTS}/{manifest}", check=False)
                    self.assertEqual((code, error), (0, ""), f"{manifest} {words}: {out}")
                if not words:
                    self.assertNotIn(" created", out)
        for manifest in self.OTHERS:
            code, out, error = api.kubectl("apply", "--server-side", "--force-conflicts", "-f", f"{kube_apiserver.MANIFESTS}/{manifest}", check=False)
            self.assertEqual((code, error), (0, ""), f"{manifest}: {out}")
        for name in ("addressblocks", "addresspools", "addressshortages"):
            crd = json.loads(api.kubectl("get", "crd", f"{name}.blocks.patchbay", "-o", "json"))
            conditions = {one["type"]: one["status"] for one in crd["status"]["conditions"]}
            self.assertEqual(conditions.get("NonStructuralSchema", "False"), "False")
            self.assertEqual(conditions["Established"], "True")


class Alike(ServedTest):
    def setUp(self):
        super().setUp()
        self.simulated = ApiServer("/run/simulated")
        self.addCleanup(self.simulated.stop)
        self.simulated.account = Account("cluster-pool.yaml", "n1")
        ca, accounts = "/run/api/ca.crt", self.api.accounts
        theirs = api_alike.Asked(kube_apiserver.PORT, ca, accounts["blocks"][0], admin=api_alike.Asked(kube_apiserver.PORT, ca, accounts["admin"][0]))
        ca = "/run/simulated/ca.crt"
        ours = api_alike.Asked(self.simulated.port, ca, self.simulated.token, admin=api_alike.Asked(
            self.simulated.port, ca, "", certificate="/run/simulated/client.crt"))
        self.both = theirs, ours

    def assert_alike(self, what, theirs, ours):
        if os.environ.get("PATCHBAY_SHOW"):
            print(f"# {what}\n#    {theirs}\n#    {ours}", flush=True)
        self.assertEqual(api_alike.sign(ours), api_alike.sign(theirs), f"{what}: {theirs}")

    def test_the_simulated_server_answers_as_this_one(self):
        for what, ask in api_alike.STEPS:
            with self.subTest(what):
                self.assert_alike(what, *map(ask, self.both))

    def test_the_simulated_server_forgets_as_this_one(self):
        tokens, versions = [], []
        for one in self.both:
            for number in range(30):
                self.assertEqual(one.ask("POST", api_alike.API, api_alike.block(f"n-one{number}"))[0], 201)
            data = one.ask("GET", f"{api_alike.API}?limit=10")[1]["metadata"]
            self.assertEqual(data["remainingItemCount"], 20)
            tokens.append(data["continue"])
            versions.append(api_alike.version(one, "n-one3"))
            one.ask("DELETE", f"{api_alike.API}/n-one29", api_alike.removal())
        pages = [one.ask("GET", f"{api_alike.API}?limit=20&continue={token}") for one, token in zip(self.both, tokens)]
        self.assertEqual([len(body["items"]) for _, body in pages], [20, 20])  # as it was
        self.api.away()
        self.api.compact()
        self.api.back()
        self.simulated.store.expire()
        for what, path in (("continue", "limit=10&continue={0}"), ("watch", "watch=true&resourceVersion={1}&timeoutSeconds=2"),
                           ("list again", "limit=500")):
            answers = [one.ask("GET", f"{api_alike.API}?{path.format(*of)}") for one, *of in zip(self.both, tokens, versions)]
            self.assert_alike(what, *answers)


class Nodes(ServedTest):
    def test_thirty_pods_on_three_nodes_are_replaced_while_everything_is_killed(self):
        uplink()
        nodes = self.nodes(3, nodeGone="2s", idle="1s")
        pairs = self.start_pods(nodes, 30)
        self.assert_unique([pod for _, pod in pairs])
        self.assert_settled(nodes)

        def restart():
            self.api.server.process.send_signal(signal.SIGTERM)
            time.sleep(3)  # it accepts nothing any more, and its watches go on for a minute
            self.api.away()
            self.api.etcd.kill(signal.SIGTERM)
            self.api.etcd.start()
            self.api.back()

        with Killer(nodes, restart):
            for turn in range(3):
                self.stop_pods(pairs)
                pairs = self.start_pods(nodes, 30, f"t{turn}")
        self.assert_unique([pod for _, pod in pairs])
        self.assert_settled(nodes)
        dead = nodes.pop()
        dead.kill()
        self.api.remove("v1", "nodes", dead.name)
        self.assertTrue(wait_for(lambda: set(self.by_node()) == {"n1", "n2"}, 30), nodes[0].log)

    def test_objects_are_as_kubectl_shows_them(self):
        node, = self.nodes(1)
        self.first_block(node)
        name, spec = next(iter(self.objects().items()))
        shown = self.api.kubectl("get", "addressblocks").splitlines()
        self.assertEqual(shown[0].split(), ["NAME", "NETWORK", "BLOCK", "NODE", "AGE"])
        self.assertEqual(shown[1].split()[:4], [name, NETWORK, spec["cidr"], "n1"])
        node.kill()  # for good: as docs/cluster-pool-kubernetes.md has it
        of_node = '{range .items[?(@.spec.node=="n1")]}{.metadata.name}{"\\n"}{end}'
        self.assertEqual(self.api.kubectl("get", "addressblocks", "-o", f"jsonpath={of_node}").split(), [name])
        self.api.kubectl("delete", "-f", f"{kube_apiserver.MANIFESTS}/cluster-pool.yaml")
        self.assertNotIn("blocks.patchbay", self.api.kubectl("get", "crd"))


class Faults(ServedTest):
    def test_compaction_that_ends_watches_loses_no_change(self):
        one, other = self.nodes(2)
        self.first_block(one)
        self.api.away()
        self.api.compact()
        self.api.back()
        self.first_block(other)
        self.api.compact()
        self.assert_settled([one, other])

    def test_a_token_that_was_rotated_is_read_anew(self):
        node, = self.nodes(1)
        self.first_block(node)
        self.api.rotate("blocks")
        self.want_more(node, 1)
        self.assertTrue(wait_for(lambda: "401" in node.note(), 20), node.note() + node.log)
        self.api.hand_out("blocks")
        self.assertTrue(wait_for(lambda: len(node.blocks()) == 2, 45), node.log)
        self.assert_settled([node])

    def test_a_server_that_stops_for_a_while_is_waited_for(self):
        node, = self.nodes(1)
        self.first_block(node)
        self.api.server.process.send_signal(signal.SIGSTOP)
        self.want_more(node, 1)
        time.sleep(15)
        self.api.server.process.send_signal(signal.SIGCONT)
        self.assertTrue(wait_for(lambda: len(node.blocks()) == 2, 45), node.log)
        self.assert_settled([node])

    def test_definitions_that_are_deleted_and_applied_again_give_the_same_blocks(self):
        one, other = self.nodes(2)
        self.first_block(one)
        self.first_block(other)
        before = self.by_node()
        self.api.kubectl("delete", "crd", "--all")
        time.sleep(5)
        self.api.apply("cluster-pool.yaml")
        self.assertTrue(wait_for(lambda: self.safe_by_node() == before, 90), one.log)
        self.assert_settled([one, other], 60)

    def safe_by_node(self):
        try:
            return self.by_node()
        except RuntimeError:
            return None

    def test_edits_by_hand_are_refused_or_undone(self):
        one, other = self.nodes(2)
        self.first_block(one)
        self.first_block(other)
        name, before = next(pair for pair in self.objects().items() if pair[1]["node"] == "n1")
        for patch in ({"cidr": "x"}, {"cidr": "10.9.0.300/28"}, {"cidr": "10.9.0.0"}, {"cidr": "10.9.9.0/28"}, {"network": ""}, {"network": "other"},
                      {"node": None}, {"node": "N 1"}, {"claim": ""}):
            code, _, error = self.edit("addressblocks", name, patch)
            self.assertEqual(code, 1, patch)
            self.assertIn("is invalid", error)
        pool, = self.api.list(API, "addresspools")
        for patch in ({"blockSize": 27}, {"cidr": "10.9.0.0/25"}):
            self.assertEqual(self.edit("addresspools", pool["metadata"]["name"], patch)[0], 1, patch)
        self.assertEqual(self.objects()[name], before)
        self.assertEqual(self.edit("addressblocks", name, {"node": "n2"})[0], 0)  # as of a node that was renamed
        self.assertTrue(wait_for(lambda: self.objects()[name]["node"] == "n1", 20), one.log)
        self.assert_settled([one, other])
        self.api.kubectl("label", "addressblocks", name, "of=person")
        self.api.kubectl("delete", "addressblocks", "--all")
        self.assert_settled([one, other])

    def test_objects_of_another_name_than_agents_give_them_are_refused(self):
        spec = {"network": NETWORK, "cidr": "10.9.0.16/28", "node": "n9", "machine": "m", "claim": "c"}
        pool = spec | {"cidr": "10.9.0.0/24", "blockSize": 28}
        six = {"cidr": "fd00:5::10/124"}
        tried = [("AddressBlock", spec, ("lab.10-9-0-1", "lab.10-9-0-160", "other.10-9-0-16", "10-9-0-16", "lab.copy", "lab-10-9-0-16")),
                 ("AddressBlock", spec | six, ("other.copy", "labs")),
                 ("AddressPool", pool, ("lab.10-9-0-0", "lab.10-9-0-0-25", "other.10-9-0-0-24", "copy"))]
        for kind, what, names in tried:
            for name in names:
                code, _, error = self.create(kind, name, what)
                self.assertEqual((code, "the name must have the network" in error), (1, True), f"{kind} {name}: {error}")
        agents = [("AddressBlock", spec, "lab.10-9-0-16"), ("AddressPool", pool, "lab.10-9-0-0-24"),
                  ("AddressBlock", spec | six, "lab.fd00-0005-0000-0000-0000-0000-0000-0010"), ("AddressPool", pool | {"cidr": "fd00:5::/64", "blockSize": 124},
                                                                                           "lab.fd00-0005-0000-0000-0000-0000-0000-0000-64")]
        for kind, what, name in agents:
            self.assertEqual(self.create(kind, name, what)[0], 0, f"{kind} {name}")

    def test_a_network_that_is_no_DNS_name_gets_its_blocks(self):
        node, = self.nodes(1)
        for network in ("Lab_1", "L" * 200):
            self.assert_ok(node.call("ADD", self.pod(), self.ipam() | {"name": network}))
        self.assertEqual({one["network"] for one in self.objects().values()}, {"Lab_1", "L" * 200})

    def create(self, kind, name, spec):
        manifest = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        return self.api.kubectl("create", "-f", "-", stdin=json.dumps(manifest), check=False)

    def edit(self, kind, name, spec):
        return self.api.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps({"spec": spec}), check=False)


if __name__ == "__main__":
    reason = kube_apiserver.why_impossible() or agent.why_impossible()
    suite.main(per_processor=0) if not reason else (print(f"skip everything: {reason}"), sys.exit(suite.SKIPPED))
