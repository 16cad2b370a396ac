#!/usr/bin/env python3
"""The manifests of DRA in conf-examples/kubernetes: configs, classes, templates and rights fit each other and the agent."""

import glob
import ipaddress
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, configs, dra_cluster, kubelet, suite  # noqa: E402
from support.agent import PROGRAM  # noqa: E402
from support.api_rights import Account, documents  # noqa: E402
from support.plugin import OURS, ROOT  # noqa: E402
from support.slices import DRIVER, SlicesTest, links  # noqa: E402
from support.world import run, wait_for  # noqa: E402

FOLDER = f"{ROOT}/conf-examples/kubernetes"
CLAIMS = "resource.k8s.io/v1"


def text_of(name):
    with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
        return file.read()


def config_of(name):
    """The agent's config in a ConfigMap."""
    return json.loads(re.search(r"(?m)^  devices\.json: \|\n((?:    .*\n)+)", text_of(name))[1])


def classes():
    """{name of a DeviceClass: (driver, resource) that its selector demands}."""
    form = r"name: (\S+)\nspec:.*?device\.driver == \"(.*?)\" && device\.attributes\[\"(.*?)\"\]\.resource == \"(.*?)\""
    return {name: (driver, of, resource) for name, driver, of, resource in re.findall(form, text_of("device-classes.yaml"), re.DOTALL)}


def refused(api):
    """Requests that the rights of the manifest did not allow."""
    return [one for one in api.seen() if one["code"] == 403]


class Examples(SlicesTest):
    def example(self):
        """The agent with the config of the example, on a node as it expects it."""
        links("ens5f0", "eth1")
        config = config_of("patchbay-agent.yaml")
        made = agent.Agent(config=config | {"dra": self.config()["dra"]}, kubelet="/run/kubelet")
        self.addCleanup(lambda: made.process.wait())
        self.addCleanup(lambda: made.process.kill())
        self.assert_published(["netdev-ens5f0", "eth1-macvlan"], made)
        return made

    def test_the_agent_takes_each_config(self):
        self.assertEqual(config_of("patchbay-agent.yaml")["dra"], {})
        self.assertNotIn("dra", config_of("patchbay-agent-before-1.34.yaml"))
        for name in ("patchbay-agent.yaml", "patchbay-agent-before-1.34.yaml", "patchbay-agent-with-cluster-pool.yaml"):
            done = subprocess.run([PROGRAM, "--validate"], input=json.dumps(config_of(name)), capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, "findings" in done.stdout), (0, False), done.stdout)

    def test_each_class_selects_devices_of_the_example(self):
        self.example()
        self.assertEqual(len(classes()), text_of("device-classes.yaml").count("kind: DeviceClass"))
        selected = {name: [device for device in self.devices() if self.attribute(device, "resource") == resource]
                    for name, (driver, of, resource) in classes().items() if driver == of == DRIVER}
        self.assertEqual(selected, {"nic": ["netdev-ens5f0"], "macvlan": ["eth1-macvlan"]})

    def test_each_claim_names_a_class_and_each_deployment_a_template(self):
        for path in glob.glob(f"{FOLDER}/deployment-with-*.yaml"):
            text = text_of(os.path.basename(path))
            for name in re.findall(r"deviceClassName: ([\w-]+)", text):
                self.assertIn(name, classes(), path)
            templates = set(re.findall(r"kind: ResourceClaimTemplate\nmetadata:\n  name: (\S+)", text))
            self.assertEqual(set(re.findall(r"resourceClaimTemplateName: ([\w-]+)", text)), templates, path)
            for asked in re.findall(r"limits: \{(\S+): 1\}", text):
                self.assertIn(f"extendedResourceName: {asked}\n", text_of("device-classes.yaml"), path)

    def test_capacities_that_a_claim_asks_for_are_those_of_the_device(self):
        self.example()
        asked = re.search(r"requests: \{(\w+): (\w+)\}", text_of("deployment-with-macvlan.yaml"))
        self.assertIn(asked[1], self.devices()["eth1-macvlan"]["capacity"])
        self.assertEqual(asked[2], "200M")

    def test_the_agent_does_nothing_that_its_role_does_not_allow(self):
        by = self.example()
        run("ip", "link", "set", "ens5f0", "mtu", "1400")
        self.assert_soon(lambda: self.attribute("netdev-ens5f0", "mtu") == 1400, by)
        by.stop()
        self.assertEqual(subprocess.run([PROGRAM, "withdraw", "--config", by.config], check=False).returncode, 0)
        self.assertEqual(refused(self.api), [])
        self.assertLessEqual({(verb, "resourceslices") for verb in ("list", "watch", "create", "update", "delete")}, self.api.account.used)

    def test_without_a_right_of_the_role_no_slice_is_published(self):
        self.api.account.rules = [rule for rule in self.api.account.rules if rule["resources"] != ["resourceslices"]]
        links("ens5f0", "eth1")
        by = self.agent(*config_of("patchbay-agent.yaml")["pools"])
        self.assert_soon(lambda: "cannot list resource" in by.log, by)
        self.assertEqual(self.slices(), [])

    def test_names_in_each_manifest_are_those_of_its_other_objects(self):
        for path in glob.glob(f"{FOLDER}/*.yaml"):
            objects = [one for one in documents(os.path.basename(path)) if "kind" in one]
            names = {(one["kind"], one["metadata"]["name"]) for one in objects}
            self.assertEqual(len(names), len(objects), path)
            for one in objects:
                with self.subTest(file=os.path.basename(path), kind=one["kind"]):
                    self.assert_consistent(one, names)

    def assert_consistent(self, one, names):
        spec = one.get("spec", {})
        if one["kind"] == "ClusterRoleBinding":
            self.assertLessEqual({("ClusterRole", one["roleRef"]["name"])} | {(of["kind"], of["name"]) for of in one["subjects"]}, names)
        if one["kind"] not in ("DaemonSet", "Deployment"):
            return
        template, pod = spec["template"], spec["template"]["spec"]
        self.assertEqual(spec["selector"]["matchLabels"], template["metadata"]["labels"])
        self.assertEqual({mount["name"] for box in pod["containers"] for mount in box.get("volumeMounts", [])},
                         {volume["name"] for volume in pod.get("volumes", [])})
        self.assertLessEqual({("ConfigMap", volume["configMap"]["name"]) for volume in pod.get("volumes", []) if "configMap" in volume}, names)
        if account := pod.get("serviceAccountName"):
            self.assertIn(("ServiceAccount", account), names)
        claims = {claim["name"] for claim in pod.get("resourceClaims", [])}
        self.assertEqual(claims, {claim["name"] for box in pod["containers"] for claim in box.get("resources", {}).get("claims", [])})

    def test_the_policy_names_the_account_and_the_driver(self):
        policy, manifest = text_of("patchbay-agent-policy.yaml"), text_of("patchbay-agent.yaml")
        account = re.search(r"kind: ServiceAccount, name: (\S+), namespace: (\S+)\}", manifest)
        self.assertIn(f'"system:serviceaccount:{account[2]}:{account[1]}"', policy)
        self.assertIn(f'driver == "{DRIVER}"', policy)
        self.assertIn(f"resourceNames: [{DRIVER}]", manifest)
        self.assertIn("serviceAccountName: patchbay-agent\n", manifest)
        self.assertIn("{name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}", manifest)


class Deployed(suite.NodeTest):
    """The manifests on a node whose network is the example's, by cluster of the tests."""

    def setUp(self):
        super().setUp()
        if reason := kubelet.why_impossible() or configs.lack("macvlan", "bandwidth"):
            self.skipTest(reason)
        links("ens5f0", "eth1")
        os.mkdir("/run/tools")
        os.makedirs("/etc/cni/net.d", exist_ok=True)
        shutil.copy(f"{ROOT}/conf-examples/10-devices.conflist", "/etc/cni/net.d")
        os.environ["CNI_PATH"] = OURS
        self.cluster = dra_cluster.DraCluster("pods-devices")
        self.addCleanup(self.cluster.stop)
        for name in ("patchbay-agent.yaml", "device-classes.yaml"):
            self.kubectl("apply", "-f", name)
        self.kubectl("rollout", "status", "daemonset/patchbay-agent")

    def kubectl(self, *words):
        return self.cluster.kubectl(list(words), FOLDER)

    def test_a_pod_of_each_deployment_has_its_interface_until_it_ends(self):
        for name, words in (("nic", "inet 10.7.0."), ("macvlan", "inet 10.8.0.")):
            self.kubectl("apply", "-f", f"deployment-with-{name}.yaml")
            self.assertIn(words, self.kubectl("exec", f"deployment/web-{name}", "--", "ip", "addr", "show", "net1"))
        shaped = self.cluster.pods["web-macvlan-1"].run("tc", "qdisc", "show", "dev", "net1") + run("tc", "qdisc", "show")
        self.assertIn("rate 200Mbit", shaped)
        self.assertEqual(len(agent.ledger()), 2)
        self.assertTrue(wait_for(lambda: all(one["status"].get("devices") for one in self.cluster.api.list(CLAIMS, "resourceclaims")), 20))
        self.kubectl("delete", "deployment/web-nic", "deployment/web-macvlan")
        self.assertEqual(agent.ledger(), {})
        self.kubectl("apply", "-f", "deployment-with-extended-resource.yaml")
        self.assertIn("inet 10.7.0.", self.kubectl("exec", "deployment/web-extended", "--", "ip", "addr", "show", "net1"))
        self.assertEqual(refused(self.cluster.api), [])
        self.assertIn(("associated-node:patch", "resourceclaims/driver"), self.cluster.api.account.used)

    def test_slots_have_addresses_of_a_pool_of_the_cluster(self):
        blocks, api = Account("cluster-pool.yaml", "n1"), self.cluster.api
        api.account.rules, api.account.schemas = api.account.rules + blocks.rules, blocks.schemas
        with open("/run/blocks.json", "w", encoding="utf-8") as file:
            json.dump({"node": "n1", "engine": {"kubernetes": {"kubeconfig": api.kubeconfig()}}}, file)
        process = subprocess.Popen([PROGRAM, "--config", "/run/none", "--blocks-config", "/run/blocks.json"], stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.kubectl("apply", "-f", "patchbay-agent-with-cluster-pool.yaml")
        self.kubectl("rollout", "restart", "daemonset/patchbay-agent")
        self.assertTrue(wait_for(lambda: [one["name"] for of in self.cluster.slices() for one in of["spec"]["devices"]] == ["eth1-macvlan"], 20))
        self.kubectl("rollout", "status", "daemonset/patchbay-agent")
        self.kubectl("apply", "-f", "deployment-with-macvlan.yaml")
        self.kubectl("scale", "deployment/web-macvlan", "--replicas=3")
        found = {self.cluster.pods[f"web-macvlan-{n}"].run("ip", "-4", "-o", "addr", "show", "net1").split()[3] for n in (1, 2, 3)}
        block, = (ipaddress.ip_network(one["spec"]["cidr"]) for one in api.list("blocks.patchbay/v1", "addressblocks"))
        self.assertEqual((len(found), {ipaddress.ip_interface(one).ip in block for one in found}), (3, {True}), found)
        self.assertEqual(refused(api), [])

    def test_one_replica_more_than_there_are_devices_is_pending(self):
        self.kubectl("apply", "-f", "deployment-with-nic.yaml")
        self.kubectl("scale", "deployment/web-nic", "--replicas=2")
        self.assertEqual(self.kubectl("get", "pods"), "web-nic-1   Running\nweb-nic-2   Pending\n")
        self.kubectl("apply", "-f", "deployment-with-macvlan.yaml")
        self.kubectl("scale", "deployment/web-macvlan", "--replicas=3")
        self.assertEqual(self.kubectl("get", "pods").count("Running"), 4)


if __name__ == "__main__":
    suite.main(per_processor=2) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
