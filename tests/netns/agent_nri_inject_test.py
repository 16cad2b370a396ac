#!/usr/bin/env python3
"""`patchbay-agent nri inject` adds what annotations of pods ask for, in allowed namespaces, and refuses all else with a
sentence."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.agent import PROGRAM  # noqa: E402
from support.nri_runtime import Runtime, Sandbox, Status, fields  # noqa: E402

DEVICES, CDI, SYSCTL = (f"{kind}.noderesource.dev" for kind in ("devices", "cdi-devices", "sysctl"))
NULL = {1: [b"/dev/null"], 2: [b"c"], 3: [1], 4: [3]}
WHOLE = "[{path: /dev/a, type: b, major: 7, minor: 1, file_mode: 0640, uid: 1000, gid: 5}]"
REFUSED = [
    ("a device that does not exist on the node", DEVICES, "[{path: /dev/nothing}]", "'/dev/nothing' is no device node of the host"),
    ("a folder", DEVICES, "[{path: /dev/shm}]", "'/dev/shm' is no device node of the host"),
    ("a path outside of /dev", DEVICES, "[{path: /etc/shadow, type: c, major: 1, minor: 3}]", "no path of a device below /dev"),
    ("a path that leaves /dev", DEVICES, "[{path: /dev/../etc/x}]", "no path of a device below /dev"),
    ("a device by a second path", DEVICES, "[{path: /dev/null}, {path: /dev//null}]", "'/dev//null' is no path of a device below /dev"),
    ("a path that is /dev", DEVICES, "[{path: /dev/., type: c, major: 1, minor: 3}]", "'/dev/.' is no path of a device below /dev"),
    ("a path that would remove a device", DEVICES, "[{path: -/dev/null}]", "no path of a device below /dev"),
    ("a FIFO", DEVICES, "[{path: /dev/x, type: p, major: 1, minor: 3}]", "neither c nor b"),
    ("a device with half of its numbers", DEVICES, "[{path: /dev/x, type: c, major: 1}]", "belong together"),
    ("a number below 0", DEVICES, "[{path: /dev/x, type: c, major: -1, minor: 3}]", "'major' is no integer from 0"),
    ("a key that is unknown", DEVICES, "[{path: /dev/null, mode: 7}]", "unknown key 'mode'"),
    ("a device twice", DEVICES, "[{path: /dev/null}, {path: /dev/null}]", "'/dev/null' twice"),
    ("a device that is no object", DEVICES, "[/dev/null]", "no object"),
    ("no list", DEVICES, "{path: /dev/null}", "expected a list"),
    ("no YAML", DEVICES, "[{path", "did not find expected"),
    ("an empty annotation", DEVICES, "", "expected a list"),
    ("an alias, of which a short text can be a long list", DEVICES, "[&a {path: /dev/null}, *a]", "anchor"),
    ("65 devices", DEVICES, "[" + ", ".join(f"{{path: /dev/null{n}}}" for n in range(65)) + "]", "more than 64"),
    ("deep lists", DEVICES, "[" * 1000, "nests more than"),
    ("64 KiB", DEVICES, "[" + " " * 70000 + "]", "65536 bytes"),
    ("a CDI name without a class", CDI, "[vendor.example=nic]", "no name of a CDI device"),
    ("a CDI name that would remove one", CDI, "['-vendor.example/nic=a']", "no name of a CDI device"),
    ("a sysctl of the node", SYSCTL, "{kernel.panic: 1}", "'kernel.panic' is no sysctl of net"),
    ("a sysctl that leaves net", SYSCTL, "{net/../kernel.panic: 1}", "no sysctl of net"),
    ("a sysctl with an empty part", SYSCTL, "{net..kernel: 1}", "no sysctl of net"),
    ("a value of two lines", SYSCTL, '{net.ipv4.ip_forward: "1\\n2"}', "no line of text"),
    ("a value that is a list", SYSCTL, "{net.ipv4.ip_forward: [1]}", "no line of text"),
    ("a sysctl twice", SYSCTL, "{net.ipv4.ip_forward: 1, net.ipv4.ip_forward: 0}", "twice"),
    ("a control sequence in a key", SYSCTL, '{"net.\\e[2J": 1}', "'net.?[2J' is no sysctl of net"),
]


def pod(space="shop", **annotations):
    return Sandbox("web", space, netns="/run/netns/web", annotations=annotations)


@suite.spread
class Inject(suite.NodeTest):
    def setUp(self):
        if reason := agent.why_impossible():
            self.skipTest(reason)
        super().setUp()

    def start(self, *flags, **options):
        self.of = Runtime(**options)
        self.addCleanup(lambda: self.of.stop(unlink=False))
        with open("/run/inject.log", "wb") as log:
            process = subprocess.Popen([PROGRAM, "nri", "inject", *(flags or ("--allow", "shop"))], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.of.plugin()
        return process

    def create(self, annotations, space="shop", name="main"):
        return self.of.create(pod(space, **annotations), name)

    def refused(self, annotations, text, **options):
        with self.assertRaises(Status) as caught:
            self.create(annotations, **options)
        self.assertIn(text, caught.exception.text)
        self.assertRegex(caught.exception.text, "^patchbay: read annotation '")
        self.assertTrue(caught.exception.text.isprintable())

    def test_without_an_allowed_namespace_it_does_not_start(self):
        done = subprocess.run([PROGRAM, "nri", "inject"], capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("name those who may with --allow NAMESPACE", done.stderr)
        done = subprocess.run([PROGRAM, "nri", "inject", "--allow", "*"], capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("allow namespace '*': it is no name of one", done.stderr)

    @suite.cases([(f"NRI {major}.{minor}", (major, minor)) for major, minor in ((0, 8), (0, 10), (0, 12))])
    def devices_CDI_names_and_sysctls_are_added_with(self, version):
        self.start(version=version)
        self.assertEqual(self.of.plugin().mask, 0xf)
        found = self.create({DEVICES: "- path: /dev/null\n- " + WHOLE[1:-1], CDI: "- vendor.example/nic=0000:03:00.1\n",
                             SYSCTL: "net.core.somaxconn: 512\nnet.ipv4.ping_group_range: 0 100\n"})
        self.assertEqual(found["devices"]["/dev/null"], NULL)
        block = found["devices"]["/dev/a"]
        self.assertEqual((block[2], block[3], block[4]), ([b"b"], [7], [1]))
        self.assertEqual([fields(block[n][0])[1] for n in (5, 6, 7)], [[0o640], [1000], [5]])
        self.assertEqual(found["cdi"], ["vendor.example/nic=0000:03:00.1"])
        self.assertEqual(found["sysctl"], {"net.core.somaxconn": "512", "net.ipv4.ping_group_range": "0 100"})

    def test_a_pod_without_annotations_is_left_alone_in_any_namespace(self):
        self.start()
        for space in ("shop", "other"):
            self.assertEqual(self.create({"example.com/x": "[{"}, space), {"devices": {}, "cdi": [], "sysctl": {}})

    def test_the_most_specific_annotation_counts_and_the_older_key_after_the_newer(self):
        self.start()
        keys = [f"devices.{domain}{suffix}" for suffix in ("/container.main", "/pod", "") for domain in ("noderesource.dev", "nri.io")]
        annotations = {key: f"[{{path: /dev/{n}, type: c, major: 1, minor: {n}}}]" for n, key in enumerate(keys)}
        for n, key in enumerate(keys):
            self.assertEqual(list(self.create(annotations)["devices"]), [f"/dev/{n}"])
            del annotations[key]
        self.assertEqual(self.create({f"{DEVICES}/container.other": "[{path: /dev/null}]"})["devices"], {})

    @suite.cases([(name, (key, value, text)) for name, key, value, text in REFUSED])
    def a_container_is_refused_for(self, case):
        key, value, text = case
        self.start()
        self.refused({key: value}, text)
        self.assertEqual(self.create({DEVICES: "[{path: /dev/null}]"})["devices"], {"/dev/null": NULL}, "the next one is served")

    def test_a_namespace_that_is_not_allowed_is_refused_and_never_ignored(self):
        self.start("--allow", "shop", "--allow", "lab")
        for space in ("shop", "lab"):
            self.assertEqual(list(self.create({DEVICES: "[{path: /dev/null}]"}, space)["devices"]), ["/dev/null"])
        for key, value in ((DEVICES, "[{path: /dev/null}]"), (CDI, "[a.b/c=d]"), (SYSCTL, "{net.core.somaxconn: 1}")):
            self.refused({key: value}, "pods of namespace 'shops' may not ask for it", space="shops")

    @suite.cases([(f"{name} {version}", row) for *row, name, version in (
        (False, False, "containerd", "v2.0.7"), (True, False, "containerd", "2.1.9+unknown"), (True, False, "containerd", "v2.2.0"),
        (True, True, "containerd", "v2.2.1"), (False, False, "cri-o", "1.33.8"), (True, False, "cri-o", "1.34.0"),
        (True, True, "cri-o", "v1.35.0"), (True, True, "other", "1.0.0"), (True, True, "containerd", "main"))])
    def what_the_runtime_would_ignore_is_refused_at(self, row):
        self.start(itself=self.id().rsplit(" ", 2)[-2:])
        for works, key, value, text in ((row[0], CDI, "[a.b/c=d]", "adds no CDI devices"),
                                        (row[1], SYSCTL, "{net.core.somaxconn: 1}", "sets no sysctls")):
            if works:
                self.create({key: value})
            else:
                self.refused({key: value}, text)

    def test_sysctls_of_a_pod_in_the_network_of_the_node_are_refused(self):
        self.start()
        host = Sandbox("web", "shop", annotations={SYSCTL: "{net.core.somaxconn: 512}"})
        with self.assertRaisesRegex(Status, "the pod has the network of the node"):
            self.of.create(host, "main")

    def test_an_answer_of_more_than_4096_bytes_arrives(self):
        self.start()
        listed = [{"path": f"/dev/{'x' * 200}{n}", "type": "c", "major": 1, "minor": n} for n in range(64)]
        self.assertEqual(len(self.create({DEVICES: json.dumps(listed)})["devices"]), 64)
        self.assertEqual(self.of.plugin().violation, "")

    def test_what_it_does_is_logged(self):
        self.start()
        self.create({DEVICES: "[{path: /dev/null}]"})
        self.refused({DEVICES: "["}, "line")
        with open("/run/inject.log", encoding="ascii") as log:
            lines = [json.loads(line) for line in log]
        self.assertEqual([(line["what"], line["pod"]) for line in lines if "pod" in line],
                         [("inject device node", "shop/web"), ("refuse container", "shop/web")])

    def test_pre_installed_its_config_has_the_namespaces_and_a_wrong_one_allows_none(self):
        os.symlink(PROGRAM, "/run/20-patchbay-inject")
        for config, allowed in (("allow: [shop]", True), ("", False), ("allow: shop", False), ("allow: [", False), ("allow: [shop]\nallowed: [lab]", False)):
            with self.subTest(config=config):
                self.of = Runtime(path="", config=config)
                process = self.of.launch("/run/20-patchbay-inject", "patchbay-inject", "20")
                if allowed:
                    self.assertEqual(list(self.create({DEVICES: "[{path: /dev/null}]"})["devices"]), ["/dev/null"])
                else:
                    self.refused({DEVICES: "[{path: /dev/null}]"}, "may not ask for it")
                self.assertEqual(self.create({})["devices"], {})
                self.of.plugin().end()
                self.assertEqual(process.wait(10), 0)
                process.stderr.close()


if __name__ == "__main__":
    suite.main()
