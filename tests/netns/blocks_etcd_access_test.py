#!/usr/bin/env python3
"""How agents reach a real etcd for cluster-pool: TLS, users, several endpoints."""

import os
import shutil
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.authority import authority  # noqa: E402
from support.etcd_nodes import EtcdTest  # noqa: E402
from support.world import run, wait_for  # noqa: E402


class Access(EtcdTest):
    def test_tls_and_a_user_whose_token_expires(self):
        self.serve(tls=True, user=("patchbay", "secret"), flags=["--auth-token-ttl", "1"])
        node, = self.nodes(1)
        self.first_block(node)
        time.sleep(1.2)
        self.want_more(node, 1)
        self.assertTrue(wait_for(lambda: len(node.blocks()) == 2, 15), node.log)
        self.assert_settled([node])
        self.assertNotIn("secret", node.log)

    def test_a_server_that_is_not_trusted_is_refused_with_its_cause(self):
        self.serve(tls=True)
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=other",
            "-keyout", "/run/other.key", "-out", "/run/other.crt")
        conf = {"etcd": self.etcd.conf() | {"ca": "/run/other.crt"}}
        self.engine = lambda: conf
        node, = self.nodes(1)
        self.assert_error(node.call("ADD", self.pod(), self.ipam(1)), 11)
        self.assertTrue(wait_for(lambda: "certificate verify failed" in node.note(), 10), node.note())

    def served_by(self, name):
        """A node whose certificate of that name, or etcd's, ended while it was connected."""
        self.serve(tls=True)
        end = self.etcd.certify(name, 4)
        node, = self.nodes(1)
        self.first_block(node)
        time.sleep(max(0, end + 1.1 - time.time()))
        self.want_more(node, 1)
        self.assertTrue(wait_for(lambda: len(node.blocks()) == 2, 10), "the connection was cut: " + node.log)
        self.etcd.kill()
        self.etcd.start(wait=False)
        self.want_more(node, 2)
        self.assertTrue(wait_for(lambda: "127.0.0.1:2379" in node.note(), 20), node.file())
        return node

    def renew(self, node, name):
        self.assert_ok(node.call("ADD", self.pod(), self.ipam(0)))
        self.etcd.certify(name, 3600)
        self.assertTrue(wait_for(lambda: len(node.blocks()) == 3, 45, 0.1), node.log)
        self.assert_settled([node])

    def test_the_certificate_of_etcd_expires_while_connected_and_is_renewed(self):
        node = self.served_by("server")
        self.assertTrue(wait_for(lambda: "certificate verify failed" in node.note(), 15), node.log)
        self.renew(node, "server")

    def test_the_certificate_of_the_node_expires_while_connected_and_is_renewed_on_disk(self):
        node = self.served_by("client")
        self.renew(node, "client")

    def test_a_rotated_authority_is_read_anew(self):
        self.serve(tls=True)
        shutil.copytree("/run/etcd", "/run/mine")
        conf = {"etcd": self.etcd.conf() | {name: f"/run/mine/{file}" for name, file in (("ca", "ca.crt"), ("cert", "client.crt"), ("key", "client.key"))}}
        self.engine = lambda: conf
        node, = self.nodes(1)
        self.first_block(node)
        self.etcd.kill()
        authority("/run/etcd")
        self.etcd.start()
        self.want_more(node, 1)
        self.assertTrue(wait_for(lambda: "certificate verify failed" in node.note(), 20), node.note())
        for name in ("ca.crt", "client.crt", "client.key"):
            shutil.copy(f"/run/etcd/{name}", f"/run/mine/{name}")
        self.assertTrue(wait_for(lambda: len(node.blocks()) == 2, 45, 0.1), node.log)
        self.assert_settled([node])

    def test_endpoints_are_tried_in_turn(self):
        self.serve()
        self.engine = lambda: {"etcd": self.etcd.conf("http://127.0.0.1:9", self.etcd.url, "http://127.0.0.1:19")}
        node, = self.nodes(1)
        self.first_block(node)
        self.assert_settled([node])


if __name__ == "__main__":
    suite.main(needs=("etcd", "etcdctl"), per_processor=3) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
