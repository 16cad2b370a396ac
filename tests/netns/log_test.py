#!/usr/bin/env python3
"""The log: one line of JSON about each call, for who asks for it, from every plugin of a chain, its
IPAM plugin and the runtime; nothing at all else."""

import datetime
import json
import os
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool, container_of, environment, finish, start, use  # noqa: E402
from support.plugin import OURS, cni  # noqa: E402
from support.snapshot import snapshot  # noqa: E402

LOG = "/run/patchbay.log"
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACE = f"00-{TRACE_ID}-b7ad6b7169203331-01"
BRIDGE = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True,
          "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]]}}
PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
BANDWIDTH = {"type": "bandwidth", "ingressRate": 8000000, "ingressBurst": 800000}
PORTS = {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}


def chain(*plugins, **more):
    return {"cniVersion": "1.1.0", "name": "net", **more,
            "plugins": list(plugins or (BRIDGE, PORTMAP, BANDWIDTH))}


def lines(path=LOG):
    """What the log has; every line is one JSON object."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert text.endswith("\n"), text
    return [json.loads(line) for line in text.splitlines()]


class Log(suite.NodeTest):
    def test_a_chain_with_its_IPAM_plugin_and_the_runtime(self):
        use(chain())
        pod = self.pod()
        variables = {"PATCHBAY_LOG": LOG, "TRACEPARENT": TRACE, "CAP_ARGS": PORTS,
                     "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0"}
        self.assert_ok(cnitool("add", "net", pod.path, **variables))
        found = lines()
        self.assertEqual([(line["kind"], line.get("plugin")) for line in found],
                         [("plugin", "host-local"), ("plugin", "bridge"), ("call", "bridge"),
                          ("plugin", "portmap"), ("call", "portmap"),
                          ("plugin", "bandwidth"), ("call", "bandwidth"), ("operation", None)])
        for line in found:
            said = {"level": "info", "verb": "ADD", "cniVersion": "1.1.0", "network": "net",
                    "container": container_of(pod.path), "ifname": "eth0", "netns": pod.path,
                    "pod": "shop/web-0", "outcome": "ok", "trace_id": TRACE_ID,
                    "span_id": "b7ad6b7169203331", "trace_flags": "01"}
            self.assertEqual({key: line.get(key) for key in said}, said)
            age = (datetime.datetime.now(datetime.timezone.utc)
                   - datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")))
            self.assertLess(abs(age.total_seconds()), 60)
        by = {(line["kind"], line.get("plugin")): line for line in found}
        bridge, ipam = by["plugin", "bridge"], by["plugin", "host-local"]
        self.assertEqual(set(bridge["phases"]), {"read", "bridge", "veth", "ipam", "addresses", "gateway",
                                                 "masquerade", "wait", "announce", "answer"})
        self.assertLessEqual(ipam["microseconds"], bridge["phases"]["ipam"])
        self.assertLessEqual(sum(bridge["phases"].values()), bridge["microseconds"])
        self.assertLessEqual(bridge["microseconds"], by["call", "bridge"]["microseconds"])
        self.assertEqual(len({line["pid"] for line in found}), 4)  # host-local has bridge's
        self.assertEqual(stat.S_IMODE(os.stat(LOG).st_mode), 0o600)

        for verb in ("check", "del"):
            os.unlink(LOG)
            self.assertEqual(cnitool(verb, "net", pod.path, **variables).status, 0)
            self.assertEqual({line["verb"] for line in lines()}, {verb.upper()})
            self.assertEqual(len(lines()), 8)
        for verb in ("gc", "status"):
            os.unlink(LOG)
            self.assertEqual(cnitool(verb, "net", *(["--yes"] if verb == "gc" else []), **variables).status, 0)
            self.assertEqual({line["verb"] for line in lines()}, {verb.upper()})
            self.assertNotIn("container", lines()[0])

    def test_without_being_asked_for_there_is_none(self):
        use(chain())
        pod = self.pod()
        before = set(snapshot())
        for verb in ("add", "check", "del"):
            outcome = cnitool(verb, "net", pod.path, PATCHBAY_LOG="" if verb == "check" else None)
            self.assertEqual((outcome.status, outcome.stderr), (0, ""))
        new = {place for place in set(snapshot()) - before if place.startswith("file/")}
        self.assertEqual({place for place in new if "log" in place}, set())

    def test_a_failure_is_in_every_line_that_it_concerns(self):
        use(chain(BRIDGE | {"ipam": {"type": "host-local", "dataDir": "/proc/none",
                                     "ranges": [[{"subnet": "10.1.2.0/24"}]]}}))
        pod = self.pod()
        failed = cnitool("add", "net", pod.path, PATCHBAY_LOG=LOG)
        self.assertEqual(failed.status, 1)
        adds = [line for line in lines() if line["verb"] == "ADD"]
        self.assertEqual([(line["kind"], line.get("plugin"), line["outcome"]) for line in adds],
                         [("plugin", "host-local", "error"), ("plugin", "bridge", "error"),
                          ("call", "bridge", "error"), ("operation", None, "error")])
        for line in adds:
            self.assertEqual(line["level"], "error")
            self.assertIn("/proc/none", line["msg"] + line.get("details", ""))
            self.assertEqual(line["code"], adds[0]["code"])
        self.assertIn("undo", adds[1]["phases"])
        # What undid it is there as well.
        self.assertEqual({line.get("plugin") for line in lines() if line["verb"] == "DEL"},
                         {"host-local", "bridge"})

    def test_the_config_of_a_plugin_asks_for_it_and_of_its_IPAM_plugin(self):
        use(chain(BRIDGE | {"patchbayLog": LOG}, PORTMAP))
        pod = self.pod()
        self.assert_ok(cnitool("add", "net", pod.path))
        self.assertEqual([line["plugin"] for line in lines()], ["host-local", "bridge"])
        self.assert_ok(cnitool("del", "net", pod.path, PATCHBAY_LOG="/run/other"))
        self.assertEqual(len(lines()), 2)
        self.assertEqual(len(lines("/run/other")), 6)

    def test_a_log_that_cannot_be_written_fails_nothing(self):
        use(chain())
        pod = self.pod()
        os.symlink("/run/target", "/run/link")
        for place in ("/proc/none", "/run", "/run/link", "/dev/full", "relative", "/dev/null"):
            outcome = cnitool("add", "net", pod.path, PATCHBAY_LOG=place)
            self.assertEqual(outcome.status, 0, str(outcome))
            json.loads(outcome.stdout)
            self.assertIn(f"log to '{place}': ", outcome.stderr)
            outcome = cnitool("del", "net", pod.path, PATCHBAY_LOG=place)
            self.assertEqual(outcome.status, 0, str(outcome))
        self.assertFalse(os.path.exists("/run/target"))

    def test_stderr_may_be_the_log(self):
        conf = BRIDGE | {"name": "net", "cniVersion": "1.1.0"}
        pod = self.pod()
        outcome = cni("bridge", "ADD", conf, netns=pod.path, env={"PATCHBAY_LOG": "stderr"})
        self.assert_ok(outcome)
        found = [json.loads(line) for line in outcome.stderr.splitlines()]
        self.assertEqual([line["plugin"] for line in found], ["host-local", "bridge"])

    def test_lines_of_32_calls_at_once_do_not_mix(self):
        use(chain())
        pods = [self.pod() for _ in range(32)]
        for verb in ("add", "del"):
            running = [start(verb, "net", pod.path, PATCHBAY_LOG=LOG) for pod in pods]
            for process in running:
                self.assertEqual(finish(process).status, 0)
        found = lines()
        for verb in ("ADD", "DEL"):
            mine = [line for line in found if line["verb"] == verb]
            self.assertEqual(len(mine), 32 * 8)
            self.assertEqual(len({line["container"] for line in mine}), 32)

    def test_a_plugin_that_hangs_is_in_the_log_of_the_runtime(self):
        os.makedirs("/run/bin")
        with open("/run/bin/stuck", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho wait >&2\nsleep 60\n")
        os.chmod("/run/bin/stuck", 0o755)
        use(chain({"type": "stuck"}))
        env = environment(PATCHBAY_LOG=LOG, CNI_PATH="/run/bin")
        subprocess.run([os.path.join(OURS, "cnitool"), "add", "net", self.pod().path, "--timeout",
                        "1", "--no-undo"], env=env, capture_output=True, check=False)
        call, operation = lines()
        self.assertEqual((call["kind"], call["plugin"], call["code"]), ("call", "stuck", 11))
        self.assertEqual(call["details"], "wait\n")
        self.assertGreaterEqual(call["microseconds"], 1000000)
        self.assertEqual((operation["kind"], operation["code"]), ("operation", 11))


if __name__ == "__main__":
    suite.main()
