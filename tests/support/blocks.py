"""What patchbay-agent writes for the plugin cluster-pool, from Python, and an agent that claims blocks without an engine:
plugins/state/blocks.h."""

import contextlib
import fcntl
import ipaddress
import json
import os
import threading
import time
import uuid

DIR = "/var/lib/cni/blocks"
LEASES = "/var/lib/cni/networks"


def pool(*ranges, size=None, exclude=(), data_dir=LEASES):
    """The pool of sets of one range each, as the plugin has it after its defaults."""
    return {"ranges": [[_range(ipaddress.ip_network(one), size, exclude)] for one in ranges], "dataDir": data_dir}


def _range(subnet, size, exclude):
    last = subnet[-1] if subnet.version == 6 else subnet[-2]
    return {"subnet": str(subnet), "rangeStart": str(subnet[1]), "rangeEnd": str(last), "gateway": str(subnet[1]),
            "blockSize": size or max(28 if subnet.version == 4 else 120, subnet.prefixlen), "exclude": list(exclude)}


def block(cidr, state="held", holder=""):
    return {"cidr": cidr, "claim": str(uuid.uuid4()), "state": state, "holder": holder}


def held(*cidrs, network="net1", note="", of=None, node="node1", **more):
    """Writes NETWORK.json. A block is its CIDR, or what block() makes."""
    blocks = [one if isinstance(one, dict) else block(one) for one in cidrs]
    subnet = "10.5.0.0/24"
    put(f"{network}.json", {"network": network, "node": node, "pool": of or pool(subnet), "blocks": blocks, "note": note,
                            "noted": int(time.time()) if note else 0} | more)


def provide(network="net1"):
    """What the plugin's least config, and configs of its full one, need of the agent."""
    held("10.1.2.0/24", "10.9.0.0/24", "fd00:5::/120", *(f"10.1.2.{n}/28" for n in range(0, 256, 16)),
         *(f"10.9.0.{n}/30" for n in range(0, 64, 4)), *(f"10.1.2.{n}/29" for n in range(0, 64, 8)),
         network=network, of=pool("10.1.2.0/24"))


def seen(nodes, network="net1", age=0):
    """Writes NETWORK.nodes: {node: blocks}."""
    put(f"{network}.nodes", {"at": int(time.time()) - age,
                             "nodes": [{"node": node, "blocks": blocks} for node, blocks in nodes.items()]})


def put(name, what):
    os.makedirs(DIR, exist_ok=True)
    with open(f"{DIR}/.{name}.new", "w", encoding="utf-8") as file:
        file.write(what if isinstance(what, str) else json.dumps(what))
    os.rename(f"{DIR}/.{name}.new", f"{DIR}/{name}")


def read(name):
    """A file as JSON; None: there is none."""
    try:
        with open(f"{DIR}/{name}", encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def want(network="net1"):
    return read(f"{network}.want")


def leased(network="net1"):
    """{address: container} as the leases say."""
    folder, out = f"{LEASES}/{network}", {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)
            with open(f"{folder}/{name}", encoding="utf-8") as file:
                out[name] = file.read().split()[0]
    return out


class Agent:
    """Claims what wants say, with a delay, from the first free block on. taken are blocks of other nodes."""

    def __init__(self, taken=(), delay=0.0, node="node1"):
        self.taken, self.delay, self.node = [ipaddress.ip_network(one) for one in taken], delay, node
        self.served, self._end = [], threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self):
        self._end.set()
        self._thread.join()

    def _serve(self):
        while not self._end.wait(0.01):
            for name in os.listdir(DIR) if os.path.isdir(DIR) else ():
                if name.endswith(".want"):
                    time.sleep(self.delay)
                    self._answer(name[:-len(".want")])

    def _answer(self, network):
        with open(f"{DIR}/.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            asked = want(network)
            os.remove(f"{DIR}/{network}.want")
        self.served.append(asked)
        have = read(f"{network}.json") or {"blocks": []}
        blocks, note = have["blocks"], ""
        for address in [*sorted(leased(network), key=ipaddress.ip_address), *asked["fixed"]]:  # blocks of leases first
            self._claim_with(asked["pool"], ipaddress.ip_address(address), blocks)
        for short in asked["full"]:
            if not self._claim_next(asked["pool"]["ranges"][short["set"]], blocks):
                note = f"all blocks of range set {short['set']} are claimed"
        held(*blocks, network=network, note=note, of=asked["pool"], node=self.node)

    def _is_free(self, found, blocks):
        return not any(found.overlaps(ipaddress.ip_network(one)) for one in [*self.taken, *(one["cidr"] for one in blocks)])

    def _claim_with(self, of, address, blocks):
        for one in (one for ranges in of["ranges"] for one in ranges):
            if address in ipaddress.ip_network(one["subnet"]):
                found = ipaddress.ip_network(f"{address}/{one['blockSize']}", strict=False)
                if self._is_free(found, blocks):
                    blocks.append(block(str(found)))

    def _claim_next(self, ranges, blocks):
        for one in ranges:
            for found in ipaddress.ip_network(one["subnet"]).subnets(new_prefix=one["blockSize"]):
                if self._is_free(found, blocks):
                    blocks.append(block(str(found)))
                    return True
        return False
