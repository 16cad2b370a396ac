#!/usr/bin/env python3
"""Watches of the client of the API server (kubernetes/): no change is lost, whatever the server and the way to it do."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.api_client import NODES, ClientTest, main  # noqa: E402
from support.world import wait_for  # noqa: E402


@suite.spread
class Watches(ClientTest):
    def follow(self, **options):
        client = self.client()
        client.send("follow", path=NODES, **options)
        self.assertEqual(client.event("listed")["names"], ["n1", "n2"])
        self.assertTrue(wait_for(lambda: self.api.seen("WATCH"), 5))
        return client

    def label(self, value, name="n1"):
        self.api.patch("v1", "nodes", name, {"metadata": {"labels": {"v": value}}})

    def test_changes_arrive_as_they_happen(self):
        client = self.follow()
        self.label("1")
        client.event("changed", name="n1", labels={"v": "1"})
        self.api.create("v1", "nodes", {"metadata": {"name": "n3"}})
        client.event("changed", name="n3")
        self.api.remove("v1", "nodes", "n3")
        client.event("removed", name="n3")
        self.assertEqual(client.end(), 0)

    @suite.cases([("closes the connection", "close"), ("is away for two seconds", "away"), ("ends the watch", "end")])
    def no_change_is_lost_when_the_server(self, what):
        self.api.watch_limit = 1 if what == "end" else 1800
        client = self.follow()
        if what == "away":
            self.api.away()
        elif what == "close":
            self.api.disconnect()
        self.label("2")
        if what == "away":
            time.sleep(2)
            self.api.back()
        client.event("changed", labels={"v": "2"})
        self.label("3")
        client.event("changed", labels={"v": "3"})
        self.assertEqual(len(self.api.seen("GET", "limit=")), 1, "listed once")

    def test_an_event_that_the_end_of_the_connection_tore_is_none(self):
        self.api.fault(method="WATCH", torn=True)
        client = self.follow()
        self.label("4")
        client.event("failed")
        client.event("changed", labels={"v": "4"})

    @suite.cases([("an ERROR event", False), ("the status of the watch", True)])
    def objects_are_listed_again_when_their_version_expired_by(self, by_status):
        client = self.follow()
        if by_status:
            self.api.fault(method="WATCH", status=410, reason="Expired")
        self.api.away()
        self.api.remove("v1", "nodes", "n2")
        self.api.store.expire()
        self.api.back()
        self.assertEqual(client.event("listed")["names"], ["n1"])
        self.label("5")
        client.event("changed", labels={"v": "5"})

    @suite.cases([("no JSON", b"nonsense\n"), ("no event", b'{"type": "ADDED"}\n'), ("an object without a name", b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}}\n'),
                  ("a line of 8 MiB", b"x" * (8 << 20)), ("an error", b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd"}}\n')])
    def a_watch_goes_on_after(self, lines):
        self.api.fault(method="WATCH", lines=lines)
        client = self.follow()
        client.event("failed")
        self.label("6")
        client.event("changed", labels={"v": "6"})

    def test_a_silent_watch_is_ended_after_its_time(self):
        self.api.fault(method="WATCH", silent=60)
        client = self.follow(watch=1, grace=1)
        self.label("7")
        client.event("failed")  # a second after the server should have ended it
        client.event("changed", labels={"v": "7"})

    def test_a_watch_that_drips_ends_after_its_time_and_holds_no_resync_up(self):
        self.api.fault(method="WATCH", drip=0.1, times=2)
        client = self.follow(resync=2, grace=1)
        client.event("failed")
        client.event("listed")

    def test_a_token_that_is_written_anew_ends_the_pause_after_401(self):
        client = self.client("in-cluster:/run/pod", env=self.api.in_cluster("/run/pod"))
        self.api.rotate("second-token")
        client.send("follow", path=NODES, first=60_000, most=60_000)
        self.assertEqual(client.event("failed")["status"], 401)
        self.api.in_cluster("/run/pod")
        client.event("listed")

    def test_without_lists_each_object_is_a_change(self):
        client = self.client()
        client.send("follow", path=NODES, lists=False)
        self.assertEqual({client.event("changed")["name"] for _ in range(2)}, {"n1", "n2"})
        self.label("8")
        client.event("changed", labels={"v": "8"})
        self.assertEqual(self.api.seen("GET", "limit="), [])

    def test_bookmarks_move_the_place_from_which_it_watches(self):
        self.api.bookmarks, self.api.watch_limit = 0.3, 2
        client = self.client()
        client.send("follow", path=NODES, query={"fieldSelector": "metadata.name=n1"})
        client.event("listed")
        self.assertTrue(wait_for(lambda: self.api.seen("WATCH"), 5))
        for value in range(5):  # of another object
            self.label(str(value), "n2")
        last = self.api.store.version
        self.assertTrue(wait_for(lambda: any(f"resourceVersion={last}" in one["path"] for one in self.api.seen("WATCH")), 8))

    def test_objects_are_listed_again_from_time_to_time(self):
        client = self.follow(resync=2)
        client.event("listed")
        self.assertGreaterEqual(len(self.api.seen("GET", "limit=")), 2)

    def test_a_handler_that_throws_gets_the_objects_again(self):
        client = self.follow()
        self.api.create("v1", "nodes", {"metadata": {"name": "throw"}})
        self.assertIn("the handler threw", client.event("failed")["error"])
        self.assertIn("throw", client.event("listed")["names"])

    def test_a_server_that_ends_each_watch_at_once_is_not_asked_in_a_loop(self):
        self.api.fault(method="WATCH", times=10**6, lines=b"")
        client = self.follow(first=200, most=1000)
        time.sleep(2)
        self.assertLess(len(self.api.seen("WATCH")), 8)
        self.assertLess(client.processor_time(), 0.5)

    def test_pauses_grow_while_the_server_is_away_and_follow_retry_after(self):
        client = self.follow(first=100, most=1000)
        self.api.away()
        pauses = [client.event("failed")["pause"] for _ in range(6)]
        for before, after in zip(pauses, pauses[1:]):  # those at the most differ by chance
            self.assertTrue(before < after or after >= 1000, pauses)
        self.assertTrue(all(pause <= 1200 for pause in pauses), pauses)
        self.assertGreaterEqual(pauses[-1], 1000)
        self.api.fault(method="WATCH", status=503, headers={"Retry-After": "2"})
        self.api.back()
        self.assertGreaterEqual(client.next(lambda line: line.get("status") == 503)["pause"], 2000)

    def test_an_idle_watch_takes_no_processor_time(self):
        client = self.follow()
        before = client.processor_time()
        time.sleep(2)
        self.assertLessEqual(client.processor_time() - before, 0.01)


if __name__ == "__main__":
    main()
