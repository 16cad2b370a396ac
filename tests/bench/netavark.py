"""netavark, podman's way to connect containers: one bridge network and one port."""

import json
import os
import time

from support.world import Pod, World

PLACES = ("/usr/lib/podman/netavark", "/usr/libexec/podman/netavark")


def find(path=None):
    """The program, or None."""
    return next((p for p in ([path] if path else PLACES) if os.access(p, os.X_OK)), None)


def config(number):
    return {"container_id": f"{number:064x}", "container_name": f"c{number}",
            "port_mappings": [{"container_port": 80, "host_ip": "", "host_port": 10_000 + number,
                               "protocol": "tcp", "range": 1}],
            "networks": {"net": {"interface_name": "eth0", "static_ips": [f"10.201.0.{number + 2}"]}},
            "network_info": {"net": {
                "name": "net", "id": "5" * 64, "driver": "bridge", "network_interface": "na0",
                "subnets": [{"subnet": "10.201.0.0/16", "gateway": "10.201.0.1"}],
                "ipv6_enabled": False, "internal": False, "dns_enabled": False,
                "ipam_options": {"driver": "host-local"}}}}


class Caller:
    """Runs it with as little of our own around it as Python allows."""

    def __init__(self, program):
        self.program = program
        self.stdin, self.stdout = os.memfd_create("config"), os.memfd_create("output")

    def run(self, verb, number, pod):
        """Microseconds."""
        for fd in (self.stdin, self.stdout):
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
        os.write(self.stdin, json.dumps(config(number)).encode())
        os.lseek(self.stdin, 0, os.SEEK_SET)
        actions = [(os.POSIX_SPAWN_DUP2, self.stdin, 0), (os.POSIX_SPAWN_DUP2, self.stdout, 1)]
        words = [self.program, "--config", "/run/networks", verb, pod.path]
        begin = time.perf_counter()
        pid = os.posix_spawn(self.program, words, os.environ, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        took = (time.perf_counter() - begin) * 1e6
        os.lseek(self.stdout, 0, os.SEEK_SET)
        if status != 0:
            raise RuntimeError(f"netavark {verb}: {os.read(self.stdout, 4096).decode()}")
        return round(took)


def measure(program, pods):
    """{"ADD": [...], "DEL": [...]}: setup and teardown, after one that made what all share."""
    World()
    os.mkdir("/run/networks")
    caller, found = Caller(program), {"ADD": [], "DEL": []}
    for number in range(pods + 1):
        pod = Pod(f"c{number}")
        for verb, word in (("ADD", "setup"), ("DEL", "teardown")):
            took = caller.run(word, number, pod)
            if number:
                found[verb].append(took)
            time.sleep(0.02)
    return found
