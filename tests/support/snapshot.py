"""Everything a CNI plugin may change on a node, read with tools that are not ours.

A snapshot is a flat dict from a readable place ("link/cni0", "route/...", "file/run/...") to what
is there, so that two of them compare as text. Tests take hundreds of thousands of them: few programs are run.
"""

import ctypes
import functools
import glob
import json
import os
import re
import socket
import stat
import struct
import subprocess

from support.world import SOURCES

# Counters and timers that change by themselves, and what the kernel says late: the operational state
# follows from what is compared.
_VOLATILE = {"operstate", "hello_timer", "tcn_timer", "topology_change_timer", "gc_timer", "valid_life_time",
             "direct_packets_stat", "fdb_n_learned",
             "preferred_life_time", "handle", "tentative", "optimistic", "metainfo", "expires",
             "hold_timer", "message_age_timer", "forward_delay_timer", "topology_change",
             "topology_change_detected", "root_port", "designated_port", "root_path_cost", "packets", "bytes"}

# Flags of links, and of routes by way of them, that show the operational state.
_LATE_FLAGS = {"NO-CARRIER", "LOWER_UP", "DORMANT", "linkdown"}
_OF_IPTABLES = re.compile(r'"xt"|"target": "CNI-HOSTPORT-')
# What the kernel numbers anew: actions, programs.
_NUMBERED = re.compile(r"\s(?:index|ref|bind|id) \d+")
_LINK_LOCAL = re.compile(r"(address|route-6)/((local|anycast|unicast) )?fe80:")

_SYSCTLS = (
    "ipv4/ip_forward", "ipv4/conf/all/forwarding", "ipv4/conf/all/rp_filter",
    "ipv4/conf/all/route_localnet", "ipv4/conf/default/forwarding", "ipv6/conf/all/forwarding",
    "ipv6/conf/all/accept_ra", "ipv6/conf/all/disable_ipv6", "ipv6/conf/default/forwarding",
    "ipv6/conf/default/accept_ra", "ipv6/conf/default/disable_ipv6")
_LINK_SYSCTLS = (
    "ipv4/conf/{}/arp_notify", "ipv4/conf/{}/forwarding", "ipv4/conf/{}/rp_filter",
    "ipv4/conf/{}/route_localnet", "ipv4/conf/{}/proxy_arp", "ipv6/conf/{}/accept_ra",
    "ipv6/conf/{}/accept_dad", "ipv6/conf/{}/enhanced_dad", "ipv6/conf/{}/disable_ipv6",
    "ipv6/conf/{}/keep_addr_on_down", "ipv6/conf/{}/forwarding", "ipv6/conf/{}/ndisc_notify",
    "ipv6/conf/{}/autoconf")  # addr_gen_mode is with the link; its file waits for namespaces that are being removed


def _call(*command, stdin=""):
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _documents(text):
    """The JSON documents that follow one another in text."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text):
        while at < len(text) and text[at].isspace():
            at += 1
        if at < len(text):
            document, at = decoder.raw_decode(text, at)
            found.append(document)
    return found


def _stripped(value):
    if isinstance(value, dict):
        return {k: _stripped(v) for k, v in value.items() if k not in _VOLATILE}
    if isinstance(value, list):
        return [_stripped(v) for v in value]
    return value


def _text(value):
    return json.dumps(value, sort_keys=True)


def _dump(kind, header):
    """The payloads of the messages that the kernel answers to a dump request of rtnetlink(7)."""
    request, done, error = 0x301, 3, 2  # NLM_F_REQUEST | NLM_F_DUMP, NLMSG_DONE, NLMSG_ERROR
    found = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as asked:
        asked.send(struct.pack("=IHHII", 16 + len(header), kind, request, 1, 0) + header)
        while True:
            answer, at = asked.recv(1 << 17), 0
            while at < len(answer):
                length, what = struct.unpack_from("=IH", answer, at)
                if what == error:
                    raise OSError(-struct.unpack_from("=i", answer, at + 16)[0], "dump refused")
                if what == done:
                    return found
                found.append(answer[at + 16:at + length])
                at += length + 3 & ~3


def _links_and_routes(found):
    # One process of ip: batch mode answers several questions, of both families but for rules.
    asked = "link show\naddr show\nroute show table all\nrule show\nneigh show nud permanent\n"
    links, addresses, routes, rules, neighbours = (
        _documents(_call("ip", "-j", "-d", "-batch", "-", stdin=asked)) + [[], [], []])[:5]
    _links(found, links)
    for link in addresses:
        for address in link.get("addr_info", ()):
            place = f"{address['local']}/{address['prefixlen']} dev {link['ifname']}"
            found[f"address/{place}"] = _stripped(address)
    for route in routes:
        route["flags"] = [flag for flag in route.get("flags", ()) if flag not in _LATE_FLAGS]
        # These follow from addresses, which are compared, and IPv6 makes them when it has time to.
        if route.get("table") == "local" and route.get("protocol") == "kernel":
            continue
        family = "-6" if "pref" in route or ":" in route["dst"] + route.get("gateway", "") else "-4"
        place = "{} {} via {} dev {} table {} metric {}".format(
            route.get("type", "unicast"), route["dst"], route.get("gateway", "-"),
            route.get("dev", "-"), route.get("table", "main"), route.get("metric", 0))
        found[f"route{family}/{place}"] = _stripped(route)
    for rule in rules:
        found[f"rule-4/{_text(rule)}"] = True
    for rule in _dump(34, struct.pack("B11x", socket.AF_INET6)):  # RTM_GETRULE, struct fib_rule_hdr
        if rule[0] == socket.AF_INET6:  # without IPv6 the kernel answers with those of IPv4
            found[f"rule-6/table {rule[4]} action {rule[7]}: {rule.hex()}"] = True
    for one in neighbours:
        family = "-6" if ":" in one["dst"] else "-4"
        found[f"neighbour{family}/{one['dst']} dev {one['dev']}"] = _stripped(one)


def _links(found, links):
    for link in links:
        link["flags"] = [flag for flag in link["flags"] if flag not in _LATE_FLAGS]
        # The state of a bridge's port (forwarding, disabled) follows from its carrier.
        link.get("linkinfo", {}).get("info_slave_data", {}).pop("state", None)
        found[f"link/{link['ifname']}"] = _stripped(link)
        for sysctl in _LINK_SYSCTLS:
            _sysctl(found, sysctl.format(link["ifname"]))


def _sysctl(found, name):
    try:
        with open(f"/proc/sys/net/{name}", encoding="ascii") as file:
            found[f"sysctl/{name}"] = file.read().strip()
    except OSError:
        pass  # no IPv6, or the link has just gone


@functools.cache
def _libnftables():
    library = ctypes.CDLL("libnftables.so.1")
    library.nft_ctx_new.restype = ctypes.c_void_p
    for name in ("nft_ctx_get_output_buffer", "nft_ctx_get_error_buffer"):
        getattr(library, name).restype = ctypes.c_char_p
    return library


def _ruleset():
    """What `nft -j list ruleset` prints, by the library that nft consists of: libnftables(3)."""
    library, json_output = _libnftables(), 1 << 4  # NFT_CTX_OUTPUT_JSON
    context = ctypes.c_void_p(library.nft_ctx_new(0))  # its socket belongs to the namespace of this moment
    try:
        library.nft_ctx_buffer_output(context)
        library.nft_ctx_buffer_error(context)
        library.nft_ctx_output_set_flags(context, json_output)
        if library.nft_run_cmd_from_buffer(context, b"list ruleset") != 0:
            raise RuntimeError(f"nft list ruleset: {library.nft_ctx_get_error_buffer(context).decode()}")
        return json.loads(library.nft_ctx_get_output_buffer(context))["nftables"]
    finally:
        library.nft_ctx_free(context)


def _firewall(found):
    tables = set()
    for item in _ruleset():
        (kind, body), = item.items()
        if kind == "metainfo" or _OF_IPTABLES.search(_text(body)):
            continue  # a rule of iptables-nft is read as iptables-save prints it
        place = "/".join(str(body[k]) for k in ("family", "table", "chain", "name") if k in body)
        if kind == "table":
            tables.add((body["family"], body["name"]))
        number = sum(1 for key in found if key.startswith(f"nft/{kind}/{place}#"))
        # An element is a thing of its own: it may come and go while its set stays.
        for element in body.pop("elem", ()):
            found[f"nft/elem/{place}/{_text(_stripped(element))}"] = True
        found[f"nft/{kind}/{place}#{number}"] = _stripped(body)
    for family, save, names in (("ip", "iptables", "ip_tables_names"),
                                ("ip6", "ip6tables", "ip6_tables_names")):
        if any((family, t) in tables for t in ("nat", "filter", "mangle", "raw")):
            _saved_rules(found, f"{save}-nft")
        try:
            with open(f"/proc/net/{names}", encoding="ascii") as file:
                legacy = file.read().split()
        except OSError:
            legacy = []
        if legacy:
            _saved_rules(found, f"{save}-legacy")


def _saved_rules(found, tool):
    table = ""
    for line in _call(f"{tool}-save").splitlines():
        if line.startswith(":"):
            line = line.split(" [")[0]  # without the packet counters
        if line.startswith("*"):
            table = line[1:]
        elif not line.startswith("#") and line != "COMMIT":
            found[f"{tool}/{table}/{line}"] = True


def _files(found, roots):
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if os.path.join(folder, name) not in SOURCES)
            if folder != root:
                found[f"file{folder}/"] = "directory"
            for name in names:
                path = os.path.join(folder, name)
                try:
                    mode = os.lstat(path).st_mode
                    if folder == "/run/netns":
                        found[f"file{path}"] = "namespace"
                    elif stat.S_ISLNK(mode):
                        found[f"file{path}"] = "link to " + os.readlink(path)
                    elif not stat.S_ISREG(mode):
                        found[f"file{path}"] = "special"
                    else:
                        with open(path, "rb") as file:
                            text = file.read().decode(errors="replace")
                        found[f"file{path}"] = f"{stat.S_IMODE(mode):o}: {text}"
                except OSError as error:
                    found[f"file{path}"] = str(error)


def _only_noqueue(found):
    """Whether no link has another queue than the kernel's "noqueue", and then all of them."""
    root = 0xffffffff  # TC_H_ROOT
    links = []
    for qdisc in _dump(38, bytes(20)):  # RTM_GETQDISC, struct tcmsg; its kind is the first attribute
        link, _, parent = struct.unpack_from("=4xiII", qdisc)
        if parent != root or not qdisc[24:].startswith(b"noqueue\0"):
            return False
        links.append(link)
    found |= {f"qdisc/{socket.if_indextoname(link)} root noqueue": {} for link in links}
    return True


def _queues(found):
    if _only_noqueue(found):
        return
    for qdisc in json.loads(_call("tc", "-j", "qdisc", "show") or "[]"):
        dev, kind = qdisc["dev"], qdisc["kind"]
        found[f"qdisc/{dev} {qdisc.get('parent', 'root')} {kind}"] = _stripped(qdisc.get("options", {}))
        asked = {"clsact": ("filter show dev {} ingress", "filter show dev {} egress"),
                 "ingress": ("filter show dev {} ingress",),
                 "htb": ("filter show dev {}", "class show dev {}")}.get(kind, ())
        for what in asked:
            lines = _call("tc", *what.format(dev).split()).splitlines()
            for number, line in enumerate(lines):
                found[f"filter/{what.format(dev)}#{number}"] = _NUMBERED.sub("", line)


def _connections(found):
    try:
        with open("/proc/net/nf_conntrack", encoding="ascii") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()
        if words[2] not in ("tcp", "udp", "sctp"):
            continue  # the kernel's own, about groups
        del words[4:5]  # the seconds that are left
        found[f"connection/{' '.join(words)}"] = True


def snapshot(roots=("/var/lib/cni", "/run"), connections=False):
    """The state of the network namespace this process is in, and all files below roots. connections:
    those that the kernel tracks too."""
    found = {}
    _links_and_routes(found)
    _firewall(found)
    _queues(found)
    if connections:
        _connections(found)
    for sysctl in _SYSCTLS:
        _sysctl(found, sysctl)
    _files(found, roots)
    # A second or two after a link went up the kernel gives it a link-local address: with the link
    # it goes, and when it comes is no plugin's doing.
    return {place: what for place, what in found.items() if not _LINK_LOCAL.match(place)}


def pod_snapshot(pod, connections=False):
    """The state of a pod's network namespace."""
    with pod.inside():
        return snapshot(roots=(), connections=connections)


def diff(before, after, ignore=lambda place: False):
    """What differs, one line each; empty when nothing does."""
    lines = []
    for place in sorted(before.keys() | after.keys()):
        if ignore(place):
            continue
        if place not in after:
            lines.append(f"- {place}: {_text(before[place])}")
        elif place not in before:
            lines.append(f"+ {place}: {_text(after[place])}")
        elif before[place] != after[place]:
            lines.append(f"~ {place}: {_changes(before[place], after[place])}")
    return "\n".join(lines)


def _changes(old, new):
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return f"{_text(old)} -> {_text(new)}"
    parts = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            parts.append(f"{key}: {_changes(old.get(key), new.get(key))}")
    return "{" + ", ".join(parts) + "}"


def is_flannels_state(place):
    """What ADD that failed leaves of flannel: with it DEL undoes what the delegate left. All its calls share the lock."""
    return place.startswith("file/var/lib/cni/flannel/") or place in (
        "file/run/cni/", "file/run/cni/flannel/", "file/run/cni/flannel/lock")


def left_by_failed_add(place):
    """left_by_design() after ADD that failed."""
    return left_by_design(place) or is_flannels_state(place)


def left_by_design(place, bridge="cni0"):
    """Whether the last pod of a network leaves this behind: what pods share and what another pod
    may use already. That is the bridge with its addresses and routes, forwarding, the store of
    host-local without any lease, the ledger of devices, the directories of records without any, and the firewall's base
    chains and sets without any pod's rule or element."""
    kind, _, rest = place.partition("/")
    if kind in ("link", "sysctl", "qdisc"):
        return (bridge in rest.split()[0].split("/") or rest.endswith("/forwarding")
                or rest == "ipv4/ip_forward")
    if kind.split("-")[0] in ("address", "route", "rule", "neighbour"):
        return f"dev {bridge} " in rest + " "
    if kind == "file":
        name = os.path.basename(rest.rstrip("/"))
        if rest.startswith("run/"):
            return rest in ("run/xtables.lock", "run/cni/",
                            "run/cni/portmap/", "run/cni/portmap/lock",
                            "run/cni/flannel/", "run/cni/flannel/lock",
                            "run/cni/portmap/claims/", "run/cni/host-device/", "run/cni/host-device/lock",
                            "run/cni/tuning/", "run/cni/sbr/", "run/cni/vrf/", "run/cni/route-tables/",
                            "run/cni/route-tables/lock", "run/cni/firewall/", "run/cni/firewall/lock")
        return rest.startswith("var/lib/cni/") and (
            rest.endswith(("/", "/.owners/seen")) or name in ("lock", ".lock") or rest.startswith(("var/lib/cni/devices/", "var/lib/cni/blocks/"))
            or name.startswith("last_reserved_ip."))
    if kind == "nft" and "/except_" in rest:  # goes with the last pod that needs it
        return False
    if kind == "nft":
        return not rest.startswith(("rule/", "elem/")) or rest.startswith(
            ("rule/inet/cni_plugins_masquerade/postrouting", "rule/inet/patchbay_masquerade",
             "rule/ip/patchbay_hostport", "rule/ip6/patchbay_hostport",
             "rule/inet/patchbay_firewall", "rule/bridge/patchbay_firewall")) or _is_policy(rest)
    if kind.startswith(("iptables", "ip6tables")):
        return _shared_in_iptables(rest.split("/", 1)[1])
    return False


def _is_policy(element):
    """Whether an element of nftables is a policy of a bridge: its comment names no attachment."""
    return (element.startswith(("elem/inet/patchbay_firewall/policy_links/", "elem/inet/patchbay_firewall/same_bridge/"))
            and ", id: " not in element)


#: Of the plugin firewall: what it has of one pod are rules of CNI-FORWARD that accept.
_FIREWALL = ("CNI-FORWARD", "CNI-ADMIN", "CNI-ISOLATION-STAGE-1", "CNI-ISOLATION-STAGE-2")


def _shared_in_iptables(line):
    """Whether a line of iptables-save is a chain or rule of all pods together."""
    if line.startswith(":"):
        return not line.startswith(":CNI-") or line.startswith((":CNI-HOSTPORT-", *(f":{one}" for one in _FIREWALL)))
    words = line.split()  # -A CHAIN ... -j TARGET
    chains = words[1], words[-1]
    if any(name in _FIREWALL for name in chains):
        return words[-1] != "ACCEPT"
    return (any(name.startswith("CNI-HOSTPORT-") for name in chains)
            and not any(name.startswith(("CNI-DN-", "CNI-SN-")) for name in chains))


def netns_names():
    """The pods that are left."""
    return sorted(os.path.basename(path) for path in glob.glob("/run/netns/*"))
