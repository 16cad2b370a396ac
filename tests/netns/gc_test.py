#!/usr/bin/env python3
"""`cnitool gc --keep-alive` removes what was seen dead and nothing else: beside another runtime that adds pods
meanwhile, where the namespaces of pods cannot be seen, and whatever a pod writes into its own namespace."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, ledger, suite  # noqa: E402
from support.cnitool import (age_leases, cache_file, cache_names, cnitool, container_of, environment, finish, start,  # noqa: E402
                             use)
from support.configs import CONFIGS, config, give_device, lack, own_of, provide  # noqa: E402
from support.held import Held  # noqa: E402
from support.plugin import OURS, PLUGINS, cni  # noqa: E402
from support.world import run, wait_for  # noqa: E402

NETWORKS = "/var/lib/cni/networks"
BRIDGE = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True,
          "ipam": {"type": "host-local", "subnet": "10.1.2.0/24"}}
PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
PORTS = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
PODS = int(os.environ.get("PATCHBAY_PODS", "16"))
EACH = [name for name in PLUGINS if CONFIGS[name].kind and name != "loopback"]


def leases(network="net"):
    """The containers that have a lease, by address."""
    folder = os.path.join(NETWORKS, network)
    if not os.path.isdir(folder):
        return {}
    out = {}
    for name in os.listdir(folder):
        if name[0].isdigit():
            with open(os.path.join(folder, name), encoding="ascii") as file:
                out[name] = file.read().splitlines()[0]
    return out


LOOK = '"$CNI_COMMAND" = GC && "$in" = *patchbay/onlyLook*'
REMOVAL = '"$CNI_COMMAND" = GC && "$in" = *patchbay/remove*'


class GcTest(suite.NodeTest):
    def gc(self, *more, status=0, **env):
        done = cnitool("gc", "net", "--keep-alive", *more, **env)
        self.assertEqual(done.status, status, str(done))
        return done

    def dead(self, name, cached=True):
        """A pod that was added and whose namespace is gone, without DEL."""
        pod = self.pod()
        done = cnitool("add", "net", pod.path, "--container-id", name)
        self.assertEqual(done.status, 0, str(done))
        if not cached:
            os.unlink(cache_file("net", name))
        pod.remove()
        self.assertTrue(wait_for(lambda: f"id: {name}" not in run("ip", "link"), 20))


def network(plugin, own):
    """The config for a call of the plugin, and the network of it for cnitool."""
    conf = config(plugin, "1.1.0") | {"name": "net"} | own
    inner = {key: value for key, value in conf.items() if key not in ("cniVersion", "name")}
    use({"cniVersion": "1.1.0", "name": "net", "plugins": [inner]})
    return conf


@suite.spread
class Beside(GcTest):
    @suite.cases([(f"{plugin}, {what}", (plugin, held)) for plugin in EACH
                  for what, held in (("before its look", LOOK), ("before its removal", REMOVAL))])
    def an_ADD_of_another_runtime(self, row):
        """Its whole ADD while a call of gc is held: gc has seen no such pod."""
        plugin, held = row
        if reason := provide(plugin):
            self.skipTest(reason)
        pods = [self.pod(), self.pod()]
        has_device = CONFIGS[plugin].device
        owns = [{"device": f"dev-{pod.name}"} if has_device else own_of(plugin, n + 1) for n, pod in enumerate(pods)]
        for pod in pods:
            give_device(plugin, f"dev-{pod.name}")
        conf = network(plugin, owns[0])
        self.assert_ok(cni(plugin, "ADD", conf, netns=pods[0].path, container="before"))
        held = Held(plugin, held)
        self.addCleanup(held.release)
        process = start("gc", "net", "--keep-alive", CNI_PATH=held.path)
        held.wait()
        self.assert_ok(cni(plugin, "ADD", conf | owns[1], netns=pods[1].path, container="since"))
        had = leases()
        held.release()
        finish(process)
        for pod in pods:
            self.assertIn("eth0", pod.run("ip", "link"))
        self.assertEqual(leases(), had)

    @suite.cases([(name, name) for name in ("bridge", "ptp", "macvlan", "tap")])
    def an_ADD_that_has_a_lease_and_no_interface_yet(self, plugin):
        if reason := provide(plugin):
            self.skipTest(reason)
        conf = network(plugin, own_of(plugin, 1))
        held = Held("host-local", '"$CNI_COMMAND" = ADD', before=False)
        self.addCleanup(held.release)
        pod = self.pod()
        call = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "slow", "CNI_IFNAME": "eth0", "CNI_NETNS": pod.path,
                "CNI_PATH": held.path}
        process = subprocess.Popen([os.path.join(held.path, plugin)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env=os.environ | call)
        process.stdin.write(json.dumps(conf))
        process.stdin.close()
        held.wait()
        # The other plugins make the interface first, and that is alive.
        has_link = plugin != "ptp"
        done = self.gc(status=0 if has_link else 1)
        self.assertEqual("younger than 2 minutes" in done.stderr, not has_link, str(done))
        self.assertEqual(list(leases().values()), ["slow"])
        held.release()
        printed = process.stdout.read()
        process.stdout.close()
        self.assertEqual(process.wait(20), 0, printed)
        self.assertEqual(list(leases().values()), ["slow"])


def elsewhere(test):
    """What in front of a command runs it in a mount namespace that is older than the pods to come."""
    os.makedirs("/run/netns", exist_ok=True)
    other = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sleep", "10000"])
    test.addCleanup(other.wait)
    test.addCleanup(other.kill)
    own = os.readlink("/proc/self/ns/mnt")
    test.assertTrue(wait_for(lambda: os.readlink(f"/proc/{other.pid}/ns/mnt") != own))
    return ("nsenter", "-t", str(other.pid), "-m")


@suite.spread
class Crowd(GcTest):
    """gc in a loop, here and in another mount namespace, while another runtime adds pods, of which some die and some lie."""

    def loop(self, *wrap):
        process = subprocess.Popen([*wrap, "bash", "-c", 'until [ -e /run/stop ] || ! kill -0 "$1"; do "$0" gc net --keep-alive; done',
                                    os.path.join(OURS, "cnitool"), str(os.getpid())], env=environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    @suite.cases([(name, name) for name in EACH if name != "flannel"])
    def no_pod_loses_anything(self, plugin):
        if reason := provide(plugin):
            self.skipTest(reason)
        more = {"ipam": {"type": "host-local", "subnet": "10.16.0.0/16"}}
        self.fill(plugin, more | {"device": "dev0"} if CONFIGS[plugin].device else more, leases)

    @suite.cases([(name, name) for name in ("bridge", "macvlan")])
    def no_pod_loses_its_lease_of_a_DHCP_server_on(self, plugin):
        if reason := lack(plugin, "dhcp"):
            self.skipTest(reason)
        dhcp.segment("10.77.0.1/16")
        server = dhcp.dnsmasq(pool="10.77.1.0,10.77.99.255", options=("--dhcp-lease-max=20000",))
        self.addCleanup(server.stop)
        daemon = dhcp.Daemon("-timeout", "1s")
        self.addCleanup(daemon.process.wait)
        self.addCleanup(daemon.process.kill)
        run("ip", "-batch", "-", stdin="link add lan type veth peer name lan-out\n"
            f"link set lan up\nlink set lan-out master {dhcp.BRIDGE} up\n")
        where = {"bridge": {"bridge": dhcp.BRIDGE}, "macvlan": {"master": "lan"}}[plugin]
        self.fill(plugin, where | {"ipam": {"type": "dhcp"}}, lambda: {
            lease["address"].split("/")[0]: name for name, lease in daemon.leases().items()}, pods=PODS // 2)

    def test_no_pod_loses_its_device(self):
        if reason := lack("macvlan"):
            self.skipTest(reason)
        ledger.make_parent()
        self.addCleanup(ledger.Agent().stop)
        bridge, devices = network("bridge", {"ipam": ledger.pool("10.16.0.0/16")}), {"type": "devices"}
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [bridge, devices]})
        alive, loops = {}, [self.loop(), self.loop(*elsewhere(self))]
        for number in range(PODS):
            pod, name, slot = self.pod(), f"c{number}", f"slot{number}"
            ledger.put(slot, ledger.SLOT, ledger.slot(subnet="10.60.0.0/16"), pod=ledger.pod_of(name))
            added = self.assert_ok(cni("bridge", "ADD", bridge, netns=pod.path, container=name))
            conf = {"cniVersion": "1.1.0", "name": "net", "prevResult": added} | devices
            self.assert_ok(cni("devices", "ADD", conf, netns=pod.path, container=name, args=ledger.args_of(ledger.pod_of(name))))
            if number % 4 == 2:
                pod.remove()
                age_leases()
            else:
                alive[slot] = (pod, name)
        with open("/run/stop", "w", encoding="ascii"):
            pass
        for process in loops:
            process.wait(60)
        names = {slot: name for slot, (_, name) in alive.items()}
        held = ledger.holders()
        self.assertEqual({slot: held.get(slot) for slot in alive}, names)
        for pod, _ in alive.values():
            self.assertIn(" 10.60.", pod.run("ip", "-4", "addr", "show", "net1"))
        age_leases()
        self.assertTrue(wait_for(lambda: cnitool("gc", "net", "--keep-alive") and ledger.holders() == names, 20))
        self.assertEqual(sorted(leases().values()), sorted(names.values()))

    def fill(self, plugin, more, leases, pods=PODS):
        """With what more in the config, whose IPAM plugin has these leases: names of containers by address."""
        conf, alive = network(plugin, more), {}
        tag, before, claimed = "x", "", set()
        there = elsewhere(self)
        loops = [self.loop(), self.loop(*there)]
        for number in range(pods):
            pod, name = self.pod(), f"c{number}"
            give_device(plugin, f"dev{number}")
            own = {"device": f"dev{number}"} if CONFIGS[plugin].device else own_of(plugin, number)
            added = self.assert_ok(cni(plugin, "ADD", conf | own, netns=pod.path, container=name))
            if number % 3 == 1:  # says to be another one's
                pod.run("ip", "link", "add", "lie0", "type", "veth", "peer", "lie1")
                pod.run("ip", "link", "set", "lie0", "alias", tag)
                claimed.add(before)
            before, tag = name, json.loads(pod.run("ip", "-j", "link", "show", "eth0"))[0].get("ifalias", "x")
            if number % 4 == 2:  # dies without DEL
                pod.remove()
                run(*there, "find", "/run/netns", "-type", "f", "-exec", "touch", "-d", "-10 minutes", "{}", "+")
                age_leases()
            else:
                alive[name] = (pod, added["ips"][0]["address"].split("/")[0])
        with open("/run/stop", "w", encoding="ascii"):
            pass
        for process in loops:
            process.wait(60)
        held = leases()
        for name, (pod, address) in alive.items():
            self.assertEqual(held.get(address), name)
            self.assertIn(f" {address}/", pod.run("ip", "-4", "addr", "show", "eth0"))
        age_leases()
        # Without a cache entry nothing on the node tells whose a namespace without a host veth is: its word holds.
        may_stay = set() if CONFIGS[plugin].kind == "veth" and not CONFIGS[plugin].device else claimed
        self.assertTrue(wait_for(lambda: cnitool("gc", "net", "--keep-alive") and
                                 set(leases().values()) - may_stay == set(alive) - may_stay, 20),
                        sorted(set(leases().values()) - set(alive)))


class Unseen(GcTest):
    """In a mount namespace that is older than the pods their names in /run/netns are plain files."""

    def setUp(self):
        super().setUp()
        self.elsewhere = elsewhere(self)

    def there(self, *words):
        return finish(start(*words, wrap=self.elsewhere))

    def test_pods_with_a_host_veth_live(self):
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [BRIDGE, PORTMAP]})
        pod = self.pod()
        self.assertEqual(cnitool("add", "net", pod.path, CAP_ARGS={"portMappings": PORTS}).status, 0)
        age_leases()
        names = cache_names()
        for cached in (True, False):
            done = self.there("gc", "net", "--keep-alive")
            self.assertEqual((done.status, done.stdout, cache_names()), (0, "", names), str(done))
            self.assertIn("eth0", pod.run("ip", "link"))
            self.assertEqual(list(leases().values()), [container_of(pod.path)])
            self.assertIn("8080", run("nft", "list", "ruleset"))
            if cached:
                os.unlink(cache_file("net", container_of(pod.path)))
                names = []

    def test_others_are_unknown_and_stay(self):
        if reason := provide("macvlan"):
            self.skipTest(reason)
        network("macvlan", {})
        pod = self.pod()
        self.assertEqual(cnitool("add", "net", pod.path).status, 0)
        age_leases()
        named = f"interface 'eth0' of container '{container_of(pod.path)}' in network 'net'"
        for words in (["--dry-run"], []):
            done = self.there("gc", "net", "--keep-alive", *words)
            self.assertEqual(done.status, 1, str(done))
            self.assertIn(named, done.stdout if words else done.stderr)
            self.assertIn("cannot be seen from this mount namespace", done.stdout + done.stderr)
        said = self.there("gc", "net", "--keep-alive", "--json").json
        self.assertEqual((said["ok"], said["removed"], [one["what"] for one in said["unknown"]]), (False, [], [named]))
        self.assertIn("eth0", pod.run("ip", "link"))
        self.assertEqual(len(leases()), 1)
        # Nor does doctor or repair recommend it.
        self.assertNotIn("gc net", self.there("doctor").stdout)
        repaired = self.there("repair")
        self.assertEqual(repaired.status, 1, str(repaired))
        self.assertIn("cannot be seen from this mount namespace", repaired.stdout)
        self.assertNotIn("cnitool gc", repaired.stdout)
        # On the node it is seen, and a dead one goes.
        self.gc()
        pod.remove()
        self.assertIn("removed interface", self.gc().stdout)
        self.assertEqual((cache_names(), leases()), ([], {}))

    def test_a_container_with_an_empty_folder_of_its_own_knows_nothing(self):
        if reason := provide("macvlan"):
            self.skipTest(reason)
        network("macvlan", {})
        pod = self.pod()
        self.assertEqual(cnitool("add", "net", pod.path).status, 0)
        age_leases()
        for cached in (True, False):
            done = finish(start("gc", "net", "--keep-alive", wrap=(
                "unshare", "-m", "-p", "-f", "--mount-proc", "sh", "-c",
                'mount -t tmpfs tmpfs /run && mkdir /run/netns && exec "$@"', "sh")))
            self.assertEqual((done.status, done.stdout, len(leases())), (1, "", 1), str(done))
            if cached:
                os.unlink(cache_file("net", container_of(pod.path)))
        self.assertIn("eth0", pod.run("ip", "link"))

    def test_a_path_of_a_process_in_another_PID_namespace_is_unknown(self):
        if reason := provide("macvlan"):
            self.skipTest(reason)
        network("macvlan", {})
        pod = self.pod()
        with pod.inside():
            process = subprocess.Popen(["sleep", "10000"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(cnitool("add", "net", f"/proc/{process.pid}/ns/net").status, 0)
        pod.remove()
        age_leases()
        done = finish(start("gc", "net", "--keep-alive", wrap=("unshare", "-m", "-p", "-f", "--mount-proc")))
        self.assertEqual((done.status, done.stdout, len(leases())), (1, "", 1), str(done))

    def test_devices_of_a_plugin_with_a_state_file_stay(self):
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [
            BRIDGE, {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}}]})
        pod = self.pod()
        self.assertEqual(cnitool("add", "net", pod.path).status, 0)
        os.unlink(cache_file("net", container_of(pod.path)))
        age_leases()
        before = os.listdir("/run/cni/tuning")
        self.there("gc", "net", "--keep-alive")
        self.assertEqual(os.listdir("/run/cni/tuning"), before)


class Hostile(GcTest):
    """What a pod writes into its own namespace holds nothing of others, and stops no gc."""

    def setUp(self):
        super().setUp()
        if reason := provide("macvlan"):
            self.skipTest(reason)
        network("macvlan", {"ipam": {"type": "host-local", "subnet": "10.1.2.0/29"}})
        self.one = self.pod()
        self.assertEqual(cnitool("add", "net", self.one.path, "--container-id", "alive").status, 0)

    def alias(self, text, name):
        self.one.run("ip", "link", "add", name, "link", "eth0", "type", "macvlan")
        self.one.run("ip", "link", "set", name, "alias", text[:255])

    def test_an_alias_of_nobody_or_of_another_one(self):
        for name in ("a", "b", "c"):
            self.dead(name)
        own = json.loads(self.one.run("ip", "-j", "link", "show", "eth0"))[0]["ifalias"]
        for number, text in enumerate((own[:17] + "0123456789abcdef", own[:-1] + "~", own + ", id: zzz",
                                       own[:17] + "0123456789abcdef, net: net, if: eth0, id: zzz")):
            self.alias(text, f"evil{number}")
        self.assertEqual(len(leases()), 4)
        done = self.gc()
        self.assertEqual(list(leases().values()), ["alive"], str(done))
        self.assertEqual(cache_names(), ["net-alive-eth0"])

    def test_addresses_and_aliases_of_dead_pods(self):
        self.dead("a", cached=False)
        self.dead("b")
        age_leases()
        for address, name in leases().items():
            if name != "alive":
                self.one.run("ip", "addr", "add", f"{address}/29", "dev", "eth0")
        self.gc()
        self.assertEqual(list(leases().values()), ["alive"])


@suite.spread
class Dead(GcTest):
    def test_a_pod_that_died_without_DEL_goes_with_and_without_its_cache_entry(self):
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [BRIDGE, PORTMAP]})
        stays = self.pod()
        self.assertEqual(cnitool("add", "net", stays.path, "--container-id", "stays",
                                 CAP_ARGS={"portMappings": PORTS}).status, 0)
        self.dead("cached")
        self.dead("lost", cached=False)
        done = self.gc("--dry-run", status=1)
        self.assertIn("would remove interface 'eth0' of container 'cached'", done.stdout)
        self.assertRegex(done.stdout, r"lease 10\.1\.2\.\d+ of lost \(eth0\): stays, it is younger than 2 minutes")
        done = self.gc(status=1)
        self.assertEqual(sorted(leases().values()), ["lost", "stays"], str(done))
        age_leases()
        done = self.gc()
        self.assertRegex(done.stdout, r"removed bridge: lease 10\.1\.2\.\d+ of lost")
        self.assertEqual(list(leases().values()), ["stays"])
        rules = run("nft", "list", "ruleset")
        self.assertNotIn("id: lost", rules)
        self.assertIn("8080", rules)
        self.assertEqual(self.gc().stdout, "")

    def test_a_pod_that_renamed_its_interface_keeps_its_network(self):
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [BRIDGE]})
        pod = self.pod()
        self.assertEqual(cnitool("add", "net", pod.path).status, 0)
        pod.run("ip", "link", "set", "eth0", "down")
        pod.run("ip", "link", "set", "eth0", "name", "hidden")
        names = cache_names()
        self.gc()
        self.assertIn("hidden", pod.run("ip", "link"))
        self.assertEqual((cache_names(), len(leases())), (names, 1))

    @suite.cases([(name, name) for name in ("host-device", "ipvlan", "macvlan", "tap", "vlan")])
    def a_pod_whose_namespace_lost_its_name_lives(self, plugin):
        """No link of the node leads to it: a process has it, as after `ip -all netns del`."""
        if reason := provide(plugin):
            self.skipTest(reason)
        has_tag = not CONFIGS[plugin].device
        give_device(plugin, "dev1")
        network(plugin, own_of(plugin, 1) if has_tag else {"device": "dev1"})
        pod = self.pod()
        self.assert_ok(cnitool("add", "net", pod.path, "--container-id", "web"))
        mac, address = json.loads(pod.run("ip", "-j", "link", "show", "eth0"))[0]["address"], next(iter(leases()))
        with pod.inside():
            process = subprocess.Popen(["sleep", "10000"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        pod.remove()
        age_leases()
        self.assertEqual(self.gc().stdout, "")
        self.assertEqual(list(leases().values()), ["web"])
        self.assertIn("skipped: its pod lives, but not at the path of its namespace", cnitool("repair").stdout)
        found = cnitool("doctor").stdout
        self.assertIn("whose pod lives, but not at the path of its namespace", found)
        if has_tag:
            self.assertIn(f"mount --bind /proc/{process.pid}/ns/net {pod.path}", found)
        os.unlink(cache_file("net", "web"))
        # Of a tap nothing leads to the node, and a pod of another node on this kernel may have its address.
        done = self.gc(status=1 if plugin == "tap" else 0)
        self.assertEqual((done.stdout, list(leases().values())), ("", ["web"]), str(done))
        process.kill()
        process.wait()
        # What a pod makes in a user namespace of its own says nothing.
        liar = subprocess.Popen(["unshare", "-Urn", "sh", "-ec", f"ip link add eth0 address {mac} type veth; "
                                 f"ip addr add {address} dev eth0; echo; exec sleep 10000"], stdout=subprocess.PIPE)
        self.addCleanup(liar.communicate)
        self.addCleanup(liar.kill)
        self.assertEqual(liar.stdout.readline(), b"\n")
        self.assertTrue(wait_for(lambda: self.gc() and not leases(), 20))

    def test_an_attachment_of_a_list_that_was_edited_goes_with_all_that_its_ADD_made(self):
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [BRIDGE, PORTMAP]})
        pod = self.pod()
        self.assertEqual(cnitool("add", "net", pod.path, CAP_ARGS={"portMappings": PORTS}).status, 0)
        pool = {"type": "host-local", "subnet": "10.1.3.0/24", "dataDir": "/run/leases"}
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "ptp", "ipam": pool}]})
        pod.remove()
        self.assertTrue(wait_for(lambda: cnitool("gc", "net", "--keep-alive").status == 0 and not cache_names(), 20))
        self.assertEqual(leases(), {})
        self.assertNotIn("8080", run("nft", "list", "ruleset"))

    def test_the_same_ID_added_again_meanwhile_keeps_everything(self):
        """Another runtime's pod of the same container ID: named as dead, and alive when its turn comes."""
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [BRIDGE]})
        self.dead("again", cached=False)
        age_leases()
        held = Held("bridge", REMOVAL)
        self.addCleanup(held.release)
        process = start("gc", "net", "--keep-alive", CNI_PATH=held.path)
        held.wait()
        pod = self.pod()
        conf = BRIDGE | {"cniVersion": "1.1.0", "name": "net"}
        self.assert_ok(cni("bridge", "DEL", conf, netns="", container="again"))
        self.assert_ok(cni("bridge", "ADD", conf, netns=pod.path, container="again"))
        age_leases()
        held.release()
        finish(process)
        self.assertIn("eth0", pod.run("ip", "link"))
        shown = json.loads(pod.run("ip", "-j", "-4", "addr", "show", "eth0"))
        address = shown[0]["addr_info"][0]["local"]
        self.assertIn(address, leases())
        self.assertIn(address, run("nft", "list", "ruleset"))


class Consent(GcTest):
    def test_without_a_terminal_a_bare_gc_detaches_living_pods_only_with_yes(self):
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [BRIDGE]})
        pod = self.pod()
        self.assertEqual(cnitool("add", "net", pod.path, "--container-id", "web").status, 0)
        self.dead("gone")
        for more in ((), ("--json",)):
            done = cnitool("gc", "net", *more)
            self.assertEqual(done.status, 1, str(done))
            said = done.json["msg"] + done.json["details"] if more else done.stderr
            for text in ("'web'", "--keep-alive keeps them, --yes detaches them"):
                self.assertIn(text, said)
            self.assertNotIn("'gone'", said)
        self.assertEqual(len(cache_names()), 2)
        self.assertIn("eth0", pod.run("ip", "link"))
        self.assertEqual(cnitool("gc", "net", "--keep", "web").status, 0)
        self.assertEqual(cache_names(), ["net-web-eth0"])
        self.assertEqual(cnitool("gc", "net", "--yes").status, 0)
        self.assertEqual((cache_names(), leases()), ([], {}))


if __name__ == "__main__":
    suite.main(needs=("nsenter", "unshare"), per_processor=2)
