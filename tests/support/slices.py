"""ResourceSlices of patchbay-agent in an API server of the test."""

import json
import os
import subprocess

from support import suite
from support.agent import CONFIG, PROGRAM, Agent
from support.api_rights import Account
from support.api_server import ApiServer
from support.world import run, set_up, wait_for

API, PLURAL = "resource.k8s.io/v1", "resourceslices"
DRIVER, NODE = "devices.patchbay", "n1"


def links(*names):
    """Links with carrier, as host veths whose other end is up."""
    lines = "".join(f"link add {name} type veth peer name out-{name}\n" for name in names)
    run("ip", "-batch", "-", stdin=lines + "".join(f"link set {end}{name} up\n" for name in names for end in ("", "out-")))


class SlicesTest(suite.NodeTest):
    """A node n1 of a cluster with nothing but an API server."""

    def setUp(self):
        super().setUp()
        set_up("lo")
        self.api = ApiServer("/run/api")
        self.api.account = Account("patchbay-agent.yaml", NODE)
        self.addCleanup(self.api.stop)
        self.api.create("v1", "nodes", {"metadata": {"name": NODE}})

    def config(self, *pools, **dra):
        return {"dra": {"node": NODE, "kubeconfig": self.api.kubeconfig(), **dra}, "pools": list(pools)}

    def agent(self, *pools, folder="/run/agent", **options):
        """An agent with DRA."""
        flags = ["--metrics-file", f"{folder}/metrics.prom"]
        made = Agent(config=self.config(*pools), folder=folder, flags=flags, kubelet="/run/kubelet", **options)
        self.addCleanup(lambda: made.process.wait())
        self.addCleanup(lambda: made.process.kill())
        return made

    def slices(self):
        """The slices in the API, in the order of their names."""
        return [one for one in self.api.list(API, PLURAL) if one["spec"]["driver"] == DRIVER]

    def devices(self):
        """{name of the device: device}."""
        return {device["name"]: device for one in self.slices() for device in one["spec"].get("devices") or []}

    def attribute(self, device, name):
        return next(iter(self.devices().get(device, {}).get("attributes", {}).get(name, {}).values()), None)

    def generations(self):
        return {one["spec"]["pool"]["generation"] for one in self.slices()}

    def is_whole(self):
        """Whether the scheduler takes the pool for complete."""
        found = self.slices()
        return len(self.generations()) == 1 and all(one["spec"]["pool"]["resourceSliceCount"] == len(found) for one in found)

    def assert_soon(self, condition, by=None, seconds=15, says=""):
        if not wait_for(condition, seconds):
            self.fail(f"{says}\n{json.dumps(self.slices(), indent=1)[:4000]}\n{by.log if by else ''}")

    def assert_published(self, names, by=None, seconds=15):
        self.assert_soon(lambda: set(self.devices()) == set(names) and self.is_whole(), by, seconds, f"expected {sorted(names)}")

    def assert_quiet(self, seconds=2.5, late=0):
        """Nobody writes slices; `late`: so many instances may be refused once, each with what another has just written."""
        def asked():
            return [one for one in self.api.seen(path=PLURAL) if one["method"] in ("POST", "PUT", "PATCH", "DELETE")]
        before = len(asked())
        wait_for(lambda: len(asked()) > before + late, seconds)
        since = asked()[before:]
        self.assertEqual([one for one in since if one["code"] != 409], [])
        self.assertLessEqual(len(since), late, since)

    def metric(self, name, folder="/run/agent"):
        """A metric without labels, or None."""
        path = f"{folder}/metrics.prom"
        if not os.path.exists(path):
            return None
        with open(path, encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(f"patchbay_agent_{name} ")), None)


def command(*arguments, config=CONFIG, socket=None):
    """(exit status, stdout, stderr) of patchbay-agent."""
    more = ["--socket", socket] if socket else []
    done = subprocess.run([PROGRAM, *arguments, "--config", config, *more], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr
