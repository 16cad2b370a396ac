"""Tests of cluster-pool over many nodes with a real etcd, which is away(), back(), and goes back to what it had at save() by restore()."""

from support.block_nodes import BlocksTest
from support.etcd import Etcd


class EtcdTest(BlocksTest):
    def serve(self, **options):
        self.etcd = Etcd(**options)
        self.addCleanup(lambda: self.etcd.stop())

    def engine(self):
        return {"etcd": self.etcd.conf()}

    def objects(self):
        return self.etcd.objects()

    def away(self):
        self.etcd.kill()

    def back(self):
        self.etcd.start()

    def save(self):
        self.etcd.save("/run/etcd/saved")

    def restore(self):
        self.etcd.restore("/run/etcd/saved")
