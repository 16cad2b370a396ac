"""The least config that each plugin can be given, in every version of the spec."""

import copy

CONFIGS = {
    "loopback": {},
    "bridge": {"isGateway": True,
               "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]],
                        "routes": [{"dst": "0.0.0.0/0"}]},
               "dns": {"nameservers": ["10.1.2.53"]}},
    "host-local": {"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]],
                            "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.2.1"}]}},
    "static": {"ipam": {"type": "static",
                        "addresses": [{"address": "10.1.2.9/24", "gateway": "10.1.2.1"}],
                        "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.2.1"}],
                        "dns": {"nameservers": ["10.1.2.53"]}}},
    "portmap": {"runtimeConfig": {"portMappings": [
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}},
    # Needs no other end on the node, which old results do not name.
    "bandwidth": {"egressMode": "pod", "egressRate": 8000000, "egressBurst": 800000},
}
#: Where a plugin is not for eth0.
IFNAMES = {"loopback": "lo", "bandwidth": "lo"}
#: Those that need a plugin before them.
CHAINED = ("portmap", "bandwidth")
#: GC without any attachment that is valid.
GC = {"cni.dev/valid-attachments": []}


def number(version):
    """A version, comparable."""
    return tuple(int(part) for part in version.split("."))


def previous(version, address="10.1.2.9"):
    """What the plugin before a chained one says, in the words of the version."""
    version = version or "0.1.0"
    route = {"dst": "0.0.0.0/0", "gw": "10.1.2.1"}
    ip = {"address": f"{address}/24", "gateway": "10.1.2.1"}
    if number(version) < (0, 3, 0):
        ip["ip"] = ip.pop("address")
        return {"cniVersion": version, "ip4": ip | {"routes": [route]}, "dns": {}}
    more = {"version": "4"} if number(version) < (1, 0, 0) else {}
    return {"cniVersion": version, "ips": [ip | more | {"interface": 0}], "routes": [route],
            "interfaces": [{"name": "eth0", "mac": "02:11:22:33:44:55", "sandbox": "/run/x"}],
            "dns": {"nameservers": ["10.1.2.53"]}}


def config(plugin, version, **more):
    """The config, with more laid over it."""
    chained = {"prevResult": previous(version)} if plugin in CHAINED else {}
    return copy.deepcopy({"cniVersion": version, "name": "net1", "type": plugin,
                          **CONFIGS[plugin], **chained, **more})
