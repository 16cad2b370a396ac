#!/usr/bin/env python3
"""A node comes back after a reboot with the leases and the cache of before, and without the pods:
all ADDs succeed without anybody's help, and what lives keeps its address."""

import io
import os
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.cnitool import cnitool, use  # noqa: E402
from support.parallel import parallel  # noqa: E402
from support.plugin import REFERENCE, has_reference  # noqa: E402
from support.reboot import boot  # noqa: E402
from support.world import Pod, World  # noqa: E402

STATE = "/var/lib/cni"
PODS = 250  # of 253 that a /24 has
NETWORK = {"cniVersion": "1.0.0", "name": "net", "plugins": [
    {"type": "bridge", "bridge": "cni0", "isGateway": True,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]]}}]}
#: With four addresses.
SMALL = NETWORK | {"plugins": [NETWORK["plugins"][0] | {"ipam": {
    "type": "host-local", "ranges": [[{"subnet": "10.1.2.0/29", "rangeEnd": "10.1.2.5"}]]}}]}


def saved():
    """What is on the disk of the node."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(STATE, arcname=".")
    return out.getvalue()


def reboot(disk, down_seconds=3600):
    """A new node with the old disk, whose files are older by as long as the node was off."""
    World()
    with tarfile.open(fileobj=io.BytesIO(disk)) as tar:
        members = tar.getmembers()
        for member in members:
            member.mtime -= down_seconds
        tar.extractall(STATE, members)
    boot(60)
    use(NETWORK)


def add(item):
    """ADD of a container in a pod; [address or None, the outcome]."""
    container, pod, path = item
    outcome = cnitool("add", "net", f"/run/netns/{pod}", "--container-id", container,
                      **({"CNI_PATH": path} if path else {}))
    return [outcome.json["ips"][0]["address"] if outcome.ok else None, str(outcome)]


def add_all(containers, pods, path=None):
    """All at once; their addresses."""
    for pod in pods:
        Pod(pod)
    results = parallel(add, [(c, p, path) for c, p in zip(containers, pods)], 4)
    return [address for address, _ in results], [said for address, said in results if not address]


def names(prefix, count=PODS):
    return [f"{prefix}{n}" for n in range(count)]


@suite.spread
class Reboot(suite.NodeTest):
    def setUp(self):
        super().setUp()
        boot(86400)
        use(NETWORK)

    def fill(self, path=None):
        addresses, wrong = add_all(names("old"), names("pod"), path)
        self.assertEqual(wrong[:3], [])
        self.assertEqual(len(set(addresses)), PODS)
        return saved()

    def assert_serves_all(self, containers, pods):
        """As many ADDs as before succeed, and then as many as there are addresses left."""
        addresses, wrong = add_all(containers, pods)
        self.assertEqual(wrong[:3], [], f"{len(wrong)} ADDs failed")
        self.assertEqual(len(set(addresses)), PODS)
        more, refused = add_all(names("more", 8), names("last", 8))
        given = [address for address in more if address]
        self.assertEqual((len(given), len(refused)), (253 - PODS, 8 - (253 - PODS)))
        self.assertEqual(len(set(addresses + given)), 253, "an address of one that lives is given")
        for said in refused:
            self.assertIn("no IP addresses available", said)
        for container, pod in list(zip(containers, pods))[::25]:
            self.assert_ok(cnitool("check", "net", f"/run/netns/{pod}", "--container-id", container))

    @suite.cases(rows.sampled([
        ("new containers in new namespaces", ("new", "sandbox")),
        ("new containers in namespaces with the old names", ("new", "pod")),
        ("the old containers in namespaces with the old names", ("old", "pod")),
        ("the old containers in new namespaces", ("old", "sandbox"))], most=2))
    def the_next_250_get_addresses(self, row):
        containers, pods = row
        disk = self.fill()
        reboot(disk)
        self.assert_serves_all(names(containers), names(pods))

    def test_also_where_the_reference_gave_the_addresses(self):
        if not has_reference("host-local"):
            self.skipTest("needs the reference's host-local")
        disk = self.fill(REFERENCE)
        reboot(disk)
        self.assert_serves_all(names("new"), names("pod"))

    def test_what_an_operator_reserved_stays(self):
        reserved = {"10.1.2.3": "reserved for the printer", "10.1.2.4": "printer\n"}
        os.makedirs(f"{STATE}/networks/net")
        for address, text in reserved.items():
            with open(f"{STATE}/networks/net/{address}", "w", encoding="ascii") as file:
                file.write(text)
        use(SMALL)
        self.assertEqual(add_all(names("old", 2), names("pod", 2))[1], [])
        reboot(saved())
        use(SMALL)
        self.assertEqual(add_all(names("new", 2), names("pod", 2))[1], [])
        self.assertIn("no IP addresses", str(add_all(["more"], ["last"])))
        for address, text in reserved.items():
            with open(f"{STATE}/networks/net/{address}", encoding="ascii") as file:
                self.assertEqual(file.read(), text)

    def test_the_addresses_of_another_node_that_shares_the_store_stay(self):
        use(SMALL)
        boot(86400, "2" * 32)
        addresses, wrong = add_all(names("theirs", 2), names("pod", 2))
        self.assertEqual(wrong, [])
        reboot(saved())  # of the first node
        use(SMALL)
        for name in os.listdir(f"{STATE}/results"):  # they are on the other's disk
            os.remove(f"{STATE}/results/{name}")
        given = [one for one in add_all(names("new", 4), names("new", 4))[0] if one]
        self.assertEqual(len(given), 2)
        self.assertFalse(set(given) & set(addresses), "an address of the other node's is given")

    def test_of_many_reboots_without_any_DEL(self):
        for turn in range(4):
            addresses, wrong = add_all(names(f"turn{turn}-", 100), names("pod", 100))
            self.assertEqual(wrong[:3], [], f"boot {turn}: {len(wrong)} ADDs failed")
            self.assertEqual(len(set(addresses)), 100)
            reboot(saved())


if __name__ == "__main__":
    if not os.path.exists("/etc/machine-id"):
        print("skip all: this machine has no /etc/machine-id to bind another on")
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(suite.SKIPPED)
    suite.main()
