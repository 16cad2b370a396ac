"""What others do to a node whose pods go on running: rules flushed, bridges deleted, queues removed."""

import json
import os
import re

from support.snapshot import netns_names
from support.world import run


def _legacy(family):
    return f"{'ip6' if family == 6 else 'ip'}tables-legacy"


def flush_rules():
    """`firewalld --reload` and the like: no rule is left, of nftables or of either iptables."""
    run("nft", "flush", "ruleset")
    for family, names in ((4, "ip_tables_names"), (6, "ip6_tables_names")):
        try:
            with open(f"/proc/net/{names}", encoding="ascii") as file:
                tables = file.read().split()
        except OSError:
            continue
        for table in tables:
            for what in ("-F", "-X"):
                run(_legacy(family), "-t", table, what)


def delete_bridges():
    for link in _links("bridge"):
        run("ip", "link", "del", link)


def remove_queues():
    """Every queue and every device that limits are made of, in pods too."""
    for link in _links("ifb"):
        run("ip", "link", "del", link)
    for pod in netns_names():
        run("tc", "-n", pod, "qdisc", "del", "dev", "eth0", "root", check=False)
    for link in _links("veth"):
        for where in ("root", "ingress"):
            run("tc", "qdisc", "del", "dev", link, where, check=False)


def turn_sysctls_off():
    off = ["net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0"]
    off += [f"net.ipv4.conf.{link}.route_localnet=0" for link in _links("bridge")]
    run("sysctl", "-qw", *off)


def detach_ports():
    """The bridge stays, without ports."""
    for link in _links("veth"):
        if os.path.exists(f"/sys/class/net/{link}/brport"):
            run("ip", "link", "set", link, "nomaster")


def everything():
    flush_rules()
    turn_sysctls_off()
    remove_queues()
    delete_bridges()


ALL = {"the rules are flushed": flush_rules, "the bridges are deleted": delete_bridges,
       "the queues are removed": remove_queues, "the ports are detached": detach_ports,
       "the sysctls are off": turn_sysctls_off, "all of it at once": everything}


def _links(kind):
    return [link["ifname"] for link in
            json.loads(run("ip", "-j", "link", "show", "type", kind) or "[]")]


_NUMBERS = re.compile(r'"(?:ifindex|link_index|txqlen|group)": \d+,? ?')


def comparable(found):
    """A snapshot without what a link that is made again has other than before."""
    return {place: json.loads(_NUMBERS.sub("", json.dumps(what)).replace(", }", "}"))
            for place, what in found.items()}
