#!/usr/bin/env python3
"""The client of the API server (kubernetes/) against one that does all it may: tokens, calls, pages, and whatever goes wrong."""

import json
import os
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.api_client import NODES, ClientTest, main  # noqa: E402
from support.api_server import ApiServer, authority  # noqa: E402
from support.world import run, wait_for  # noqa: E402

ROOT = "/run/pod"


@suite.spread
class Access(ClientTest):
    @suite.cases([("a token", "token"), ("a file with a token", "tokenFile"), ("a client certificate", "certificate")])
    def a_kubeconfig_is_used_with(self, user):
        client = self.client(self.api.kubeconfig(user=user))
        self.assert_answer(client.ask("get"))
        [seen] = self.api.seen("GET")
        self.assertRegex(seen["agent"], r"^patchbay/\d")

    def test_a_pod_finds_the_server_and_reads_its_token_again_after_rotation(self):
        env = self.api.in_cluster(ROOT)
        client = self.client(f"in-cluster:{ROOT}", env=env)
        self.assert_answer(client.ask("get"))
        self.api.rotate("second-token")
        self.assertEqual(client.ask("get")["status"], 401)
        self.api.in_cluster(ROOT)
        self.assert_answer(client.ask("get"))

    def test_a_token_that_is_rotated_while_it_is_used_is_read_again_once(self):
        client = self.client(f"in-cluster:{ROOT}", env=self.api.in_cluster(ROOT))
        self.api.rotate("second-token")
        self.api.fault(slow=1)
        number = client.send("get", path=NODES + "/n1")
        self.assertTrue(wait_for(lambda: self.api.seen("GET"), 5))
        self.api.in_cluster(ROOT)
        self.assert_answer(client.next(lambda line: line.get("id") == number))
        self.assertEqual([one["code"] for one in self.api.seen("GET")], [401, 200])

    def test_a_server_that_another_ca_vouches_for_gets_no_token(self):
        authority("/run/other")
        client = self.client(f"in-cluster:{ROOT}", env=self.api.in_cluster(ROOT))
        with open("/run/other/ca.crt", encoding="utf-8") as file:
            other = file.read()
        with open(f"{ROOT}/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "w", encoding="utf-8") as file:
            file.write(other)
        answer = client.ask("get")
        self.assertIn("certificate", answer["error"])
        self.assertEqual(answer["status"], 0)
        self.assertEqual(self.api.seen(), [])
        self.api.in_cluster(ROOT)  # and the CA is read again
        self.assert_answer(client.ask("get"))

    def test_a_ca_that_changes_ends_kept_connections(self):
        client = self.client(f"in-cluster:{ROOT}", env=self.api.in_cluster(ROOT))
        self.assert_answer(client.ask("get"))
        with open(f"{ROOT}/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "w", encoding="utf-8") as file:
            file.write("-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n")
        self.assertIn("error", client.ask("get"))

    def test_a_server_with_another_name_is_not_trusted(self):
        path = self.api.kubeconfig()
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        for name, is_right in (("kubernetes.default.svc", True), ("evil.example.org", False)):
            config["clusters"][0]["cluster"]["tls-server-name"] = name
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            self.assertEqual("answer" in self.client(path).ask("get"), is_right, name)

    def test_a_server_without_tls_is_used_on_the_loopback_interface_alone(self):
        plain = ApiServer("/run/plain", tls=False)
        self.addCleanup(plain.stop)
        plain.create("v1", "nodes", {"metadata": {"name": "n1"}})
        self.assert_answer(self.client(plain.kubeconfig()).ask("get"))
        path = plain.kubeconfig()
        with open(path, encoding="utf-8") as file:
            content = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(content.replace("127.0.0.1", "192.0.2.1"))
        self.assertIn("loopback", self.client(path).start["refused"])

    def test_proxies_of_the_environment_are_not_used(self):
        client = self.client(env=dict.fromkeys(("https_proxy", "HTTPS_PROXY", "ALL_PROXY"), "http://localhost:1"))
        self.assert_answer(client.ask("get"))


@suite.spread
class Calls(ClientTest):
    def test_objects_are_created_replaced_patched_and_removed(self):
        client = self.client()
        classes = "/apis/resource.k8s.io/v1/deviceclasses"
        made = client.ask("create", classes, body={"metadata": {"name": "s"}, "spec": {"extendedResourceName": "d"}})["answer"]
        replaced = client.ask("replace", f"{classes}/s", body=made | {"spec": {"extendedResourceName": "e"}})["answer"]
        self.assertEqual(replaced["spec"], {"extendedResourceName": "e"})
        stale = client.ask("replace", f"{classes}/s", body=made)
        self.assertEqual((stale["status"], stale["reason"], stale["passing"]), (409, "Conflict", True))
        self.assertIn("has been modified", stale["error"])
        patched = client.ask("patch", f"{classes}/s", body={"metadata": {"labels": {"a": "b"}}})["answer"]
        self.assertEqual(patched["metadata"]["labels"], {"a": "b"})
        self.assertEqual(client.ask("patch", f"{classes}/s", body={"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}})["status"], 409)
        self.assertEqual(client.ask("create", classes, body={"metadata": {"name": "s"}})["reason"], "AlreadyExists")
        self.assertEqual(client.ask("remove", f"{classes}/s", uid="another")["status"], 409)
        self.assertEqual(client.ask("remove", f"{classes}/s", uid=made["metadata"]["uid"])["answer"], "removed")
        self.assertEqual(client.ask("get", f"{classes}/s")["status"], 404)

    def test_a_list_is_read_in_pages(self):
        for number in range(35):
            self.api.create("v1", "nodes", {"metadata": {"name": f"more-{number:02}"}})
        names = self.client().ask("list", NODES)["answer"]["names"]
        self.assertEqual(names, sorted(item["metadata"]["name"] for item in self.api.list("v1", "nodes")))
        self.assertEqual(len(self.api.seen("GET")), 4)

    def test_a_page_that_expired_starts_the_list_again(self):
        for number in range(15):
            self.api.create("v1", "nodes", {"metadata": {"name": f"more-{number:02}"}})
        client = self.client()
        self.api.fault(path="continue=", status=410, reason="Expired")
        self.assertEqual(len(client.ask("list", NODES)["answer"]["names"]), 17)
        self.api.fault(path="continue=", times=2, status=410, reason="Expired")
        self.assertEqual(client.ask("list", NODES)["status"], 410)

    def test_a_list_takes_what_selectors_say(self):
        client = self.client()
        self.assertEqual(client.ask("list", NODES, query={"fieldSelector": "metadata.name=n2"})["answer"]["names"], ["n2"])
        self.assertEqual(client.ask("list", NODES, query={"fieldSelector": "spec.x=n2"})["status"], 400)

    @suite.cases([("429 with Retry-After", (429, {"Retry-After": "1"})), ("429 without it", (429, {})),
                  ("503 with Retry-After", (503, {"Retry-After": "1"}))])
    def a_call_waits_and_repeats_itself_after(self, row):
        status, headers = row
        client = self.client()
        self.api.fault(status=status, headers=headers)
        begun = time.monotonic()
        self.assert_answer(client.ask("get"))
        self.assertGreater(time.monotonic() - begun, 0.9)

    def test_a_wait_beyond_the_deadline_is_the_callers(self):
        client = self.client()
        self.api.fault(status=429, headers={"Retry-After": "86400"})
        answer = client.ask("get")
        self.assertEqual((answer["status"], answer["retryAfter"], answer["passing"]), (429, 60, True))
        self.api.fault(status=503, times=1)
        self.assertEqual(client.ask("get")["status"], 503)

    @suite.cases([("a torn body", {"torn": True}), ("a closed connection", {"close": True}), ("a slow answer", {"slow": 3}),
                  ("HTML", {"body": b"<html></html>"}), ("JSON that is no object", {"body": [1]}), ("an object without a kind", {"body": {}}),
                  ("half of JSON", {"body": b'{"kind": "Node", "metadata": {'}), ("a body of 64 MiB", {"huge": 64 << 20}),
                  ("a failure with status 200", {"body": {"kind": "Status", "status": "Failure", "message": "no", "code": 500}}),
                  ("a redirect", {"status": 302, "headers": {"Location": "https://127.0.0.1/"}}),
                  ("no HTTP", {"raw": b"SSH-2.0-OpenSSH_9.2\r\n"}), ("a header of a megabyte", {"raw": b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 20)}),
                  ("many headers", {"raw": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100000}),
                  ("objects nested 100000 times", {"body": b'{"kind":"Node","a":' + b"[" * 100000})])
    def an_error_is_the_answer_to(self, fault):
        client = self.client()
        self.api.fault(times=1, **fault)
        answer = client.ask("get")
        self.assertIn("error", answer)
        self.assertTrue(answer["error"].startswith("get '/api/v1/nodes/n1': "), answer)
        self.assert_answer(client.ask("get"))

    @suite.cases([("no items", {"kind": "NodeList", "metadata": {"resourceVersion": "1"}}),
                  ("items that are no list", {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": {}}),
                  ("no version", {"kind": "NodeList", "items": []}),
                  ("an object without metadata", {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": [{}]})])
    def an_error_is_the_answer_to_a_list_with(self, body):
        client = self.client()
        self.api.fault(body=body)
        self.assertIn("error", client.ask("list", NODES))

    def test_pages_without_end_are_an_error(self):
        self.api.fault(times=10**6, body={"kind": "NodeList", "metadata": {"resourceVersion": "1", "continue": "x"}, "items": []})
        client = self.client(deadline=90_000)
        number = client.send("list", path=NODES)
        self.assertIn("pages without end", client.next(lambda line: line.get("id") == number, 100)["error"])

    def test_a_server_that_is_away_is_an_error_at_once_and_is_used_when_it_is_back(self):
        client = self.client()
        self.assert_answer(client.ask("get"))
        self.api.away()
        begun = time.monotonic()
        answer = client.ask("get")
        self.assertEqual((answer["status"], answer["passing"]), (0, True))
        self.assertLess(time.monotonic() - begun, 2)
        self.api.back()
        self.assert_answer(client.ask("get"))

    def test_stop_ends_calls_that_wait(self):
        client = self.client(deadline=60000)
        self.api.fault(path="n1", slow=30)
        self.api.fault(path="n2", times=9, status=429, headers={"Retry-After": "20"})
        numbers = [client.send("get", path=f"{NODES}/{name}") for name in ("n1", "n2")]
        self.assertTrue(wait_for(lambda: len(self.api.seen("GET")) == 2, 5))
        begun = time.monotonic()
        client.send("stop")
        for number in numbers:
            self.assertEqual(client.next(lambda line, number=number: line.get("id") == number)["reason"], "Stopped")
        self.assertEqual(client.ask("get")["reason"], "Stopped")
        self.assertEqual(client.end(), 0)
        self.assertLess(time.monotonic() - begun, 1)

    def test_stop_ends_a_call_that_waits_for_the_name_of_the_server(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 53))
            silent.settimeout(5)
            place = os.path.realpath("/etc/resolv.conf")
            os.makedirs(os.path.dirname(place), exist_ok=True)
            for path in (place, "/run/silent"):
                with open(path, "a", encoding="ascii") as file:
                    file.write("nameserver 127.0.0.1\n" if path == "/run/silent" else "")
            run("mount", "--bind", "/run/silent", place)
            where = self.api.kubeconfig()
            with open(where, "r+", encoding="utf-8") as file:
                text = file.read().replace(self.api.url, "https://api.example.com:6443")
                file.seek(0)
                file.truncate()
                file.write(text)
            client = self.client(where, deadline=60000)
            number = client.send("get", path=f"{NODES}/n1")
            silent.recv(512)
            begun = time.monotonic()
            client.send("stop")
            self.assertEqual(client.next(lambda line: line.get("id") == number)["reason"], "Stopped")
            self.assertEqual(client.end(), 0)
            self.assertLess(time.monotonic() - begun, 1)


if __name__ == "__main__":
    main()
