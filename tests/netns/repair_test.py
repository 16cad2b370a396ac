#!/usr/bin/env python3
"""`cnitool repair` makes again what others removed from under running pods, and touches nothing else."""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import damage, hostport, rows, suite, traffic  # noqa: E402
from support.cnitool import (RESULTS, cache_file, cache_names, cached, cnitool, finish,  # noqa: E402
                             start, use)
from support.held import Held  # noqa: E402
from support.hostport import NODE, OUTSIDE, SECOND, Probe, Server, Site, ask, tracked  # noqa: E402
from support.plugin import OURS, cni  # noqa: E402
from support.portmap import BACKENDS  # noqa: E402
from support.snapshot import diff, left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.traffic import Echo, Flow  # noqa: E402
from support.world import run, wait_for  # noqa: E402

MBIT = 1000 ** 2
RATE = 8 * MBIT
LIMITS = {"ingressRate": RATE, "ingressBurst": 160000, "egressRate": RATE, "egressBurst": 160000}
NUMBERS = range(1, 6)


def network(name, bridge, net, backend, mode="ifb", version="1.0.0"):
    """Dual-stack with all that can be lost; pods of different networks are on different bridges."""
    return {"cniVersion": version, "name": name, "plugins": [
        {"type": "bridge", "bridge": bridge, "isDefaultGateway": True, "ipMasq": True,
         "ipMasqBackend": backend, "hairpinMode": True,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": f"10.1.{net}.0/24"}],
                                                   [{"subnet": f"fd00:1:{net}::/64"}]]}},
        {"type": "portmap", "capabilities": {"portMappings": True}, "backend": backend},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}, "egressMode": mode}]}


class Connection:
    """A TCP connection from a pod to the host outside."""

    def __init__(self, test, pod, site, family):
        kind = socket.AF_INET6 if family == 6 else socket.AF_INET
        with site.outside.inside():
            listener = socket.socket(kind)
        listener.bind((OUTSIDE[family], 0))
        listener.listen()
        with pod.inside():
            self.client = socket.socket(kind)
        for one in (listener, self.client):
            one.settimeout(20)
        self.client.connect((OUTSIDE[family], listener.getsockname()[1]))
        self.server, (peer, *_) = listener.accept()
        self.server.settimeout(20)
        test.assertIn(peer, (NODE[family], SECOND[family]), "it is masqueraded")
        for one in (listener, self.client, self.server):
            test.addCleanup(one.close)

    def talk(self):
        """A question and its answer."""
        for sender, receiver in ((self.client, self.server), (self.server, self.client)):
            sender.sendall(b"still there?")
            if receiver.recv(64) != b"still there?":
                return False
        return True


class RepairTest(suite.NodeTest):
    def prepare(self, backend=BACKENDS[0][1]):
        """Five pods, the last one on a bridge of its own and limited in another place."""
        self.backend, variant = backend
        if variant and (reason := hostport.select_iptables(variant)):
            self.skipTest(reason)
        self.site = Site()
        # Nobody outside knows the way to pods: what is not masqueraded is lost there.
        for family in ("-4", "-6"):
            self.site.outside.run("ip", family, "route", "del", "default")
        use(network("net", "cni0", 2, self.backend), "10.conflist")
        use(network("other", "cni1", 3, self.backend, "pod"), "20.conflist")
        run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")  # or up0 changes when bridge does it
        self.clean = snapshot()
        self.all = {n: self.pod() for n in NUMBERS}
        self.addresses = {n: self.add(n) for n in NUMBERS}
        Server(self, "outside", (7000,), self.site.outside, protocols=("tcp", "udp"))
        for n, pod in self.all.items():
            Server(self, pod.name, (80,), pod, protocols=("tcp", "udp"))
        self.assertTrue(wait_for(lambda: not self.wrong_answers(), 10), str(self.wrong_answers()))

    @staticmethod
    def network_of(n):
        return "other" if n == 5 else "net"

    def add(self, n):
        pod = self.all[n]
        ports = [{"hostPort": 8080 + n, "containerPort": 80, "protocol": p} for p in ("tcp", "udp")]
        result = self.assert_ok(cnitool(
            "add", self.network_of(n), pod.path, "--container-id", pod.name,
            CAP_ARGS={"portMappings": ports} | ({"bandwidth": LIMITS} if n in (1, 5) else {})))
        return {6 if ":" in ip["address"] else 4: ip["address"].split("/")[0]
                for ip in result["ips"]}

    def check(self, n):
        return cnitool("check", self.network_of(n), self.all[n].path,
                       "--container-id", self.all[n].name)

    def table(self):
        """(probe, its answer) of all that pods are there for."""
        pods, out = self.all, []
        for n in NUMBERS:
            for family in (4, 6):
                for protocol in ("tcp", "udp"):
                    out.append((Probe(self.site.outside, protocol, NODE[family], 8080 + n),
                                f"{pods[n].name} 80 {OUTSIDE[family]}"))
                    # Masqueraded as either of the node's addresses, as the kernel likes.
                    out.append((Probe(pods[n], protocol, OUTSIDE[family], 7000),
                                f"outside 7000 {NODE[family][:-1]}"))
                neighbour = pods[n % 4 + 1]
                out.append((Probe(neighbour, "tcp", self.addresses[n][family], 80), pods[n].name))
                out.append((Probe(neighbour, "tcp", NODE[family], 8080 + n), pods[n].name))
            out.append((Probe(None, "tcp", "127.0.0.1", 8080 + n), pods[n].name))
        return out

    def wrong_answers(self):
        table = self.table()
        answers = ask([probe for probe, _ in table], 3)
        return [f"{probe}: {answer}, not {right}" for (probe, right), answer in zip(table, answers)
                if not answer.startswith(right)]

    def assert_works(self):
        # What was believed of neighbours meanwhile may be asked once more.
        if not wait_for(lambda: not self.wrong_answers(), 10):
            self.assertEqual(self.wrong_answers(), [])

    def inside(self):
        return {n: pod_snapshot(pod) for n, pod in self.all.items()}

    def outcomes(self, outcome):
        """{container: outcome} of a repair with --json."""
        return {one["containerID"]: one["outcome"] for one in outcome.json["attachments"]}

    def assert_repaired(self, *more):
        done = cnitool("repair", "--json", *more)
        self.assertEqual((done.status, done.stderr), (0, ""), str(done))
        self.assertLessEqual(set(self.outcomes(done).values()), {"ok", "repaired"}, str(done))
        return done

    def assert_healthy(self):
        for n in NUMBERS:
            self.assert_ok(self.check(n))
        before = snapshot()
        done = self.assert_repaired()
        self.assertEqual(set(self.outcomes(done).values()), {"ok"}, str(done))
        self.assert_same(before, what="a second repair changes something:")

    def assert_nothing_left(self):
        for n, pod in self.all.items():
            self.assert_ok(cnitool("del", self.network_of(n), pod.path, "--container-id", pod.name))
            self.assertNotIn("eth0", pod.run("ip", "link"))
        self.assertEqual(cache_names(), [])
        self.assert_same(self.clean, ignore=lambda place: left_by_design(place)
                         or left_by_design(place, "cni1") or place.startswith("file/run/netns/")
                         or place.startswith("file/run/xtables-")
                         or place in ("file/var/lib/cni/lock", "file/var/lib/cni/results/"))


@suite.spread
class Damaged(RepairTest):
    def damaged(self, case):
        backend, harm = case
        self.prepare(backend)
        before, inside = damage.comparable(snapshot()), self.inside()
        open_ones = [Connection(self, self.all[n], self.site, family)
                     for n in (2, 5) for family in (4, 6)]
        harm()
        self.assertTrue(self.wrong_answers() or harm is damage.remove_queues)
        self.assertTrue(any(self.check(n).status for n in NUMBERS))

        as_damaged = snapshot()
        dry = cnitool("repair", "--dry-run", "--json")
        self.assertEqual((dry.status, dry.stderr), (1, ""), str(dry))
        self.assertIn("broken", self.outcomes(dry).values())
        self.assert_same(as_damaged, what="--dry-run changes something:")

        done = self.assert_repaired()
        self.assertIn("repaired", self.outcomes(done).values())
        self.assert_works()
        for one in open_ones:
            self.assertTrue(one.talk(), "a connection of before goes on")
        for n, seen in self.inside().items():
            self.assert_same(inside[n], seen, what=f"pod{n} is not as it was:")
        # The device of pod1's limit has another MAC address, which nobody has to know.
        difference = diff(before, damage.comparable(snapshot()), lambda place: place.startswith(
            ("link/bwp", "file/var/lib/cni/results/net-pod1-")))
        self.assertEqual(difference, "", "the node is not as it was:\n" + difference)
        self.assert_healthy()
        self.assert_nothing_left()

    damaged = suite.cases(rows.sampled([(f"{name} under {backend}", (row, harm))
                           for name, harm in damage.ALL.items()
                           for backend, row in BACKENDS], most=4))(damaged)


class Settings(RepairTest):
    def test_all_that_a_bridge_and_its_ports_are_set_to(self):
        conf = network("net", "cni0", 2, "nftables")
        conf["plugins"] = [conf["plugins"][0] | {"hairpinMode": False, "promiscMode": True, "mtu": 1400,
                                                 "portIsolation": True, "macspoofchk": True}]
        use(conf)
        pods = [self.pod() for _ in range(2)]
        results = [self.assert_ok(cnitool("add", "net", pod.path, "--container-id", pod.name))
                   for pod in pods]
        before = damage.comparable(snapshot())
        damage.everything()
        self.assert_repaired()
        for pod in pods:
            self.assert_ok(cnitool("check", "net", pod.path, "--container-id", pod.name))
            self.assertIn(" 0% packet loss", pod.run("ping", "-c1", "-W2", "10.1.2.1"))
        self.assertEqual(diff(before, damage.comparable(snapshot())), "")
        bridge, = json.loads(run("ip", "-j", "-d", "link", "show", "cni0"))
        self.assertEqual((bridge["mtu"], bridge["promiscuity"]), (1400, 1))
        other = results[1]["ips"][0]["address"].split("/")[0]
        self.assertIn("100% packet loss", pods[0].run("ping", "-c1", "-W1", other, check=False),
                      "the ports are isolated")


class Limited(RepairTest):
    def setUp(self):
        super().setUp()
        if reason := traffic.why_impossible():
            self.skipTest(reason)

    def test_limits_are_felt_again(self):
        self.prepare()
        damage.everything()
        self.assert_repaired()
        begin = time.monotonic() + 1.5
        moments = (begin, begin + 4)
        flows = []
        for n, port in ((1, 7101), (5, 7105)):
            pod, address = self.all[n], self.addresses[n][4]
            self.site.outside.run("ip", "route", "replace", address, "via", NODE[4])
            flows.append((f"to pod{n}", Flow("tcp", self.site.outside, pod, address, port, moments)))
            flows.append((f"from pod{n}", Flow("tcp", pod, self.site.outside, OUTSIDE[4],
                                               port + 10, moments)))
        for name, flow in flows:
            rate = flow.finish()[0].rate
            # The acknowledgements of the flow the other way count too.
            self.assertLess(rate, 1.1 * RATE, name)
            self.assertGreater(rate, 0.7 * RATE, name)


class Healthy(RepairTest):
    def test_nothing_is_touched_and_no_packet_is_lost(self):
        for kind in ("udp_timeout", "udp_timeout_stream"):  # none is forgotten for its age
            path = pathlib.Path(f"/proc/sys/net/netfilter/nf_conntrack_{kind}")
            path.write_text("600", encoding="ascii")
        self.prepare()
        before, inside, files = snapshot(), self.inside(), self.files()
        begin = time.monotonic() + 0.5
        echo = Echo(self.all[1], self.all[2], self.addresses[2][4], 6000, (begin, begin + 3), 0.002)
        known = self.tracked_ends(least_seconds=300)
        for _ in range(3):
            done = self.assert_repaired()
            self.assertEqual(set(self.outcomes(done).values()), {"ok"}, str(done))
        self.assertLessEqual(known, self.tracked_ends(), "connections are forgotten")
        self.assertGreater(len(known), 10)
        asked, answered = echo.finish()
        self.assertGreater(asked, 1000)
        self.assertEqual(len(answered), asked)
        self.assert_same(before)
        self.assertEqual(self.files(), files, "files are written again")
        for n, seen in self.inside().items():
            self.assert_same(inside[n], seen)

    @staticmethod
    def files():
        return {name: os.stat(f"{RESULTS}/{name}").st_mtime_ns for name in cache_names()}

    @staticmethod
    def tracked_ends(least_seconds=0):
        """The ends of the connections that are not about to be forgotten anyway."""
        return {tuple(w for w in line.split() if w.startswith(("src=", "dst=", "sport=", "dport=")))
                for line in tracked("udp") if int(line.split()[4]) >= least_seconds}


class Selection(RepairTest):
    def test_networks_and_containers_can_be_named(self):
        self.prepare()
        damage.flush_rules()
        one = self.assert_repaired("--container-id", "pod2")
        self.assertEqual(self.outcomes(one), {"pod2": "repaired"})
        self.assertEqual(self.check(2).status, 0)
        self.assertEqual(self.check(3).status, 1)
        other = self.assert_repaired("other")
        self.assertEqual(self.outcomes(other), {"pod5": "repaired"})
        self.assertIn("no net configuration", cnitool("repair", "nobody's").stderr)
        self.assertEqual(set(self.outcomes(self.assert_repaired())), {f"pod{n}" for n in NUMBERS})
        self.assert_healthy()

    def test_a_shared_rule_that_lost_its_match_is_replaced(self):
        self.prepare(BACKENDS[1][1])
        before = damage.comparable(snapshot())
        for tool, chain in (("iptables", "PREROUTING"), ("ip6tables", "OUTPUT")):
            number = 1 + next(n for n, rule in enumerate(
                run(tool, "-t", "nat", "-S", chain).splitlines()[1:]) if "CNI-HOSTPORT-DNAT" in rule)
            run(tool, "-t", "nat", "-R", chain, str(number), "-j", "CNI-HOSTPORT-DNAT")
        self.assertIn("-m addrtype --dst-type LOCAL", self.check(1).stderr)
        self.assertIn("repaired", self.outcomes(self.assert_repaired()).values())
        self.assertEqual(diff(before, damage.comparable(snapshot())), "")
        self.assert_healthy()

    def test_text_says_what_was_wrong(self):
        self.prepare()
        run("ip", "link", "del", "cni1")
        done = cnitool("repair", "other")
        self.assertEqual((done.status, done.stderr), (0, ""), str(done))
        first, second, *_ = done.stdout.splitlines()
        self.assertEqual(first, "other  pod5  eth0  repaired")
        self.assertEqual(second, "  bridge: Interface name cni1 not found")
        self.assertEqual(cnitool("repair", "other").stdout, "other  pod5  eth0  ok\n")

    def test_the_config_of_then_counts(self):
        self.prepare()
        os.unlink("/run/net.d/10.conflist")
        use(network("other", "cni7", 3, self.backend), "20.conflist")
        damage.everything()
        self.assert_repaired()
        self.assert_works()
        self.assertNotIn("cni7", run("ip", "link"))


class Unrepairable(RepairTest):
    def test_pods_that_are_gone_are_passed_over(self):
        self.prepare()
        self.all[3].remove()
        with open(f"{RESULTS}/net-x-eth0", "w", encoding="ascii"):
            pass
        damage.flush_rules()
        done = cnitool("repair", "--json")
        self.assertEqual(done.status, 0, str(done))
        self.assertEqual(self.outcomes(done), {f"pod{n}": "skipped" if n == 3 else "repaired"
                                               for n in NUMBERS})
        self.assertEqual([one["file"] for one in done.json["broken"]], ["net-x-eth0"])
        self.assertIn("'/var/lib/cni/results/net-x-eth0' is broken", done.stderr)

    def test_a_pod_without_its_interface_has_to_be_restarted(self):
        self.prepare()
        host_end = json.loads(run("ip", "-n", "pod2", "-j", "link", "show", "eth0"))[0]["link_index"]
        name, = [link["ifname"] for link in json.loads(run("ip", "-j", "link"))
                 if link["ifindex"] == host_end]
        run("ip", "link", "del", name)
        damage.delete_bridges()
        done = cnitool("repair")
        self.assertEqual(done.status, 1)
        self.assertIn("net  pod2  eth0  failed: the pod's interface does not exist: restart the pod",
                      done.stdout)
        for n in (1, 3, 4, 5):
            self.assert_ok(self.check(n))

    def test_another_interface_of_that_name_is_left_alone(self):
        self.prepare()
        pod = self.all[2]
        pod.run("ip", "link", "del", "eth0")
        run("ip", "link", "add", "somebodys", "type", "veth", "peer", "name", "eth0",
            "netns", pod.name)
        run("ip", "link", "set", "somebodys", "up")
        damage.flush_rules()
        done = cnitool("repair", "--container-id", "pod2")
        self.assertEqual(done.status, 1)
        self.assertIn("doesn't match container Mac", done.stdout)
        self.assertIn("restart the pod", done.stdout)
        self.assertNotIn("master", run("ip", "link", "show", "somebodys"))

    def test_plugins_after_one_that_fails_are_repaired(self):
        """portmap cannot write its state file, as where /run is full, and bandwidth is missing."""
        conf, one = network("net", "cni0", 2, "nftables"), self.pod()
        conf["plugins"].insert(2, {"type": "firewall", "backend": "nftables"})
        use(conf)
        ports = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
        self.assert_ok(cnitool("add", "net", one.path, CAP_ARGS={"portMappings": ports, "bandwidth": LIMITS}))
        damage.flush_rules()
        shutil.rmtree("/run/cni/portmap")
        pathlib.Path("/run/cni/portmap").touch()
        os.mkdir("/run/bin")
        for name in ("bridge", "host-local", "portmap", "firewall"):
            os.symlink(os.path.join(OURS, name), f"/run/bin/{name}")
        done = cnitool("repair", "--json", CNI_PATH="/run/bin")
        self.assertEqual(done.status, 1, str(done))
        said, = done.json["attachments"]
        self.assertEqual(said["outcome"], "failed")
        self.assertLessEqual({"bridge", "firewall"}, {found["plugin"] for found in said["found"]})
        for name in ("portmap", "bandwidth"):
            self.assertIn(f'plugin type="{name}" failed', said["error"]["msg"])
        os.unlink("/run/cni/portmap")
        self.assertEqual({found["plugin"] for found in self.assert_ok(cnitool("repair", "--json"))["attachments"][0]["found"]},
                         {"portmap"})

    def test_a_link_in_the_place_of_the_bridge_is_named_and_stays(self):
        self.prepare()
        run("ip", "link", "del", "cni1")
        run("ip", "link", "add", "cni1", "type", "veth", "peer", "name", "cni1peer")
        done = cnitool("repair", "--json")
        self.assertEqual(done.status, 1)
        self.assertEqual(self.outcomes(done)["pod5"], "failed")
        self.assertIn("is not a bridge", str(done.json))
        run("ip", "link", "del", "cni1")
        self.assert_repaired()
        self.assert_works()

    def test_a_bridge_that_was_renamed_keeps_its_ports(self):
        """A second one with its address would cut off its pods."""
        self.prepare()
        run("ip", "link", "set", "cni1", "down")
        run("ip", "link", "set", "cni1", "name", "cniX")
        run("ip", "link", "set", "cniX", "up")
        done = cnitool("repair", "other")
        self.assertEqual(done.status, 1, str(done))
        self.assertIn("bridge 'cni1' was renamed to 'cniX'", done.stdout)
        self.assertNotIn("cni1:", run("ip", "link"))
        run("ip", "link", "set", "cniX", "down")
        run("ip", "link", "set", "cniX", "name", "cni1")
        run("ip", "link", "set", "cni1", "up")
        self.assertEqual(cnitool("repair").status, 0)  # addresses of IPv6 went with the link
        self.assert_works()

    def test_a_port_that_the_node_itself_has_by_now_is_not_taken(self):
        self.prepare()
        damage.flush_rules()
        listener = socket.create_server(("0.0.0.0", 8083))
        done = cnitool("repair", "--json")
        listener.close()
        self.assertEqual(done.status, 1)
        self.assertEqual(self.outcomes(done)["pod3"], "failed")
        self.assertIn("8083", str(done.json))
        self.assert_repaired()
        self.assert_works()


class Foreign(RepairTest):
    def foreign(self, check_fails):
        """A plugin that is not ours, says nothing of REPAIR, and writes down what it is called for."""
        os.makedirs("/run/bin", exist_ok=True)
        check = ":"
        if check_fails:
            check = """echo '{"code": 100, "msg": "its rule is gone"}'; exit 1"""
        with open("/run/bin/foreign", "w", encoding="ascii") as file:
            file.write(f"""#!/bin/sh
echo $CNI_COMMAND >>/run/called
case $CNI_COMMAND in
VERSION) echo '{{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}}' ;;
ADD) python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["prevResult"]))' ;;
CHECK) {check} ;;
DEL) ;;
*) echo '{{"code": 4, "msg": "unknown"}}'; exit 1 ;;
esac
""")
        os.chmod("/run/bin/foreign", 0o755)

    def prepared(self):
        self.foreign(check_fails=False)
        conf = network("mixed", "cni0", 2, "nftables")
        conf["plugins"].insert(1, {"type": "foreign"})
        use(conf)
        self.all = {1: self.pod()}
        path = {"CNI_PATH": f"{OURS}:/run/bin"}
        self.assert_ok(cnitool("add", "mixed", self.all[1].path, "--container-id", "c1", **path,
                               CAP_ARGS={"portMappings": [{"hostPort": 8080, "containerPort": 80,
                                                           "protocol": "tcp"}]}))
        damage.flush_rules()
        os.unlink("/run/called")
        return path

    def called(self):
        with open("/run/called", encoding="ascii") as file:
            return file.read().split()

    def test_a_plugin_of_others_is_checked_and_never_asked_to_add_or_repair(self):
        path = self.prepared()
        done = self.assert_ok(cnitool("repair", "--json", **path))
        one, = done["attachments"]
        self.assertEqual(one["outcome"], "repaired")
        self.assertEqual({found["plugin"] for found in one["found"]}, {"bridge", "portmap"})
        self.assertLessEqual(set(self.called()), {"VERSION", "CHECK"})
        self.assert_ok(cnitool("check", "mixed", self.all[1].path, "--container-id", "c1", **path))

    def test_what_cannot_be_repaired_is_named_and_the_rest_repaired(self):
        path = self.prepared()
        self.foreign(check_fails=True)
        done = cnitool("repair", **path)
        self.assertEqual(done.status, 1)
        self.assertIn("cannot be repaired: 'foreign' is not patchbay's: ", done.stdout)
        self.assertIn("its rule is gone", done.stdout)
        self.assertIn("  portmap: ", done.stdout)
        self.assertLessEqual(set(self.called()), {"VERSION", "CHECK"})
        self.foreign(check_fails=False)
        self.assert_ok(cnitool("check", "mixed", self.all[1].path, "--container-id", "c1", **path))

    def test_VERSION_is_the_specs_for_whoever_does_not_ask_for_more(self):
        for type_, more in (("bridge", {}), ("bridge", {"PATCHBAY_VERBS": "1"}),
                            ("host-local", {"PATCHBAY_VERBS": "1"})):
            environment = os.environ | {"CNI_COMMAND": "VERSION"} | more
            done = suite.plugin.subprocess.run([f"{OURS}/{type_}"], env=environment, text=True,
                                               capture_output=True, check=True)
            answer = json.loads(done.stdout)
            verbs = ["REPAIR", *(["MIGRATE"] if type_ == "bridge" else []), "GC"]
            self.assertEqual(answer.pop("patchbay/verbs", None), verbs if more else None)
            self.assertEqual(set(answer), {"cniVersion", "supportedVersions"})


@suite.spread
class Ending(suite.NodeTest):
    @suite.cases([(f"{verb} of {plugin}, {backend}", (verb, plugin, backend)) for backend in ("nftables", "iptables")
                  for plugin in ("bridge", "portmap", "firewall") for verb in ("CHECK", "REPAIR")])
    def what_DEL_removed_does_not_come_back(self, row):
        """A runtime's DEL, of which portmap and firewall are done, ends while repair is at that call."""
        verb, plugin, backend = row
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": {"type": "host-local", "subnet": "10.1.2.0/24"}}
        portmap = {"type": "portmap", "backend": backend, "capabilities": {"portMappings": True}}
        firewall = {"type": "firewall", "backend": backend}
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [bridge, portmap, firewall]})
        ports, before, pods = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}], None, [self.pod(), self.pod()]
        for pod in pods:  # what stays of the first one, stays of each
            result = self.assert_ok(cnitool("add", "net", pod.path, "--container-id", "c", CAP_ARGS={"portMappings": ports}))

            def remove(plugin, **more):
                conf = {"cniVersion": "1.1.0", "name": "net", "prevResult": result} | plugin | more
                self.assert_ok(cni(plugin["type"], "DEL", conf, netns=pod.path, container="c"))

            held = Held(plugin, f'"$CNI_COMMAND" = {verb}', before=False) if before else None
            remove(firewall)
            remove(portmap, runtimeConfig={"portMappings": ports})
            if held:
                self.addCleanup(held.release)
                process = start("repair", CNI_PATH=held.path)
                held.wait()
            remove(bridge)
            os.unlink(cache_file("net", "c"))
            pod.remove()
            if held:
                held.release()
                finish(process)
            before = before or snapshot()
        self.assert_same(before, ignore=lambda place: left_by_design(place) or place.startswith("file/run/"))


class Meanwhile(RepairTest):
    def test_a_new_pod_made_the_bridge_first(self):
        """The bridge has another MAC address then, which the pods of before have to learn."""
        self.prepare()
        old = cached("net", "pod1")["result"]["interfaces"][0]["mac"]
        run("ip", "link", "del", "cni0")
        late = self.pod("late")
        self.assert_ok(cnitool("add", "net", late.path, "--container-id", "late"))
        new = json.loads(run("ip", "-j", "link", "show", "cni0"))[0]["address"]
        self.assertNotEqual(old, new)
        for n in NUMBERS[:4]:  # they know the old one
            self.assertIn(old, self.all[n].run("ip", "neigh"))
        self.assert_repaired()
        for n in NUMBERS[:4]:
            known = self.all[n].run("ip", "neigh").splitlines()
            self.assertFalse([one for one in known if old in one and not one.startswith("fe80:")])
        self.assertEqual(cached("net", "pod1")["result"]["interfaces"][0]["mac"], new)
        self.assert_works()
        self.assert_healthy()
        self.assert_ok(cnitool("del", "net", late.path, "--container-id", "late"))
        late.remove()
        self.assert_nothing_left()

    def test_a_repair_that_is_killed_is_run_again(self):
        self.prepare()
        self.assert_repaired()
        chance, usual, in_time = random.Random(1), None, 0
        wanted = 15 // min(rows.STEP, 4)
        for _ in range(5 * wanted):  # some of them have ended when the signal comes
            damage.everything()
            process, begin = start("repair"), time.monotonic()
            if usual is None:
                finish(process)
                usual = time.monotonic() - begin
                continue
            time.sleep(chance.uniform(0, usual))
            process.kill()
            in_time += finish(process).status == -signal.SIGKILL
            self.assert_repaired()
            for n in NUMBERS:
                self.assert_ok(self.check(n))
            if in_time == wanted:
                break
        self.assertEqual(in_time, wanted)
        self.assert_works()
        self.assert_healthy()
        self.assert_nothing_left()

    def test_attachments_that_go_meanwhile_do_not_come_back(self):
        self.prepare()
        for _ in range(5):
            damage.everything()
            running = start("repair", "--json")
            removed = cnitool("del", "net", self.all[4].path, "--container-id", "pod4")
            self.assert_ok(removed)
            done = finish(running)
            self.assertEqual(done.status, 0, str(done))
            self.assertFalse(os.path.exists(cache_file("net", "pod4")))
            self.assertNotIn("eth0", self.all[4].run("ip", "link"))
            self.add(4)
        self.assert_repaired()
        for n in NUMBERS:
            self.assert_ok(self.check(n))


if __name__ == "__main__":
    suite.main(per_processor=2)
