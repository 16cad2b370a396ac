"""Stands in for plugins of other projects that route to each pod by a veth of its own, as clouds do: addresses
without a subnet, a gateway that is no neighbour, and a result that does not name the host veth."""

import os

from support.world import run

DIRECTORY = "/run/foreign-plugins"
GATEWAY = {4: "169.254.1.1", 6: "fd00:fff::1"}
#: What each reports: the container interface alone, and among links that are not the host veth.
INTERFACES = {
    "foreign-alone": ('{"name": "\'$CNI_IFNAME\'", "sandbox": "\'$CNI_NETNS\'"}', 0),
    "foreign-list": ('{"name": "foreign_host"}, {"name": "\'$CNI_IFNAME\'", "sandbox": "\'$CNI_NETNS\'"}, '
                     '{"name": "dummy0", "mac": "0", "sandbox": "0"}', 1),
    "foreign-none": ("", None),
}
PLUGINS = tuple(INTERFACES)
_SCRIPT = """#!/bin/sh
set -e
cat >/dev/null
number=${{CNI_CONTAINERID#pod}}
host=foreign$number
pod=${{CNI_NETNS##*/}}
case $CNI_COMMAND in
ADD)
    ip link add $host type veth peer name $CNI_IFNAME netns $pod
    ip -batch - <<END
link set $host up
addr add {gateway4}/32 dev $host
addr add {gateway6}/128 dev $host nodad
route add 10.250.0.$number/32 dev $host
route add fd00:250::$number/128 dev $host
END
    ip -n $pod -batch - <<END
link set lo up
addr add 10.250.0.$number/32 dev $CNI_IFNAME
addr add fd00:250::$number/128 dev $CNI_IFNAME nodad
link set $CNI_IFNAME up
route add default via {gateway4} dev $CNI_IFNAME onlink
route add {gateway6} dev $CNI_IFNAME
route add default via {gateway6} dev $CNI_IFNAME
END
    echo '{{"cniVersion": "1.0.0", "interfaces": [{interfaces}], "ips": [
        {{"address": "10.250.0.'$number'/32", "gateway": "{gateway4}"{index}}},
        {{"address": "fd00:250::'$number'/128", "gateway": "{gateway6}"{index}}}],
        "routes": [{{"dst": "0.0.0.0/0"}}, {{"dst": "::/0"}}], "dns": {{}}}}'
    ;;
DEL) ip link del $host 2>/dev/null || : ;;
VERSION) echo '{{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}}' ;;
esac
"""


def install():
    """Writes the plugins, and lets the node forward."""
    os.makedirs(DIRECTORY, exist_ok=True)
    for name, (interfaces, index) in INTERFACES.items():
        text = _SCRIPT.format(interfaces=interfaces, gateway4=GATEWAY[4], gateway6=GATEWAY[6],
                              index="" if index is None else f', "interface": {index}')
        with open(f"{DIRECTORY}/{name}", "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(f"{DIRECTORY}/{name}", 0o755)
    run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")


def addresses(pod):
    """The addresses of a pod called podN, by family."""
    number = pod.name.removeprefix("pod")
    return {4: f"10.250.0.{number}", 6: f"fd00:250::{number}"}


def host_veth(pod):
    return f"foreign{pod.name.removeprefix('pod')}"
