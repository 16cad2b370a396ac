#!/usr/bin/env python3
"""ResourceSlices of patchbay-agent and the API server: what it does wrong, and while it is away."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.agent import nics  # noqa: E402
from support.slices import API, NODE, PLURAL, SlicesTest, links  # noqa: E402
from support.world import run  # noqa: E402

EXPECTED = ["netdev-eth1"]
#: (a name, faults of the server: keywords of ApiServer.fault())
FAULTS = [
    ("a conflict of a change", [{"method": "PUT", "path": PLURAL, "status": 409, "reason": "Conflict"}]),
    ("too many requests", [{"method": "PUT", "path": PLURAL, "status": 429, "reason": "TooManyRequests", "headers": {"Retry-After": "1"}}]),
    ("an internal error", [{"method": "PUT", "path": PLURAL, "status": 500}]),
    ("a slow answer", [{"method": "PUT", "path": PLURAL, "slow": 1.5}]),
    ("a torn answer", [{"method": "PUT", "path": PLURAL, "torn": True}]),
    ("a connection that ends", [{"method": "PUT", "path": PLURAL, "close": True}]),
    ("a node that cannot be read", [{"method": "GET", "path": "nodes", "status": 403, "reason": "Forbidden"}]),
    ("a watch that ends with an error", [{"method": "WATCH", "path": PLURAL, "lines": b'{"type":"ERROR","object":{}}\n'}]),
    ("no JSON", [{"method": "PUT", "path": PLURAL, "body": b"<html>"}]),
    ("an answer about another object", [{"method": "PUT", "path": PLURAL, "body": {"kind": "ResourceSlice", "metadata": {"name": "x"}}}]),
]


@suite.spread
class Server(SlicesTest):
    @suite.cases(FAULTS)
    def the_slices_are_right_after(self, faults):
        links("eth1")
        by = self.agent(nics("eth*"))
        self.assert_published(EXPECTED, by)
        for one in faults:
            self.api.fault(**one)
        if any(one["method"] == "WATCH" for one in faults):
            self.api.disconnect()
        run("ip", "link", "set", "eth1", "mtu", "1402")
        self.assert_soon(lambda: self.attribute("netdev-eth1", "mtu") == 1402 and self.is_whole(), by, 25)
        self.assert_soon(lambda: self.metric("slices_right") == 1, by)
        self.assertTrue(by.is_alive())

    def test_an_absent_server_is_waited_for_and_nothing_else_stops(self):
        links("eth1")
        self.api.away()
        by = self.agent(nics("eth*"))
        self.assertIsNotNone(by.status())
        self.assert_soon(lambda: self.metric("slices_right") == 0, by)
        self.api.back()
        self.assert_published(EXPECTED, by, 25)
        self.api.away()
        links("eth2")
        time.sleep(4)
        self.assertIsNotNone(by.status())
        warned = [one for one in by.lines() if one["what"] == "publish slices"]
        self.assertLess(len(warned), 8, warned)
        self.api.back()
        self.assert_published([*EXPECTED, "netdev-eth2"], by, 40)

    def test_a_node_that_the_server_does_not_know_is_an_error_until_it_does(self):
        links("eth1")
        self.api.remove("v1", "nodes", NODE)
        by = self.agent(nics("eth*"))
        self.assert_soon(lambda: self.metric("slice_errors_total"), by)
        self.assertEqual(self.slices(), [])
        self.assertIn(f'nodes "{NODE}" not found', by.ask("status")["slices"]["error"])
        self.api.create("v1", "nodes", {"metadata": {"name": NODE}})
        self.assert_published(EXPECTED, by, 25)


if __name__ == "__main__":
    suite.main(per_processor=3) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
