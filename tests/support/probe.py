"""`cnitool probe` on the node of support.doctor, and its remedies carried out."""

import contextlib
import json

from support.cnitool import cnitool
from support.doctor import BIN, DoctorTest, shell
from support.world import run, wait_for

FAST = ("--rate", "2000")
NAMED = "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={}"
TRACKED = "/proc/net/nf_conntrack"


def connections():
    """What the node tracks, without counters and states; a kernel without the file shows none."""
    with contextlib.suppress(FileNotFoundError), open(TRACKED, encoding="ascii") as file:
        return {tuple(word for word in line.split() if "=" in word) for line in file}
    return set()


def neighbours(*where):
    """[(address, link)] of a namespace. Other hosts announce their link-local addresses at any time."""
    return sorted((one["dst"], one["dev"]) for one in json.loads(run("ip", "-j", *where, "neigh"))
                  if not one["dst"].startswith("fe80:"))


def traces(*pods):
    """Whatever probes may leave on the node and in its pods."""
    out = {}
    for where in ((), *(("-n", pod) for pod in pods)):
        name = " ".join(where)
        out[f"neighbours {name}"] = neighbours(*where)
        for words in (("link",), ("addr",), ("route", "show", "table", "all"), ("-6", "route", "show", "table", "all"),
                      ("rule",), ("route", "show", "cache"), ("-6", "route", "show", "cache")):
            out[f"{' '.join(words)} {name}"] = run("ip", "-j", *where, *words)
    out["rules"] = run("nft", "-j", "list", "ruleset")
    out["sysctls"] = run("sysctl", "-a", "-r", r"^net\.ipv[46]\.(conf|neigh|ip_forward|icmp)", check=False)
    return out


def differences(before, after):
    """{what: (what it was, what it is)}."""
    return {key: (before[key], after[key]) for key in before if before[key] != after[key]}


class ProbeTest(DoctorTest):
    def setUp(self):
        super().setUp()
        run("ip", "-6", "route", "del", "default")  # its gateway does not exist: each probe would wait for it

    def settle(self):
        """Until addresses are what they will be."""
        for where in ((), *(("-n", pod.name) for pod in self.pods)):
            wait_for(lambda where=where: '"tentative":true' not in run("ip", "-j", *where, "addr"))

    def name(self, pod, port, namespace, name):
        """A pod that Kubernetes has named."""
        self.add(pod, port, "--args", NAMED.format(namespace, name))
        return pod

    def probe(self, *words):
        done = cnitool("probe", "--json", *FAST, *words, CNI_PATH=BIN)
        answer = json.loads(done.stdout)
        self.assertEqual(done.status, 0 if answer["ok"] else 1, done.stdout)
        return answer

    def assert_silent(self):
        answer = self.probe()
        self.assertEqual(answer["findings"], [])
        self.assertTrue(answer["ok"])
        self.assertGreater(answer["answered"], 8)

    def found(self, *parts):
        """The remedies of the findings that say all of it."""
        answer = self.probe()
        self.assertFalse(answer["ok"])
        mine = [one for one in answer["findings"] if all(part in one["what"] for part in parts)]
        self.assertTrue(mine, answer["findings"])
        return [one["remedy"] for one in mine]

    def assert_heals(self, *parts):
        for remedy in self.found(*parts):
            shell(remedy)
        self.assert_silent()

    def address_of(self, pod):
        """Its IPv4 address."""
        return json.loads(pod.run("ip", "-j", "-4", "addr", "show", "dev", "eth0"))[0]["addr_info"][0]["local"]
