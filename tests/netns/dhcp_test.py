#!/usr/bin/env python3
"""dhcp with dnsmasq: leases from ADD to DEL, what the wire shows, and what the plugin says of a daemon or server that
does not answer.
"""

import json
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, suite  # noqa: E402
from support.cnitool import cnitool, use  # noqa: E402
from support.plugin import cni, finish, finish_all, start  # noqa: E402
from support.world import wait_for  # noqa: E402


class Dhcp(suite.NodeTest):
    def setUp(self):
        super().setUp()
        dhcp.segment()

    def daemon(self, *flags, **options):
        daemon = dhcp.Daemon(*flags, **options)
        self.addCleanup(daemon.process.wait)
        self.addCleanup(lambda: daemon.process.kill())
        return daemon

    def server(self, **options):
        server = dhcp.dnsmasq(**options)
        self.addCleanup(server.stop)
        return server

    def add(self, pod, conf=None, **options):
        return self.assert_ok(dhcp.attach("ADD", pod, conf or dhcp.config(), **options))

    def test_a_pod_gets_an_address_a_default_route_and_gives_them_back(self):
        self.server()
        daemon = self.daemon()
        pod = self.pod()
        result = self.add(pod)
        [address] = [ip["address"] for ip in result["ips"]]
        self.assertRegex(address, r"^10\.77\.0\.\d+/24$")
        self.assertEqual(result["ips"][0]["gateway"], "10.77.0.1")
        self.assertEqual(result["routes"], [{"dst": "0.0.0.0/0", "gw": "10.77.0.1"}])
        self.assertNotIn("dns", result)
        self.assertEqual(dhcp.addresses(pod), [address])
        self.assertEqual(dhcp.routes(pod), {("default", "10.77.0.1", None)})
        self.assertIn("1 received", pod.run("ping", "-c1", "-W2", "10.77.0.1"))
        # 00, and the text that the reference plugins send.
        self.assertEqual(dhcp.dnsmasq_leases(), {address[:-3]: ":".join(f"{b:02x}" for b in b"\0pod1/net1/eth0")})
        conf = dhcp.config(prevResult=result)
        self.assert_ok(dhcp.attach("CHECK", pod, conf))
        self.assertEqual(daemon.leases()["pod1"]["state"], "bound")
        for _ in range(2):
            self.assert_ok(dhcp.attach("DEL", pod, conf))
            self.assertTrue(dhcp.released())
            self.assertEqual(os.listdir(dhcp.STATES), [])
        self.assertEqual(daemon.leases(), {})

    def test_the_wire_shows_what_RFC_2131_wants(self):
        self.server()
        self.daemon()
        pod = self.pod()
        with dhcp.capture("/run/wire.pcap") as path:
            result = self.add(pod)
            address = result["ips"][0]["address"][:-3]
            self.assert_ok(dhcp.attach("DEL", pod, dhcp.config(prevResult=result)))
            wait_for(lambda: "7" in [one[0] for one in dhcp.packets(path, "dhcp.option.dhcp")])
        self.assertEqual(dhcp.malformed(path), "")
        sent = dhcp.packets(path, "dhcp.option.dhcp", "ip.src", "ip.dst", "eth.dst", "dhcp.ip.client", "dhcp.flags.bc",
                            "dhcp.option.requested_ip_address", "dhcp.option.dhcp_server_id", "udp.length",
                            where="dhcp.type == 1")
        kinds = [dhcp.TYPES[int(one[0])] for one in sent]
        self.assertEqual([kinds[0], kinds[-2], kinds[-1]], ["DISCOVER", "REQUEST", "RELEASE"])
        everybody = ("0.0.0.0", "255.255.255.255", "ff:ff:ff:ff:ff:ff", "0.0.0.0")
        self.assertEqual(sent[0][1:5], everybody)
        self.assertEqual(sent[-2][1:5], everybody)
        self.assertEqual(sent[-2][6:8], (address, "10.77.0.1"))
        released = sent[-1]
        self.assertEqual(released[1:3], (address, "10.77.0.1"))  # from the address, to the server
        self.assertEqual(released[3:5], (dhcp.MAC, address))
        self.assertEqual((released[6], released[7]), ("", "10.77.0.1"))
        self.assertTrue(all(int(one[8]) >= 308 for one in sent), sent)
        announced = dhcp.packets(path, "arp.src.proto_ipv4", "arp.dst.proto_ipv4", where="arp.isgratuitous")
        self.assertIn((address, address), announced)

    def test_options_are_requested_and_provided(self):
        server = self.server(options=(
            "--dhcp-option=6,10.77.0.53,10.77.0.54", "--dhcp-option=15,pods.example.com",
            "--dhcp-option=119,a.example.com,b.example.com", "--dhcp-option=26,1400",
            "--dhcp-option=121,198.51.100.0/24,10.77.0.2,192.0.2.0/24,0.0.0.0,0.0.0.0/0,10.77.0.1"))
        self.daemon()
        pod = self.pod()
        conf = dhcp.config(ipam={
            "request": [{"option": "6"}, {"option": "15"}, {"option": "119"}, {"option": "26"}, {"option": "121"}],
            "provide": [{"option": "host-name", "value": "one"}, {"option": "12", "fromArg": "K8S_POD_NAME"},
                        {"option": "vendor-class-identifier", "value": "patchbay"}, {"option": "user-class", "value": "u"},
                        {"option": "43", "value": "v"}],
            "priority": 50})
        result = self.add(pod, conf, args="IgnoreUnknown=1;K8S_POD_NAME=web-0")
        self.assertEqual(result["dns"], {"nameservers": ["10.77.0.53", "10.77.0.54"], "domain": "pods.example.com",
                                         "search": ["a.example.com", "b.example.com"]})
        self.assertEqual(result["routes"], [
            {"dst": "198.51.100.0/24", "gw": "10.77.0.2", "priority": 50},
            {"dst": "192.0.2.0/24", "gw": "0.0.0.0", "priority": 50, "scope": 253},
            {"dst": "0.0.0.0/0", "gw": "10.77.0.1", "priority": 50}])
        self.assertEqual(dhcp.routes(pod), {("198.51.100.0/24", "10.77.0.2", 50), ("192.0.2.0/24", None, 50),
                                            ("default", "10.77.0.1", 50)})
        [link] = json.loads(pod.run("ip", "-j", "link", "show", "eth0"))
        self.assertEqual(link["mtu"], 1400)
        self.assertIn("client provides name: web-0", server.log)
        self.assertIn("vendor class: patchbay", server.log)
        self.assert_ok(dhcp.attach("CHECK", pod, conf | {"prevResult": result}))
        without = self.add(self.pod(), dhcp.config(ipam={"request": [{"option": "6"}], "dns": False}))
        self.assertNotIn("dns", without)

    def test_dns_as_an_object_is_passed_over(self):
        self.server(options=("--dhcp-option=6,10.77.0.53",))
        self.daemon()
        ipam = {"dns": {"nameservers": ["192.0.2.53"], "domain": "lan.example"}}
        self.assertNotIn("dns", self.add(self.pod(), dhcp.config(ipam=ipam)))
        requested = self.add(self.pod(), dhcp.config(ipam=ipam | {"request": [{"option": "6"}]}))
        self.assertEqual(requested["dns"], {"nameservers": ["10.77.0.53"]})
        for value in ("true", 1, ["192.0.2.53"]):
            self.assert_error(cni("dhcp", "STATUS", dhcp.config(ipam={"dns": value})), 7, "ipam.dns: expected true or false")

    def test_STATUS_and_ADD_say_that_there_is_no_daemon_and_DEL_succeeds(self):
        conf = dhcp.config()
        self.assert_error(cni("dhcp", "STATUS", conf), 50, "error dialing DHCP daemon: dial unix /run/cni/dhcp.sock: "
                          "connect: no such file or directory")
        pod = self.pod()
        error = self.assert_error(dhcp.attach("ADD", pod, conf), 50, "error dialing DHCP daemon")
        self.assertIn("dhcp daemon", error["details"])
        self.assert_ok(dhcp.attach("DEL", pod, conf))
        self.assertEqual(json.loads(pod.run("ip", "-j", "link"))[0]["ifname"], "lo")
        self.daemon()
        self.assert_ok(cni("dhcp", "STATUS", conf))

    def test_ADD_fails_in_time_without_a_server_and_leaves_nothing(self):
        daemon = self.daemon()
        pod = self.pod()
        conf = dhcp.config(ipam={"timeout": 2})
        begun = time.monotonic()
        error = self.assert_error(dhcp.attach("ADD", pod, conf), 11)
        self.assertEqual((error["msg"], error["details"]),
                         ("error calling DHCP.Allocate: no more tries", "no DHCP server answered"))
        self.assertLess(time.monotonic() - begun, 30)
        self.assertEqual(daemon.leases(), {})
        self.assertEqual(os.listdir(dhcp.STATES), [])
        self.assert_ok(dhcp.attach("DEL", pod, conf))

    def test_an_exhausted_pool_fails_ADD_until_a_pod_goes(self):
        self.server(pool="10.77.0.10,10.77.0.10")
        self.daemon()
        one, other = self.pod(), self.pod()
        conf = dhcp.config(ipam={"timeout": 2})
        result = self.add(one, conf)
        self.assert_error(dhcp.attach("ADD", other, conf), 11, "no more tries")
        self.assert_ok(dhcp.attach("DEL", other, conf))
        self.assertEqual(len(dhcp.dnsmasq_leases()), 1)
        self.assert_ok(dhcp.attach("DEL", one, conf))
        self.assertEqual(self.add(other, conf)["ips"], result["ips"])

    def test_parallel_ADDs_of_an_attachment_are_one_lease(self):
        self.server()
        daemon = self.daemon()
        pod = self.pod()
        dhcp.veth(pod, "peer")
        calls = [start("dhcp", "ADD", dhcp.config(), netns=pod.path, container=pod.name) for _ in range(8)]
        results = [self.assert_ok(outcome) for outcome in finish_all(calls)]
        self.assertEqual([result for result in results if result != results[0]], [])
        self.assertEqual(len(dhcp.dnsmasq_leases()), 1)
        self.assertEqual(len(daemon.leases()), 1)
        self.assertEqual(self.assert_ok(cni("dhcp", "ADD", dhcp.config(), netns=pod.path, container=pod.name)), results[0])

    def test_an_ADD_that_another_one_replaced_leaves_it_its_lease(self):
        self.server()
        daemon = self.daemon()
        first, second = self.pod(), self.pod()
        first.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "nobody")  # on no segment
        first.run("ip", "link", "set", "nobody", "up")
        dhcp.veth(second, "peer")
        call = start("dhcp", "ADD", dhcp.config(), netns=first.path, container="c1")
        call.stdin.write(call.config)
        call.stdin.close()
        call.stdin = None
        self.assertTrue(wait_for(lambda: daemon.leases().get("c1", {}).get("state") == "selecting"))
        result = self.assert_ok(cni("dhcp", "ADD", dhcp.config(), netns=second.path, container="c1"))
        self.assert_error(finish(call), 999, "another ADD of this attachment replaced it")
        self.assertEqual(daemon.leases()["c1"]["address"], result["ips"][0]["address"])

    def test_an_ADD_that_the_daemon_refuses_leaves_the_lease_of_an_earlier_one(self):
        self.server()
        daemon = self.daemon()
        pod = self.pod()
        dhcp.veth(pod, "peer")
        options = {"netns": pod.path, "container": pod.name}
        self.assert_ok(cni("dhcp", "ADD", dhcp.config(), **options))
        before = daemon.leases()
        pod.run("ip", "link", "set", "eth0", "down")
        pod.run("ip", "link", "set", "eth0", "name", "hidden")
        refused = cni("dhcp", "ADD", dhcp.config(), **options)
        self.assert_error(refused, msg="the pod has no Ethernet interface 'eth0'")
        self.assertEqual([(name, one["address"]) for name, one in daemon.leases().items()],
                         [(name, one["address"]) for name, one in before.items()])
        self.assertEqual(len(dhcp.dnsmasq_leases()), 1)

    def test_DEL_ends_an_ADD_that_is_under_way(self):
        daemon = self.daemon()
        pod = self.pod()
        call = start("bridge", "ADD", dhcp.config(), netns=pod.path, container=pod.name)
        call.stdin.write(call.config)
        call.stdin.close()
        call.stdin = None
        self.assertTrue(wait_for(lambda: daemon.leases().get("pod1", {}).get("state") == "selecting"))
        self.assert_ok(cni("dhcp", "DEL", dhcp.config(), netns=pod.path, container=pod.name))
        self.assert_error(finish(call), 999, "a DEL of this attachment ended it")
        self.assertEqual(daemon.leases(), {})

    def test_an_ADD_whose_plugin_was_killed_leaves_no_lease(self):
        daemon = self.daemon()
        pod = self.pod()
        call = start("bridge", "ADD", dhcp.config(), netns=pod.path, container=pod.name)
        call.stdin.write(call.config)
        call.stdin.close()
        call.stdin = None
        self.assertTrue(wait_for(lambda: daemon.leases()))
        call.kill()
        call.wait()
        self.assertTrue(wait_for(lambda: not daemon.leases()))
        self.server()
        time.sleep(1.5)  # a client that went on would ask again by now
        self.assertEqual(dhcp.dnsmasq_leases(), {})

    def test_GC_releases_leases_that_are_not_listed(self):
        self.server()
        daemon = self.daemon()
        pods = [self.pod() for _ in range(3)]
        for pod in pods:
            self.add(pod)
        valid = [{"containerID": "pod2", "ifname": "eth0"}]
        self.assert_ok(cni("dhcp", "GC", dhcp.config() | {"name": "net2", "cni.dev/valid-attachments": []}))
        self.assert_ok(cni("dhcp", "GC", dhcp.config()))
        self.assertEqual(len(daemon.leases()), 3)
        self.assert_ok(cni("dhcp", "GC", dhcp.config() | {"cni.dev/valid-attachments": valid}))
        self.assertEqual(list(daemon.leases()), ["pod2"])
        self.assertTrue(dhcp.released(1))

    def test_a_namespace_that_is_removed_is_not_kept_alive_and_its_lease_is_left_to_the_server(self):
        self.server()
        daemon = self.daemon()
        pod = self.pod()
        result = self.add(pod)
        host = result["interfaces"][1]["name"]
        pod.remove()
        self.assertTrue(wait_for(lambda: not os.path.exists(f"/sys/class/net/{host}"), 10))
        self.assertTrue(wait_for(lambda: not daemon.leases(), 10), daemon.log)
        self.assertEqual(os.listdir(dhcp.STATES), [])
        self.assertIn("does not release " + result["ips"][0]["address"][:-3], daemon.log)
        self.assertEqual(len(dhcp.dnsmasq_leases()), 1)
        self.assert_ok(dhcp.attach("DEL", pod, dhcp.config(prevResult=result)))

    def test_a_daemon_that_is_killed_hands_its_leases_on(self):
        self.server()
        daemon = self.daemon()
        pods = [self.pod() for _ in range(3)]
        results = [self.add(pod) for pod in pods]
        before = daemon.leases()
        pods[0].remove()
        daemon.kill()
        self.assertTrue(os.path.exists(dhcp.SOCKET))  # a stale file
        self.assert_ok(dhcp.attach("DEL", pods[1], dhcp.config(prevResult=results[1])))
        daemon.start()
        self.assertTrue(wait_for(lambda: list(daemon.leases()) == ["pod3"], 10), daemon.log)
        self.assertEqual(daemon.leases()["pod3"]["address"], before["pod3"]["address"])
        self.assertEqual(len(dhcp.dnsmasq_leases()), 3)  # only the interfaces could have released them
        self.assert_ok(dhcp.attach("CHECK", pods[2], dhcp.config(prevResult=results[2])))
        self.assertEqual(daemon.stop(), 0)
        self.assertFalse(os.path.exists(dhcp.SOCKET))
        self.assertEqual(len(os.listdir(dhcp.STATES)), 1)

    def test_an_address_is_valid_as_long_as_its_lease_and_forever_with_one_that_does_not_end(self):
        server = self.server(lease="2h")
        daemon = self.daemon()
        pod, other = self.pod(), self.pod()
        result = self.add(pod)
        self.assertTrue(wait_for(lambda: dhcp.lifetime(pod) is not None, 5))
        self.assertAlmostEqual(dhcp.lifetime(pod), daemon.leases()["pod1"]["expire"], delta=2)
        self.assert_ok(dhcp.attach("CHECK", pod, dhcp.config(prevResult=result)))
        # A second ADD of an interface plugin may add the address once more.
        pod.run("ip", "addr", "del", result["ips"][0]["address"], "dev", "eth0")
        self.assert_ok(cni("dhcp", "ADD", dhcp.config(), netns=pod.path, container="pod1"))
        pod.run("ip", "addr", "add", result["ips"][0]["address"], "dev", "eth0")
        self.assertTrue(wait_for(lambda: dhcp.lifetime(pod) is not None, 5))
        server.stop()
        self.server(lease="infinite")
        address = self.add(other)["ips"][0]["address"]
        self.assertIsNone(dhcp.lifetime(other))
        other.run("ip", "addr", "change", address, "dev", "eth0", "valid_lft", "500", "preferred_lft", "500")
        daemon.restart()
        self.assertTrue(wait_for(lambda: dhcp.lifetime(other) is None, 5))

    def test_a_state_file_of_another_boot_and_a_torn_one_are_removed(self):
        os.makedirs(dhcp.STATES)
        recorded = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support", "state_files", "0.1.0", "dhcp")
        other, = os.listdir(recorded)
        with open(f"{recorded}/{other}") as file:
            content = file.read()
        for name, text in (("torn", "{"), ("empty", ""), (other, content)):
            with open(f"{dhcp.STATES}/{name}", "w") as file:
                file.write(text)
        daemon = self.daemon()
        self.assertEqual(daemon.leases(), {})
        self.assertEqual(os.listdir(dhcp.STATES), [])

    def test_a_folder_of_others_among_the_state_files_stays(self):
        os.makedirs(f"{dhcp.STATES}/lost+found/x")
        self.assertEqual(self.daemon().leases(), {})
        self.assertEqual(os.listdir(dhcp.STATES), ["lost+found"])

    def test_leases_outlive_their_folder(self):
        """Removed, replaced and moved beneath the daemon, which an ADD or the daemon's end notices."""
        self.server()
        daemon = self.daemon()
        pods = [self.pod() for _ in range(4)]
        known = {pod.name: self.add(pod)["ips"][0]["address"] for pod in pods[:1]}
        for pod, change in zip(pods[1:], (lambda: shutil.rmtree(dhcp.STATES),
                                          lambda: (shutil.rmtree(dhcp.STATES), os.mkdir(dhcp.STATES)),
                                          lambda: os.rename(dhcp.STATES, "/run/cni/old"))):
            change()
            known[pod.name] = self.add(pod)["ips"][0]["address"]
            self.assertEqual(len(os.listdir(dhcp.STATES)), len(known))
            daemon.restart()
            self.assertEqual({name: lease["address"] for name, lease in daemon.leases().items()}, known)
        self.assertEqual(daemon.log.count("was removed: it is created again"), 3)
        shutil.rmtree("/run/cni")
        self.assertEqual(daemon.stop(), 0)
        daemon.start()
        self.assertEqual({name: lease["address"] for name, lease in daemon.leases().items()}, known)
        for pod in pods:
            self.assert_ok(dhcp.attach("DEL", pod, dhcp.config()))
        self.assertEqual(os.listdir(dhcp.STATES), [])

    def test_an_address_that_another_node_has_is_declined(self):
        self.server(pool="10.77.0.10,10.77.0.11", options=("--dhcp-sequential-ip",))
        self.daemon("-timeout", "1s")
        other = self.pod("other")
        dhcp.veth(other, "other")
        other.run("ip", "addr", "add", "10.77.0.10/24", "dev", "eth0")
        other.run("ip", "link", "set", "eth0", "up")
        pod = self.pod()
        with dhcp.capture("/run/decline.pcap") as path:
            result = self.add(pod, dhcp.config(ipam={"probe": True}))
        self.assertEqual(result["ips"][0]["address"], "10.77.0.11/24")
        self.assertIn(("4", "10.77.0.10"), dhcp.packets(path, "dhcp.option.dhcp", "dhcp.option.requested_ip_address"))
        self.assertEqual(dhcp.malformed(path), "")

    def test_doctor_knows_the_leases(self):
        self.server()
        daemon = self.daemon()
        self.add(self.pod())

        def said():
            found = json.loads(cnitool("doctor", "--json").stdout)
            return [(one["level"], one["what"]) for one in found["findings"] if "DHCP lease" in one["what"]]
        self.assertEqual(said(), [("note", "1 DHCP lease of server 10.77.0.1")])
        daemon.stop()
        [file] = [f"{dhcp.STATES}/{name}" for name in os.listdir(dhcp.STATES)]
        with open(file) as state:
            text = json.load(state)
        text["lease"] |= {"renew": 0, "rebind": 0}
        for lease, level, words in ((text["lease"], "warning", "for 'eth0' of container 'pod1' in network 'net1' ends in"),
                                    (None, "error", "no DHCP lease for 'eth0' of container 'pod1' in network 'net1'")):
            with open(file, "w") as state:
                json.dump(text | {"lease": lease}, state)
            [(found, what)] = said()
            self.assertEqual(found, level)
            self.assertIn(words, what)

    def test_doctor_says_once_that_a_lease_is_lost(self):
        server = self.server()
        daemon = self.daemon()
        conf = dhcp.config()
        use({"cniVersion": "1.1.0", "name": "net1", "plugins": [conf]})
        pod = self.pod()
        self.assert_ok(cnitool("add", "net1", pod.path))
        server.stop()

        def errors():
            found = json.loads(cnitool("doctor", "--json").stdout)["findings"]
            return [(one["check"], one["what"]) for one in found if one["level"] == "error"]
        self.assertEqual(errors(), [])
        daemon.stop()
        self.assertEqual({check for check, _ in errors()}, {"status", "DHCP leases"})
        [file] = [f"{dhcp.STATES}/{name}" for name in os.listdir(dhcp.STATES)]
        with open(file) as state:
            text = json.load(state)
        with open(file, "w") as state:
            json.dump(text | {"lease": None}, state)
        self.daemon()
        [(check, what)] = errors()
        self.assertEqual(check, "DHCP leases")
        self.assertIn("no DHCP lease for 'eth0'", what)

    def test_graph_shows_the_lease_of_a_pod(self):
        self.server()
        daemon = self.daemon()
        conf = dhcp.config()
        use({"cniVersion": "1.1.0", "name": "net1", "plugins": [conf]})
        self.assert_ok(cnitool("add", "net1", self.pod().path, "--container-id", "c1"))
        left = daemon.leases()["c1"]["expire"]
        shown = cnitool("graph").stdout
        self.assertRegex(shown, r"lease of 10\.77\.0\.1, ends in \d+ s\n")
        [bridge] = json.loads(cnitool("graph", "--json").stdout)["bridges"]
        lease = bridge["pods"][0]["lease"]
        self.assertEqual(lease["server"], "10.77.0.1")
        self.assertTrue(left - 60 < lease["expire"] <= left + 1, (lease, left))
        self.assert_ok(dhcp.attach("DEL", self.pod("other"), conf, container="c1"))
        self.assertNotIn("lease of", cnitool("graph").stdout)

    def test_bad_configs_fail_with_the_place_of_the_key(self):
        self.daemon()
        pod = self.pod()
        for ipam, text in (({"provide": [{"option": "foo", "value": "x"}]}, "ipam.provide[0].option: Can not parse option"),
                           ({"provide": [{"option": "53", "value": "x"}]}, "an option that the client itself sends"),
                           ({"request": [{"option": "256"}]}, "ipam.request[0].option: Can not parse option"),
                           ({"provide": [{"option": "12", "value": "x" * 256}]}, "ipam.provide[0].value")):
            with self.subTest(ipam=str(ipam)[:60]):
                self.assert_error(cni("dhcp", "ADD", dhcp.config(ipam=ipam), netns=pod.path), 7, text)
        self.assert_error(cni("dhcp", "ADD", {"cniVersion": "1.0.0", "name": "n", "type": "x"}, netns=pod.path), 7, "ipam")
        self.assert_error(cni("dhcp", "ADD", dhcp.config(), netns=pod.path), 999, "no Ethernet interface 'eth0'")


if __name__ == "__main__":
    suite.main(needs=("dnsmasq", "tcpdump", "tshark", "ping"), per_processor=2)
