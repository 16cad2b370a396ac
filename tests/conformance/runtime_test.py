#!/usr/bin/env python3
"""cnitool beside a runtime that is built on the reference's library: the same calls of plugins, the
same output, the same files in the cache; and each goes on with what the other has begun."""

import itertools
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import reference_runtime, suite  # noqa: E402
from support.cnitool import CONF_DIR, RESULTS, cache_names, cnitool, use  # noqa: E402
from support.configs import number, previous  # noqa: E402
from support.plugin import OURS, VERSIONS  # noqa: E402
from support.reference_runtime import reference  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402

# Writes down how it was called, and answers ADD with what the test wants.
FAKE = """#!/bin/sh
at=/run/calls/$(ls /run/calls | wc -l)
mkdir $at
basename $0 >$at/type
env | grep ^CNI_ | sort >$at/env
cat >$at/stdin
[ $CNI_COMMAND != ADD ] || cat /run/answer.$(basename $0)
"""

PLUGINS = [{"type": "one", "key": {"b": [1, 2.5, True, None, "<&>"], "a": {}}, "capabilities":
            {"ips": True, "mac": False, "portMappings": True}},
           {"type": "two", "name": "second", "capabilities": {"ips": True}}]
#: {name: what the runtime says beside the attachment}
WORDS = {
    "nothing more": {},
    "arguments": {"Args": [["IgnoreUnknown", "1"], ["K8S_POD_NAME", "p"]]},
    "capabilities": {"CapabilityArgs": {"ips": ["10.1.2.9/24"], "mac": "02:00:00:00:00:01",
                                        "dns": {"servers": []}}},
}


class RuntimeTest(suite.NodeTest):
    def setUp(self):
        if reason := reference_runtime.why_impossible():
            self.skipTest(reason)
        super().setUp()
        self.path = "/run/bin"
        os.makedirs(self.path)

    def ours(self, verb, netns, container="c1", ifname="eth0", **words):
        options = ["--container-id", container, "-i", ifname]
        return cnitool(verb, "net", netns, *options, CNI_PATH=self.path,
                       CNI_ARGS=";".join("=".join(pair) for pair in words.get("Args", [])) or None,
                       CAP_ARGS=words.get("CapabilityArgs"))

    def theirs(self, verb, netns, container="c1", ifname="eth0", **words):
        return reference(verb, f"{CONF_DIR}/10-test.conflist", Path=[self.path], NetNS=netns,
                         ContainerID=container, IfName=ifname, **words)


@suite.spread
class Same(RuntimeTest):
    def setUp(self):
        super().setUp()
        for name in ("one", "two"):
            with open(f"{self.path}/{name}", "w", encoding="ascii") as file:
                file.write(FAKE)
            os.chmod(f"{self.path}/{name}", 0o755)

    def calls(self):
        """How the plugins were called since the last time."""
        found = []
        for name in sorted(os.listdir("/run/calls"), key=int):
            texts = {}
            for part in ("type", "env", "stdin"):
                with open(f"/run/calls/{name}/{part}", encoding="utf-8") as file:
                    texts[part] = file.read()
            found.append([texts["type"], texts["env"], json.loads(texts["stdin"])])
        shutil.rmtree("/run/calls")
        os.mkdir("/run/calls")
        return found

    def cache(self):
        """{name: content} of the cache, as text. The library of that time did not note netns."""
        found = {}
        for name in cache_names():
            with open(f"{RESULTS}/{name}", encoding="utf-8") as file:
                found[name] = file.read().replace('"netns":"/run/netns/pod1",', "")
        return found

    def observed(self, runtime, words):
        """All that can be seen of add, check and del."""
        seen = {}
        for verb in ("add", "check", "del", "del"):
            outcome = runtime(verb, "/run/netns/pod1", **words)
            key = verb if verb not in seen else verb + " again"
            seen[key] = [outcome.status, outcome.stdout, self.calls(), self.cache()]
        return seen

    @suite.cases([(f"{version}, {name}", (version, words)) for version, (name, words)
                  in itertools.product(VERSIONS[:-1], WORDS.items())])
    def calls_output_and_cache(self, row):
        version, words = row
        os.mkdir("/run/calls")
        for name, address in (("one", "10.1.2.8"), ("two", "10.1.2.9")):
            with open(f"/run/answer.{name}", "w", encoding="ascii") as file:
                json.dump(previous(version, address), file, indent=4)
        use({"cniVersion": version, "name": "net", "more": 1, "plugins": PLUGINS})
        if number(version) < (0, 4, 0):
            self.assertEqual(self.ours("check", "/run/netns/pod1").status, 1)
        theirs = self.observed(self.theirs, words)
        ours = self.observed(self.ours, words)
        for verb, seen in theirs.items():
            for what, one, other in zip(("status", "stdout", "calls", "cache"), seen, ours[verb]):
                if what == "stdout" and one:
                    one, other = json.loads(one), json.loads(other)
                self.assertEqual(other, one, f"{what} of {verb}")


@suite.spread
class Mixed(RuntimeTest):
    @suite.cases([(f"{version}, add by {first}, del by {last}", (version, first, last))
                  for version in ("0.4.0", "1.0.0")
                  for first, last in (("ours", "theirs"), ("theirs", "ours"))])
    def one_goes_on_with_what_the_other_has_begun(self, row):
        version, first, last = row
        self.path = OURS
        use({"cniVersion": version, "name": "net", "plugins": [
            {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True,
             "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]]}},
            {"type": "portmap", "capabilities": {"portMappings": True}}]})
        words = {"CapabilityArgs": {"portMappings": [
            {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}}
        pod = self.pod()
        before = snapshot()
        for verb, runtime in (("add", first), ("check", last), ("check", first), ("del", last)):
            outcome = getattr(self, runtime)(verb, pod.path, **words)
            self.assertEqual(outcome.status, 0, f"{verb} by {runtime}: {outcome}")
            if verb == "add":
                listed = cnitool("list", "--json").json["attachments"]
                self.assertEqual([one["addresses"] for one in listed],
                                 [[ip["address"] for ip in outcome.json["ips"]]])
        self.assertEqual(cache_names(), [])
        self.assert_same(before, ignore=lambda place: left_by_design(place) or place in
                         ("file/var/lib/cni/lock", "file/var/lib/cni/results/"))


if __name__ == "__main__":
    suite.main()
