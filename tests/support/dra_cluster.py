"""A cluster with Dynamic Resource Allocation for a page of the documentation: `kubectl` of manifests, a scheduler that gives the
first free device of a class, an API server, and the kubelet of the tests. A DaemonSet is the process of its agent."""

import json
import os
import re
import subprocess
import uuid

from support.api_rights import Account, node_selector
from support.api_server import ApiServer
from support.cluster import Cluster, _text
from support.dra_kubelet import DRIVER, NODE, DraKubelet
from support.plugin import OURS, ROOT
from support.world import Pod, wait_for

API = "resource.k8s.io/v1"
CONFIG = "/run/tools/devices.json"
#: Kinds of which nothing but the object is played.
QUIET = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}


def first(form, text):
    return re.search(form, text, re.MULTILINE | re.DOTALL)[1]


class DraCluster(Cluster):
    """And the programs of the parent."""

    PROGRAMS = (*Cluster.PROGRAMS, "ctr")

    def __init__(self, network):
        self.api = ApiServer("/run/api")
        self.api.account = Account("patchbay-agent.yaml", NODE)
        self.api.create("v1", "nodes", {"metadata": {"name": NODE}})
        self.kubeconfig, self.agent = self.api.kubeconfig(), None
        self.config, self.classes, self.templates, self.deployments, self.claims = {}, {}, {}, {}, {}
        super().__init__(network, DraKubelet())

    def stop(self):
        super().stop()
        if self.agent:
            self.agent.kill()
            self.agent.wait()
        self.api.stop()

    def ctr(self, words, _folder):
        *words, image = words
        assert words == ["-n", "k8s.io", "images", "import"], words
        assert f"`{os.path.basename(image)}`" in _text(f"{ROOT}/docs/packaging.md"), image
        return f"unpacking {image}...done\n"

    def kubectl(self, words, folder):
        words = [word for word in words if word not in ("-n", "kube-system")]
        verb, *rest = words
        files = [os.path.join(folder, rest[at + 1]) for at, word in enumerate(rest) if word == "-f"]
        if verb in ("apply", "delete") and files:
            docs = [doc for file in files for doc in _text(file).split("\n---\n")]
            kinds = [first(r"^kind: (\w+)$", doc) for doc in docs]
            if kinds == ["Pod"]:
                return super().kubectl(words, folder)
            return "".join(self.change(verb, kind, doc) for kind, doc in zip(kinds, docs))
        if verb in ("rollout", "scale", "get", "wait") and rest[0] != "node":
            return getattr(self, verb)(rest)
        if verb == "exec" and rest[0].startswith("deployment/"):
            return self.pods[f"{rest[0].split('/')[1]}-1"].run(*rest[2:])
        if verb == "delete" and rest[0].startswith("deployment/"):
            return "".join(self.end(kind_and_name) for kind_and_name in rest)
        return super().kubectl(words, folder)

    def change(self, verb, kind, doc):
        name = first(r"^  name: (\S+)$", doc)
        if kind not in QUIET:
            getattr(self, f"{verb}_{kind}")(name, doc)
        return f"{kind.lower()}/{name} {'created' if verb == 'apply' else 'deleted'}\n"

    # Manifests.

    def apply_ConfigMap(self, _, doc):  # noqa: N802
        self.config = json.loads(first(r"^  devices\.json: \|\n((?:    .*\n?)+)", doc))

    def apply_DaemonSet(self, *_):  # noqa: N802
        self.config["dra"] = {"kubeconfig": self.kubeconfig}
        with open(CONFIG, "w", encoding="utf-8") as file:
            json.dump(self.config, file)
        self.agent = subprocess.Popen([f"{OURS}/patchbay-agent", "--config", CONFIG], env=os.environ | {"NODE_NAME": NODE},
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def delete_DaemonSet(self, *_):  # noqa: N802
        self.agent.terminate()
        status, self.agent = self.agent.wait(timeout=20), None
        assert status == 0, status
        os.unlink(CONFIG)

    def delete_ConfigMap(self, *_):  # noqa: N802
        self.config = {}

    def apply_DeviceClass(self, name, doc):  # noqa: N802
        self.classes[name] = first(r'\.resource == "(.*?)"', doc)
        if extended := re.search(r"extendedResourceName: (\S+)", doc):
            self.templates[extended[1]] = name, None  # the scheduler makes a claim for `resources.limits`

    def delete_DeviceClass(self, name, _):  # noqa: N802
        del self.classes[name]

    def apply_ResourceClaimTemplate(self, name, doc):  # noqa: N802
        asked = re.search(r"bandwidth: (\w+)", doc)
        self.templates[name] = first(r"deviceClassName: ([\w-]+)", doc), asked and asked[1]

    def apply_Deployment(self, name, doc):  # noqa: N802
        self.deployments[name] = first(r"(?:resourceClaimTemplateName: |limits: \{)([\w./-]+)", doc)
        self.start(name, f"{name}-1")

    # The scheduler and the kubelet.

    def slices(self):
        return [one for one in self.api.list(API, "resourceslices") if one["spec"]["driver"] == DRIVER]

    def results(self):
        """What claims have."""
        return [result for claim in self.claims.values() for result in claim["status"]["allocation"]["devices"]["results"]]

    def allocate(self, template):
        """A result of the first device that the class selects and that is free, or None."""
        name, bandwidth = self.templates[template]
        taken = {one["device"] for one in self.results() if "shareID" not in one}
        for device in (device for one in self.slices() for device in one["spec"]["devices"]):
            if device["attributes"]["resource"]["string"] != self.classes[name] or "taints" in device or device["name"] in taken:
                continue
            result = {"driver": DRIVER, "pool": NODE, "device": device["name"], "request": "net"}
            if not device.get("allowMultipleAllocations"):
                return result
            default = device["capacity"]["bandwidth"]["requestPolicy"]["default"]
            return result | {"shareID": str(uuid.uuid4()), "consumedCapacity": {"slots": "1", "bandwidth": bandwidth or default}}
        return None

    def start(self, deployment, name):
        """A pod, which is pending where there is no device for it."""
        result = self.allocate(self.deployments[deployment])
        if result is None:
            self.pods[name] = None
            return
        claim = self.api.create(API, "resourceclaims", {"metadata": {"name": f"{name}-net"}, "spec": {}, "status": {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": node_selector(NODE)}, "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]}}, "default")
        self.claims[name] = claim
        self.kubelet.prepare(claim)
        self.kubelet.own_claims("default", name, claim)
        self.pods[name] = Pod(name)
        self.call("add", name)

    def end(self, what):
        kind, name = what.split("/")
        if kind == "resourceclaimtemplate":
            del self.templates[name]
            return f"{what} deleted\n"
        assert kind == "deployment", what
        for pod in [pod for pod in self.pods if pod.startswith(f"{name}-")]:
            if self.pods[pod] is not None:
                self.call("del", pod)
                claim = self.claims.pop(pod)
                self.kubelet.unprepare(claim)
                self.kubelet.disown("default", pod)
                self.api.remove(API, "resourceclaims", claim["metadata"]["name"], "default")
                self.pods[pod].remove()
            del self.pods[pod]
        return f"{what} deleted\n"

    # What is asked for.

    def rollout(self, words):
        if words[0] == "restart":
            config = self.config
            self.delete_DaemonSet()
            self.config = config
            self.apply_DaemonSet()
            return f"{words[1]} restarted\n"
        assert words[0] == "status", words
        if words[1] == "daemonset/patchbay-agent":
            assert wait_for(lambda: self.kubelet.drivers() and self.slices(), 20), "the driver is not registered"
        else:
            assert self.pods[f"{words[1].removeprefix('deployment/')}-1"], words
        return f"{words[1]} successfully rolled out\n"

    def wait(self, words):
        name = first(r"^--for=delete pod -l app=(\S+) ", " ".join(words))
        assert not [pod for pod in self.pods if pod.startswith(f"{name}-")], words
        return ""

    def scale(self, words):
        name = words[0].removeprefix("deployment/")
        for number in range(1, int(words[1].removeprefix("--replicas=")) + 1):
            if f"{name}-{number}" not in self.pods:
                self.start(name, f"{name}-{number}")
        return f"deployment/{name} scaled\n"

    def get(self, words):
        if words[0] == "resourceslices":
            path = first(r"^jsonpath=\{\.items\[\*\]\.spec\.devices\[\*\]\.(.*)\}$", words[-1]).split(".")
            found = []
            for one in self.slices():
                for device in one["spec"].get("devices", []):
                    for key in path:
                        device = device.get(key, {})
                    found.append(device)
            return " ".join(one for one in found if one) + "\n"
        assert words[0] == "pods", words
        return "".join(f"{name}   {'Running' if pod else 'Pending'}\n" for name, pod in self.pods.items())
