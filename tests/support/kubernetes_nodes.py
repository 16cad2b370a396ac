"""Tests of cluster-pool over many nodes with a simulated API server, as support.etcd_nodes has them with etcd."""

from support.api_rights import Account
from support.api_server import ApiServer
from support.block_nodes import BlocksTest

API = "blocks.patchbay/v1"


class KubernetesTest(BlocksTest):
    def serve(self, **options):
        self.api = ApiServer(**options)
        self.api.account = Account("cluster-pool.yaml", "n1")
        self.addCleanup(self.api.stop)
        self.kubeconfig = self.api.kubeconfig(user="tokenFile")

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

    def save(self):
        self.api.store.save()

    def restore(self):
        self.api.away()
        self.api.store.restore()
        self.api.back()
