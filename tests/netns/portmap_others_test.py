#!/usr/bin/env python3
"""portmap beside others: pods of one family."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.hostport import mapping  # noqa: E402
from support.portmap import BACKENDS, PortmapTest  # noqa: E402
from support.snapshot import snapshot  # noqa: E402


@suite.spread
class OtherFamily(PortmapTest):
    @suite.cases(BACKENDS)
    def of_a_hostIP_is_skipped(self, backend):
        """As in the reference plugin since its #379: else a pod of a node with two families would
        not start in a network with one."""
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        one.v6 = ""
        ports = [mapping(80, 80, "tcp", "192.0.2.1"), mapping(80, 80, "tcp", "2001:db8::1")]
        added = self.call("ADD", one, ports)
        self.assert_ok(added)
        self.assertIn("runtimeConfig.portMappings[1]", added.stderr)
        self.assertEqual(self.targets(), {("tcp", "192.0.2.1", 80): {f"{one.v4}:80"}})
        for verb in ("CHECK", "REPAIR"):
            self.assert_ok(self.call(verb, one, ports, version="1.1.0"))
        # The port of the other family has no owner.
        two.v4 = ""
        self.add(two, mapping(80, 80, "tcp", "2001:db8::1"))
        self.assert_ok(self.call("CHECK", one, ports))
        self.delete(one, *ports)
        self.assertEqual(self.targets(), {("tcp", "2001:db8::1", 80): {f"[{two.v6}]:80"}})
        self.delete(two, mapping(80, 80, "tcp", "2001:db8::1"))
        self.assertEqual(self.targets(), {})

    @suite.cases(BACKENDS)
    def of_all_hostIPs_maps_nothing(self, backend):
        self.use(backend)
        one = self.container()
        one.v6 = ""
        before = snapshot()
        self.add(one, mapping(80, 80, "tcp", "2001:db8::1"), mapping(81, 80, "tcp", "::"))
        self.assert_same(before)
        self.assert_ok(self.call("CHECK", one, [mapping(80, 80, "tcp", "2001:db8::1")]))
        self.delete(one, mapping(80, 80, "tcp", "2001:db8::1"))


if __name__ == "__main__":
    suite.main()
