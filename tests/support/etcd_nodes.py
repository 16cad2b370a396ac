"""Tests of cluster-pool over many nodes with a real etcd."""

import json
import os
import time

from support.block_nodes import NETWORK, BlocksTest
from support.etcd import Etcd


class EtcdTest(BlocksTest):
    def serve(self, **options):
        self.etcd = Etcd(**options)
        self.addCleanup(lambda: self.etcd.stop())

    def engine(self):
        return {"etcd": self.etcd.conf()}

    def objects(self):
        return self.etcd.objects()

    def want_more(self, node, held):
        """As the plugin does where its blocks are 3/4 full."""
        file = node.file()
        path = f"{node.root}/lib/blocks/{NETWORK}.want"
        with open(path + ".new", "w", encoding="utf-8") as want:
            json.dump({"network": NETWORK, "pool": file["pool"], "fixed": [], "full": [{"set": 0, "blocks": held}], "since": int(time.time())}, want)
        os.rename(path + ".new", path)

    def first_block(self, node):
        pod = self.pod()
        self.assert_ok(node.call("ADD", pod, self.ipam()))
        return pod
