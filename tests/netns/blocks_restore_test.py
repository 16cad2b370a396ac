#!/usr/bin/env python3
"""cluster-pool after etcd or the API server was restored from a snapshot of before the last claims: what is repaired, and the window in
which a block is doubled, which docs/cluster-pool.md names."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, block_restore, suite  # noqa: E402
from support.etcd_nodes import EtcdTest  # noqa: E402
from support.kubernetes_nodes import KubernetesTest  # noqa: E402


class Etcd(block_restore.Restore, EtcdTest):
    def write_much(self):
        for number in range(30):
            self.etcd.control("put", "/other", str(number))


class Kubernetes(block_restore.Restore, KubernetesTest):
    def write_much(self):
        self.api.store.version += 1000


if __name__ == "__main__":
    suite.main(needs=("etcd", "etcdctl"), per_processor=2) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
