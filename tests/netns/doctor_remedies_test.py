#!/usr/bin/env python3
"""Troubles of which a wrong remedy is worse than none: the one that `cnitool doctor` prints, carried out as it stands, gives
pods their network back, or says that a pod has to be restarted, and harms no other pod."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import age_leases, cnitool, container_of, use  # noqa: E402
from support.doctor import BANDWIDTH, BIN, BRIDGE, FILE, NETWORKS, PORTMAP, DoctorTest, chain, shell, write  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.world import MS_NOEXEC, Pod, mount, run  # noqa: E402

UPLINK = "/proc/sys/net/ipv4/conf/up0/route_localnet"


@suite.spread
class Remedies(DoctorTest):
    def again(self, pod, port):
        """What a runtime does when the pod is restarted."""
        self.assert_ok(cnitool("del", "net", pod.path, CNI_PATH=BIN))
        self.add(pod, port)

    def addresses(self):
        """{address: pods that have it}, as the kernel shows them."""
        out = {}
        for pod in self.pods:
            for one in json.loads(pod.run("ip", "-j", "-4", "addr", "show", "dev", "eth0"))[0]["addr_info"]:
                out.setdefault(one["local"], []).append(pod.name)
        return out

    def assert_pinged(self):
        for pod in self.pods:
            pod.run("ping", "-c1", "-W2", "192.0.2.2")

    def test_an_interface_that_was_deleted_in_a_pod_that_runs(self):
        self.pods[0].run("ip", "link", "del", "eth0")
        remedy = self.assert_finds("warning", "attachments", "without its interface", "no interface")
        self.assertEqual(remedy.split("; ")[0], f"restart the pod of container {container_of(self.pods[0].path)}")
        self.again(self.pods[0], 8080)
        self.assert_healthy()
        self.assert_pinged()

    def test_interfaces_of_pods_whose_namespaces_outlived_them(self):
        for pod in self.pods:
            pod.run("ip", "link", "del", "eth0")
        remedy = self.assert_finds("warning", "attachments", "2 attachments without their interfaces")
        self.cured(remedy.split("; if no runtime has it, ")[1])

    def test_the_state_of_all_pods_was_removed(self):
        """Without a lease host-local gives the address of a pod that lives to the next one."""
        shutil.rmtree("/var/lib/cni")
        remedy = self.assert_finds("error", "leftovers", "'net' has 2 attachments without a cache entry and a lease")
        self.assertEqual(remedy, "cnitool repair net")
        self.cured(remedy)
        self.pods.append(Pod("new"))
        self.add(self.pods[2], 8082)
        self.assertEqual({len(pods) for pods in self.addresses().values()}, {1}, str(self.addresses()))
        for n, pod in enumerate(self.pods):
            self.again(pod, 8080 + n)
        self.assert_healthy()

    def test_the_same_where_the_alias_has_the_beginning_of_the_ID_alone(self):
        name, pod, container = "k8s-pod-network", Pod("c"), "0123456789abcdef" * 4
        self.pods.append(pod)
        use(chain(BRIDGE | {"bridge": "cni2", "ipam": {"type": "host-local", "subnet": "10.2.0.0/28"}}, name=name),
            "20.conflist")
        self.assert_ok(cnitool("add", name, pod.path, "--container-id", container, CNI_PATH=BIN))
        shutil.rmtree(f"{NETWORKS}/{name}")
        shutil.rmtree("/var/lib/cni/results")
        remedy = self.assert_finds("error", "leftovers", f"'{name}'", pod.path, "no process has it")
        self.assertEqual(remedy, "restart this pod")
        with subprocess.Popen(["sh", "-c", "read x", "pause", container], stdin=subprocess.PIPE) as pause:
            self.assertEqual(self.assert_finds("error", "leftovers", f"'{name}' has 1 attachment", container[:12]),
                             f"cnitool repair {name}")
            shell(f"cnitool repair {name}")
            pause.stdin.close()
        with open(f"{NETWORKS}/{name}/10.2.0.2", encoding="utf-8", newline="") as file:
            self.assertEqual(file.read(), f"{container}\r\neth0")

    def test_no_restart_where_the_state_was_removed_and_the_IPAM_plugin_is_broken(self):
        """No pod that is restarted would come up."""
        shutil.rmtree("/var/lib/cni")
        os.rename(f"{BIN}/host-local", "/run/host-local")
        write(f"{BIN}/host-local", "", 0o755)
        self.assert_finds("error", "plugins", "host-local")
        self.assertNotIn("restart", str(self.doctor()[1]))
        os.rename("/run/host-local", f"{BIN}/host-local")
        self.cured(self.assert_finds("error", "leftovers", "without a cache entry and a lease"))

    def test_no_restart_where_the_state_was_removed_and_no_namespace_is_seen(self):
        shutil.rmtree("/var/lib/cni")
        elsewhere = ("unshare", "-m", "--propagation", "private", "sh", "-c", 'umount -l /run/netns/[ab]; exec "$@"', "sh")
        found = [one for one in cnitool("doctor", "--json", CNI_PATH=BIN, wrap=elsewhere).json["findings"]
                 if "cannot be seen from this mount namespace" in one["what"]]
        self.assertEqual([(one["level"], one["remedy"]) for one in found], [("unknown", "nsenter -t 1 -m cnitool doctor")] * 2)

    def test_a_lease_that_another_pod_has_by_now(self):
        """Then the one without a lease is named, and the other keeps it."""
        pods = {container_of(pod.path): pod for pod in self.pods}
        shutil.rmtree("/var/lib/cni")
        late = Pod("late")
        self.add(late, 8090)
        _, found = self.doctor()
        taken, = (one for one in found if "restore the lease of 10.1.2.2" in one["what"])
        self.assertIn("two pods have one address", taken["why"])
        self.assertIn(taken["remedy"].removeprefix("restart the pod of container "), pods)
        self.assertEqual(cnitool("repair", "net", CNI_PATH=BIN).status, 1)
        with open(f"{NETWORKS}/net/10.1.2.2", encoding="utf-8") as file:
            self.assertIn(container_of(late.path), file.read())
        self.assertTrue(os.path.exists(f"{NETWORKS}/net/10.1.2.3"))

    def test_a_cache_that_was_lost_is_as_many_attachments_as_there_are(self):
        use(chain(BRIDGE, PORTMAP, BANDWIDTH, {"type": "firewall", "backend": "nftables"}))
        for n, pod in enumerate(self.pods):
            self.again(pod, 8080 + n)
        shutil.rmtree("/var/lib/cni/results")
        self.assert_healthy()
        notes = [one["what"] for one in cnitool("doctor", "--json", CNI_PATH=BIN).json["findings"]
                 if one["check"] == "leftovers" and one["level"] == "note"]
        self.assertEqual(len(notes), 1, str(notes))
        self.assertIn("'net' has 2 attachments without a cache entry", notes[0])

    def test_routes_to_pods_that_were_flushed(self):
        run("ip", "route", "flush", "dev", "cni0")
        run("ip", "-6", "route", "flush", "dev", "cni0")
        _, found = self.doctor()
        text = "\n".join(one["what"] for one in found)
        self.assertIn("the node has no route to 10.1.2.2 on 'cni0'", text)
        self.assertNotIn("route_localnet", text)
        self.cured(found[0]["remedy"])
        self.assert_pinged()
        for family, subnet in (("-4", "10.1.2.0/28"), ("-6", "fd00:1:2::/64")):
            routes = json.loads(run("ip", family, "-j", "route", "show", "dev", "cni0"))
            self.assertEqual([one["protocol"] for one in routes if one["dst"] == subnet], ["kernel"], str(routes))

    def test_the_uplink_does_not_accept_packets_of_127_0_0_0_8(self):
        """The route that is left leads to it, or one of another program."""
        run("ip", "route", "flush", "dev", "cni0")
        shell("cnitool repair net")
        with open(UPLINK, encoding="ascii") as file:
            self.assertEqual(file.read(), "0\n")
        run("ip", "route", "add", "10.1.2.0/29", "via", "192.0.2.2")
        self.assertNotEqual(cnitool("repair", "net", CNI_PATH=BIN).status, 0)
        with open(UPLINK, encoding="ascii") as file:
            self.assertEqual(file.read(), "0\n")

    def test_an_address_of_a_pod_that_the_node_got(self):
        address = next(iter(self.addresses()))
        run("ip", "addr", "add", f"{address}/32", "dev", "up0")
        self.assert_finds("error", "pods", "the node itself has the address")
        self.assertNotEqual(cnitool("repair", "net", CNI_PATH=BIN).status, 0)
        with open("/proc/sys/net/ipv4/conf/lo/route_localnet", encoding="ascii") as file:
            self.assertEqual(file.read(), "0\n")
        run("ip", "addr", "del", f"{address}/32", "dev", "up0")
        self.assert_healthy()

    def test_forwarding_of_one_link(self):
        for link in ("cni0", "up0"):
            run("sysctl", "-qw", f"net.ipv4.conf.{link}.forwarding=0")
            self.cured(self.assert_finds("error", "forwarding", f"net/ipv4/conf/{link}/forwarding is 0"))
            self.assert_pinged()

    def test_a_host_veth_of_ptp_that_does_not_forward(self):
        shutil.copy(os.path.join(OURS, "ptp"), BIN)
        for pod in self.pods:
            self.assert_ok(cnitool("del", "net", pod.path, CNI_PATH=BIN))
        use(chain({"type": "ptp", "ipMasq": True, "ipam": {"type": "host-local", "subnet": "10.7.0.0/28",
                                                           "routes": [{"dst": "0.0.0.0/0"}]}}))
        for n, pod in enumerate(self.pods):
            self.add(pod, 8080 + n)
        veth = next(one["ifname"] for one in json.loads(run("ip", "-j", "link", "show", "type", "veth"))
                    if container_of(self.pods[0].path) in one.get("ifalias", ""))
        run("sysctl", "-qw", f"net.ipv4.conf.{veth}.forwarding=0")
        self.cured(self.assert_finds("error", "forwarding", veth))
        self.assert_pinged()

    def connects(self, port):
        """Whether another host reaches a server in the first pod by its hostPort."""
        server = subprocess.Popen(
            ["ip", "netns", "exec", self.pods[0].name, sys.executable, "-c",
             "import socket; one = socket.create_server(('', 80)); print(flush=True); one.settimeout(20); one.accept()"],
            stdout=subprocess.PIPE)
        server.stdout.readline()
        try:
            done = subprocess.run(["ip", "netns", "exec", "outside", sys.executable, "-c",
                                   f"import socket; socket.create_connection(('192.0.2.1', {port}), 1)"],
                                  stderr=subprocess.DEVNULL, check=False)
        finally:
            server.kill()
            server.communicate()
        return done.returncode == 0

    def test_hostPorts_behind_the_policy_of_docker_and_the_plugin_firewall(self):
        use(chain(BRIDGE, PORTMAP, BANDWIDTH, {"type": "firewall", "backend": "iptables"}))
        for n, pod in enumerate(self.pods):
            self.again(pod, 8080 + n)
        self.assertTrue(self.connects(8080))
        for broken, back in ((("-P", "FORWARD", "DROP"), ("-P", "FORWARD", "ACCEPT")),
                             (("-A", "FORWARD", "-j", "DROP"), ("-D", "FORWARD", "-j", "DROP"))):
            run("iptables", *broken)
            self.assertFalse(self.connects(8080))
            remedy = self.assert_finds("error", "forward policy", "drops new connections to hostPort 8080/tcp")
            self.cured(remedy)
            self.assertTrue(self.connects(8080))
            self.assert_pinged()
            rules = run("iptables", "-S", "FORWARD").splitlines()
            rule = next(one for one in rules if "--ctstate DNAT" in one)
            run("iptables", *rule.replace("-A", "-D", 1).split())
            run("iptables", *back)

    def test_a_rule_that_rejects_pods_before_those_of_the_plugin_firewall(self):
        """The remedy gives the plugin's rules their turn, and keeps networks apart that it isolates."""
        firewall = {"type": "firewall", "backend": "iptables", "ingressPolicy": "isolated"}
        use(chain(BRIDGE, PORTMAP, BANDWIDTH, firewall))
        for n, pod in enumerate(self.pods):
            self.again(pod, 8080 + n)
        use({"cniVersion": "1.1.0", "name": "other", "plugins": [
            {"type": "bridge", "bridge": "cni1", "isDefaultGateway": True, "ipam": {"type": "host-local", "subnet": "10.7.0.0/24"}},
            firewall]}, "20-other.conflist")
        other = Pod("other")
        self.assert_ok(cnitool("add", "other", other.path, CNI_PATH=BIN))
        for rule in ("-s 10.1.2.0/28 -j REJECT", "-i cni0 -j DROP", "-j DROP"):
            with self.subTest(rule):
                run("iptables", "-I", "FORWARD", *rule.split())
                _, found = self.doctor()
                self.assertEqual({(one["level"], one["check"]) for one in found}, {("error", "forward policy")}, str(found))
                self.assertIn("rejects" if "REJECT" in rule else "drops", found[0]["what"])
                shell(found[0]["remedy"])
                self.assert_pinged()
                for one in self.doctor()[1]:  # a last rule that drops everything has hostPorts left to drop
                    shell(one["remedy"])
                self.assert_healthy()
                reached = subprocess.run(["ip", "netns", "exec", other.name, "ping", "-c1", "-W1", next(iter(self.addresses()))],
                                         stdout=subprocess.DEVNULL, check=False)
                self.assertNotEqual(reached.returncode, 0)
                run("iptables", "-D", "FORWARD", *rule.split())

    def attach_by_ptp(self):
        shutil.copy(os.path.join(OURS, "ptp"), BIN)
        for pod in self.pods:
            self.assert_ok(cnitool("del", "net", pod.path, CNI_PATH=BIN))
        ranges = [[{"subnet": "10.7.0.0/28"}], [{"subnet": "fd00:7::/64"}]]
        use(chain({"type": "ptp", "ipMasq": True, "ipam": {"type": "host-local", "ranges": ranges,
                                                           "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}))
        for n, pod in enumerate(self.pods):
            self.add(pod, 8080 + n)

    def test_a_rule_of_the_node_that_leads_to_another_table(self):
        """As of a VPN, which keeps it: it may be of more than pods."""
        run("ip", "link", "add", "vpn0", "type", "veth", "peer", "name", "vpn1")
        for link in ("vpn0", "vpn1"):
            run("ip", "link", "set", link, "up")
        run("ip", "route", "add", "default", "dev", "vpn0", "table", "77")
        run("ip", "-6", "route", "add", "blackhole", "default", "table", "77")
        for network in ("bridge", "ptp"):
            if network == "ptp":
                self.attach_by_ptp()
            for ip, wide in (("-4", "10.0.0.0/8"), ("-6", "fd00::/16")):
                run("ip", ip, "rule", "add", "to", wide, "lookup", "77", "priority", "100")
                self.cured(self.assert_finds("error", "rules", "the node's rule of priority 100 (lookup 77)"))
                for pod in self.pods:
                    shown, = json.loads(pod.run("ip", ip, "-j", "addr", "show", "dev", "eth0", "scope", "global"))
                    run("ping", "-c1", "-W2", shown["addr_info"][0]["local"])
                self.assertIn("lookup 77", run("ip", ip, "rule"))
                for priority in ("100", "99"):
                    run("ip", ip, "rule", "del", "priority", priority)

    def test_the_route_to_a_pod_of_ptp(self):
        self.attach_by_ptp()
        (first, veth), (_, other) = sorted((one["dst"], one["dev"]) for one in json.loads(run("ip", "-j", "route"))
                                           if one["dst"].startswith("10.7."))
        v6 = json.loads(run("ip", "-6", "-j", "route", "show", "dev", veth))
        second = next(one["dst"] for one in v6 if one["dst"].startswith("fd00") and one.get("protocol") != "kernel")
        for ip, address, *wrong in (("-4", first), ("-4", first, "via", "192.0.2.2"), ("-4", first, "dev", other),
                                    ("-4", first, "via", "192.0.2.2", "metric", "10"), ("-4", first, "blackhole"),
                                    ("-6", second), ("-6", second, "via", "2001:db8::2")):
            with self.subTest(f"{address} {wrong}"):
                run("ip", ip, "route", "del", address, "dev", veth)
                if wrong:
                    run("ip", ip, "route", "add", *(("blackhole", address) if wrong == ["blackhole"] else (address, *wrong)))
                self.cured(self.assert_finds("error", "pods", f"no route to {address} on '{veth}'"))
                run("ping", "-c1", "-W2", address)

    def test_a_bridge_that_was_renamed(self):
        run("ip", "link", "set", "cni0", "down")
        run("ip", "link", "set", "cni0", "name", "x")
        run("ip", "link", "set", "x", "up")
        self.cured(self.assert_finds("error", "pods", "cni0 not found"))
        self.assert_pinged()

    @suite.cases([("of portmap", ("/run/cni/portmap", {})),
                  ("in tuning's dataDir", ("/run/own", {"type": "tuning", "dataDir": "/run/own",
                                                        "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}}))])
    def a_state_file_of_a_later_release(self, row):
        folder, more = row
        if more:
            shutil.copy(os.path.join(OURS, "tuning"), BIN)
            use(chain(BRIDGE, PORTMAP, more))
            for n, pod in enumerate(self.pods):
                self.again(pod, 8080 + n)
        path, = (str(one) for one in pathlib.Path(folder).iterdir() if one.is_file() and not one.is_symlink()
                 and container_of(self.pods[0].path) in one.name + one.read_text("utf-8"))
        with open(path, encoding="utf-8") as file:
            states = json.load(file)
        write(path, json.dumps(states | {"patchbay": states["patchbay"] | {"format": 99}} if more else
                               [one | {"format": 99} for one in states]))
        self.assertEqual(self.assert_finds("error", "pods", path), "install the version of patchbay that wrote it")
        self.pods[0].remove()
        remedy = self.assert_finds("warning", "state files", path)
        self.assertEqual(remedy, f"rm {path}; cnitool gc net --keep-alive")
        self.cured(remedy)
        self.add(Pod("late"), 8080)

    def test_a_state_file_of_no_release(self):
        for path, text in (("/run/cni/portmap/x", '[{"who": "knows"}]'), ("/run/cni/vrf/x", '{"format": 1}')):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write(path, text)
            self.cured(self.assert_finds("warning", "state files", f"no release of patchbay wrote the state file '{path}'"))
        os.unlink("/var/tmp/x")

    def state_files_of_hostPorts_were_removed(self):
        """Until they are written again no other pod takes the ports."""
        shutil.rmtree("/run/cni/portmap")

        def added(pod, port):
            ports = {"portMappings": [{"hostPort": port, "containerPort": 80, "protocol": "tcp"}]}
            return cnitool("add", "net", pod.path, CNI_PATH=BIN, CAP_ARGS=ports)

        late = Pod("late")
        self.assertIn("in use by a pod whose state file '/run/cni/portmap/", added(late, 8080).stderr)
        self.cured(self.assert_finds("error", "pods", "its state file in '/run/cni/portmap' was removed"))
        self.assertIn("in use by container", added(late, 8081).stderr)
        shutil.rmtree("/run/cni/portmap")
        self.pods[0].remove()
        self.assert_ok(added(late, 8080))
        self.assertIn("in use by a pod whose state file", added(Pod("later"), 8081).stderr)

    def test_the_state_files_of_hostPorts_were_removed(self):
        self.state_files_of_hostPorts_were_removed()

    def test_the_state_files_of_hostPorts_in_iptables_were_removed(self):
        use(chain(BRIDGE, PORTMAP | {"backend": "iptables"}))
        for n, pod in enumerate(self.pods):
            self.again(pod, 8080 + n)
        self.state_files_of_hostPorts_were_removed()

    def test_names_of_namespaces_that_were_unmounted(self):
        """The pods live. A process in each has its namespace, which gets its name back."""
        processes = [subprocess.Popen(["ip", "netns", "exec", pod.name, "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE)
                     for pod in self.pods]
        for pod, process in zip(self.pods, processes):
            process.stdout.readline()
            run("umount", "-l", pod.path)
            os.unlink(pod.path)
        remedy = self.assert_finds("error", "namespaces", "'net' has 2 attachments whose pods live")
        self.cured(remedy)
        self.assert_pinged()
        for process in processes:
            process.kill()
            process.communicate()

    def test_plugins_on_a_file_system_that_executes_nothing(self):
        os.rename(BIN, "/run/real")
        os.mkdir(BIN)
        mount("tmpfs", BIN, "tmpfs", flags=MS_NOEXEC, options="mode=755")
        for name in os.listdir("/run/real"):
            shutil.copy(f"/run/real/{name}", BIN)
        remedy = self.assert_finds("error", "plugins", f"'{BIN}/bridge', '{BIN}/host-local'", "mounted noexec")
        self.assertEqual(len(self.doctor()[1]), 1)
        self.cured(remedy)

    def test_leases_of_removed_pods_in_a_list_of_an_older_version(self):
        use(chain(BRIDGE, PORTMAP, BANDWIDTH, cniVersion="1.0.0"))
        write(f"{NETWORKS}/net/10.1.2.9", "dead\r\neth0")
        age_leases()
        self.assertEqual(cnitool("gc", "net", "--keep-alive", CNI_PATH=BIN).status, 0)  # GC is of 1.1.0
        self.assertTrue(os.path.exists(f"{NETWORKS}/net/10.1.2.9"))
        self.cured(self.assert_finds("warning", "leftovers", "lease 10.1.2.9"))
        self.assertFalse(os.path.exists(f"{NETWORKS}/net/10.1.2.9"))

    def test_status_of_a_list_of_an_older_version_says_the_same(self):
        use(chain(BRIDGE, PORTMAP, {"type": "tuning"}, cniVersion="1.0.0"))
        missing = cnitool("status", "net", CNI_PATH=BIN)
        self.assertEqual(missing.status, 1, str(missing))
        self.assertIn('failed to find plugin "tuning"', missing.stderr)
        use(chain(BRIDGE | {"ipam": BRIDGE["ipam"] | {"dataDir": FILE}}, PORTMAP, cniVersion="1.0.0"))
        remedies = {one["remedy"] for one in self.doctor()[1] if one["check"] == "status"}
        self.assertEqual(remedies, {"cnitool status net"})
        said = cnitool("status", "net", CNI_PATH=BIN)
        self.assertEqual(said.status, 1, str(said))
        self.assertIn("dataDir", said.stderr)
        use(chain(BRIDGE, PORTMAP, cniVersion="1.0.0"))
        well = cnitool("status", "net", CNI_PATH=BIN)
        self.assertEqual((well.status, well.stdout, well.stderr), (0, "", ""))


if __name__ == "__main__":
    suite.main(needs=("sysctl", "mount", "iptables"), per_processor=2)
