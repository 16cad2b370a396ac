#!/usr/bin/env python3
"""cnitool validate names what is wrong with networks: each mistake at its line and column, all of them
at once, and nothing where all is right."""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.cnitool import environment, finish  # noqa: E402
from support.plugin import OURS, REFERENCE, ROOT, cni, has_reference  # noqa: E402
from support.snapshot import snapshot  # noqa: E402

EXAMPLES = sorted(glob.glob(os.path.join(ROOT, "conf-examples", "*.conflist")))
LINE = re.compile(r"^(?P<file>\S+?):(?P<line>\d+):(?P<column>\d+): "
                  r"(?P<severity>error|warning|note): (?P<what>.*)$")
MARK = "§"  # stands before what is to be complained about


def network(plugins, head='"cniVersion": "1.1.0", "name": "net"'):
    return "{" + head + ', "plugins": [\n  ' + plugins + "\n]}\n"


def bridge(more, ipam=', "ipam": {"type": "host-local", "subnet": "10.1.2.0/24"}'):
    return network('{"type": "bridge", ' + more + ipam + "}")


def ipam(more):
    return network('{"type": "bridge", "ipam": {"type": ' + more + "}}")


def chained(plugin):
    return network('{"type": "bridge"},\n  ' + plugin)


def two(plugin):
    return chained(plugin).replace('{"type": "bridge"}', '{"type": "bridge", "isDefaultGateway": true, '
                                   '"ipam": {"type": "host-local", "subnet": "10.1.2.0/24"}}')


# (what it shows, the text, the complaint at each mark in turn). Nothing else may be found.
TEXT = [
    ("a comma too many in an object", bridge('"mtu": 1400').replace('24"}', '24"§,}'),
     ["error: a comma before the closing '}'"]),
    ("a comma too many in a list", bridge('"vlanTrunk": [{"id": 5}§,\n ]'),
     ["error: a comma before the closing ']'"]),
    ("a comma too few", bridge('"mtu": 140§0\n   "isGateway": true'),
     ["error: a comma is missing after this"]),
    ("two commas", bridge('"mtu": 1400,§, "isGateway": true'),
     ["error: a comma with nothing before it"]),
    ("comments of three kinds", bridge('§// one\n §/* two\n */ §# three\n "mtu": 1400'),
     ["error: a comment, which JSON does not have"] * 3),
    ("a byte order mark", "§\ufeff" + bridge('"mtu": 1400'),
     ["error: a byte order mark, which runtimes reject; save the file without it"]),
    ("single quotes", bridge("\"bridge\": §'cni0'"),
     ['error: a text in single quotes; JSON has double quotes (did you mean "cni0"?)']),
    ("YAML", "§cniVersion: 1.0.0\nname: net\n", ["error: this is YAML; networks are JSON"]),
    ("YAML of several documents", "§---\nname: net\n", ["error: this is YAML; networks are JSON"]),
    ("no quotes about a key", bridge('§mtu: 1400'),
     ['error: a key without quotes: mtu (did you mean "mtu"?)']),
    ("no quotes about a text", bridge('"bridge": §cni0'),
     ['error: a text without quotes: cni0 (did you mean "cni0"?)']),
    ("a word of Python", bridge('"isGateway": §True'),
     ["error: an unknown word: True (did you mean true?)"]),
    ("a number that begins with 0", bridge('"vlan": §0100'),
     ["error: a number that begins with 0: 0100 (did you mean 100?)"]),
    ("no closing quote", bridge('"bridge": §"cni0,\n  "mtu": 1400'),
     ["error: the closing quote of this text is missing on its line"]),
    ("no closing quote of a key", bridge('§"bridge: "cni0"'),
     ["error: expected ':' after the key \"bridge: \", found 'c'; "
      "the closing quote of the key may be missing"]),
    ("no colon", bridge('§"bridge" "cni0"'),
     ["error: expected ':' after the key \"bridge\", found '\"'"]),
    ("an equals sign", bridge('§"bridge" = "cni0"'),
     ["error: expected ':' after the key \"bridge\", found '='"]),
    ("no value", bridge('"bridge": §, "mtu": 1400'), ["error: expected a value, found ','"]),
    ("the wrong bracket", bridge('"vlanTrunk": [{"id": 5}§}'),
     ["error: expected ']' for the '[' of line 2, found '}'"]),
    ("a bracket that is never closed", '{"name": "net", "plugins": §[\n{"type": "bridge"}\n',
     ["error: the '[' is never closed with ']'"]),
    ("more after the end", bridge('"mtu": 1400') + "§}",
     ["error: expected the end of the file, found '}'"]),
    ("nothing", "§", ["error: the file is empty"]),
    ("an escape that there is not", bridge(r'"bridge": §"a\d"'),
     [r"error: an escape that JSON does not have (it has \" \\ \/ \b \f \n \r \t \uXXXX)"]),
    ("a key twice", bridge('"mtu": 1400,\n  §"mtu": 1500'),
     ["error: duplicate key, first in line 2; the last value is used"]),
    ("a key in two ways to write it", bridge('"isGateway": true, §"ISGATEWAY": false'),
     ["error: duplicate key, first as 'isGateway' in line 2; the last value is used"]),
]
NAME = ("a name of letters, digits, '_', '.' and '-' that begins with a letter or digit")
VERSIONS = '"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0" or "1.1.0"'
LIST = [
    ("a list that is none", "§[]", ["error: expected a JSON object"]),
    ("an unknown version", network('{"type": "bridge"}', '"cniVersion": §"1.1", "name": "net"'),
     [f'error: cniVersion: expected {VERSIONS}: "1.1"']),
    ("a version of the future", network('{"type": "bridge"}', '"cniVersion": §"1.2.0", "name": "net"'),
     [f'error: cniVersion: expected {VERSIONS}: "1.2.0" (did you mean "1.1.0"?)']),
    ("versions, none of which is known",
     network('{"type": "bridge"}', '"cniVersions": §["9.0.0"], "name": "net"'),
     ["error: cniVersions: no supported version of the spec"]),
    ("no version", network('{"type": "bridge"}', '"name": "net"').replace("{", "§{", 1),
     ["warning: cniVersion: the key is missing, which means 0.1.0: no CHECK, one address of each "
      "family"]),
    ("a bad name", network('{"type": "bridge"}', '"cniVersion": "1.0.0", "name": §"my net"'),
     [f'error: name: expected {NAME}: "my net"']),
    ("no name", network('{"type": "bridge"}', '"cniVersion": "1.0.0"').replace("{", "§{", 1),
     [f"error: name: expected {NAME}: the key is missing"]),
    ("a misspelt list", bridge('"mtu": §10').replace('"plugins"', '§"plugin"'),
     ["error: plugin: unknown key (did you mean plugins?)",
      "error: plugins[0].mtu: expected 0 (the kernel's default) or 68 to 65535: 10"]),
    ("no list", '§{"cniVersion": "1.0.0", "name": "net"}',
     ["error: plugins: expected a list of plugins: the key is missing"]),
    ("an empty list", '{"cniVersion": "1.0.0", "name": "net", "plugins": §[]}',
     ["error: plugins: no plugins in list"]),
    ("a plugin that is no object", network('{"type": "bridge"}, §"portmap"'),
     ['error: plugins[1]: expected a plugin\'s config, an object: "portmap"']),
    ("flags that are none",
     network('{"type": "bridge"}', '"cniVersion": "1.1.0", "name": "net", "disableCheck": §"yes", '
             '"disableGC": §1, "loadOnlyInlinedPlugins": "true"'),
     ['error: disableCheck: expected true or false: "yes" (did you mean true?)',
      "error: disableGC: expected true or false: 1 (did you mean true?)"]),
    ("a misspelt flag",
     network('{"type": "bridge"}', '"cniVersion": "1.1.0", "name": "net", §"disableChek": true'),
     ["error: disableChek: unknown key (did you mean disableCheck?)"]),
    ("a plugin's key beside the plugins",
     network('{"type": "bridge"}', '"cniVersion": "1.1.0", "name": "net", §"isGateway": true'),
     ["warning: isGateway: no key of a list: runtimes pass it to no plugin"]),
    ("no type", network('§{"bridge": "cni0"}'),
     ["error: plugins[0].type: expected the name of a plugin's executable, without a slash: "
      "the key is missing"]),
    ("a misspelt type", network('{§"typ": "bridge", "mtu": §1}'),
     ["error: plugins[0].typ: unknown key (did you mean type?)",
      "error: plugins[0].mtu: expected 0 (the kernel's default) or 68 to 65535: 1"]),
    ("a path for a type", network('{"type": §"../bridge"}'),
     ["error: plugins[0].type: expected the name of a plugin's executable, without a slash: "
      '"../bridge"']),
    ("one plugin's config as a list", '{"cniVersion": "1.0.0", "name": "net", §"type": "bridge"}',
     ['error: type: the config of one plugin; a *.conflist has a list of them: {"name": ..., '
      '"plugins": [{"type": ...}]}']),
]
KEYS = [
    ("a misspelt key and its value", bridge('§"isGatway": §"yes"'),
     ["error: plugins[0].isGatway: unknown key (did you mean isGateway?)",
      'error: plugins[0].isGateway: expected true or false: "yes" (did you mean true?)']),
    ("a key that is unknown here", bridge('§"colour": 1'),
     ["warning: plugins[0].colour: unknown key"]),
    ("keys of published configs that no plugin reads",
     bridge('§"mode": "l2", §"addIf": "true", §"Documentation": "https://example.org"'),
     ["warning: plugins[0].mode: unknown key", "warning: plugins[0].addIf: unknown key",
      "warning: plugins[0].Documentation: unknown key"]),
    ("a key of portmap of long ago",
     chained('{"type": "portmap", "capabilities": {"portMappings": true}, §"noSnat": "yes"}'),
     ["warning: plugins[1].noSnat: unknown key"]),
    ("a key that stands elsewhere", bridge('§"subnet": "10.1.2.0/24"'),
     ["error: plugins[0].subnet: unknown key (did you mean ipam.subnet?)"]),
    ("a key that the runtime hands over", chained('{"type": §"portmap", §"portMappings": []}'),
     ['warning: plugins[1].type: the runtime hands over no ports without "capabilities": {"portMappings": true}',
      'error: plugins[1].portMappings: unknown key (did you mean "capabilities": {"portMappings": true}?)']),
    ("a rate with a unit", chained('{"type": "bandwidth", "ingressRate": §"10M", "ingressBurst": 100000}'),
     ['error: plugins[1].ingressRate: expected 0 or at least 8 bits per second: "10M" (did you mean 10000000?)']),
    ("a rate as tc(8) takes it", chained('{"type": "bandwidth", "egressRate": §"1gbit", "egressBurst": 100000}'),
     ['error: plugins[1].egressRate: expected 0 or at least 8 bits per second: "1gbit" (did you mean 1000000000?)']),
    ("the name of an IPAM plugin alone", network('{"type": "bridge", "ipam": §"host-local"}'),
     ['error: plugins[0].ipam: expected an object: "host-local" (did you mean {"type":"host-local"}?)']),
    ("a wrong type, deep in a list", bridge('"vlanTrunk": [{"id": 5}, {"id": §"6"}]'),
     ['error: plugins[0].vlanTrunk[1].id: expected an integer from 1 to 4094: "6" '
      "(did you mean 6?)"]),
    ("a wrong word", bridge('"ipMasqBackend": §"nft"'),
     ['error: plugins[0].ipMasqBackend: expected "nftables" or "iptables": "nft"']),
    ("a plugin that is not there", network('{"type": §"brigde"}'),
     ['error: plugins[0].type: failed to find plugin "brigde" in path [BIN] (did you mean bridge?)']),
    ("a capability that nobody has", bridge('"capabilities": {"ips": true, §"mak": true}'),
     ["warning: plugins[0].capabilities.mak: no capability of bridge, which has mac, ipRanges, ips "
      "(did you mean mac?)"]),
    ("a capability that portmap has not",
     chained('{"type": "portmap", "capabilities": {"portMappings": true, §"ips": true}}'),
     ["warning: plugins[1].capabilities.ips: no capability of portmap, which has portMappings"]),
    ("capabilities of runtimes that portmap has not",
     chained('{"type": "portmap", "capabilities": {"portMappings": true, §"dns": true, §"aliases": true, '
             '§"io.kubernetes.cri.pod-annotations": true}}'),
     [f"warning: plugins[1].capabilities.{name}: no capability of portmap, which has portMappings"
      for name in ("dns", "aliases", "io.kubernetes.cri.pod-annotations")]),
    ("capabilities of runtimes that neither bridge nor its IPAM plugin has",
     bridge('"capabilities": {"ips": true, §"dns": true}'),
     ["warning: plugins[0].capabilities.dns: no capability of bridge, which has mac, ipRanges, ips"]),
    ("a static gateway alone where the runtime gives the address",
     ipam('"static", "addresses": [§{"gateway": "10.1.2.1"}]').replace(
         '{"type": "bridge"', '{"type": "bridge", "capabilities": {"ips": true}'),
     ["warning: plugins[0].ipam.addresses[0].address: expected an address with prefix length (CIDR "
      "notation, for example 10.1.2.0/24): the key is missing"]),
    ("a route without a next hop, as dhcp and old configs write it",
     ipam('"host-local", "subnet": "10.1.2.0/24", "routes": [{"dst": "0.0.0.0/0", "gw": "0.0.0.0"}]'), []),
    ("an IPAM plugin that is not there", ipam('§"hostlocal"'),
     ['error: plugins[0].ipam.type: failed to find plugin "hostlocal" in path [BIN] '
      "(did you mean host-local?)"]),
    ("an IPAM plugin that is none", ipam('§"bridge"'),
     ["error: plugins[0].ipam.type: 'bridge' is not an IPAM plugin; IPAM plugins give addresses, as host-local, static "
      "and dhcp do"]),
    ("a misspelt key of the IPAM plugin", ipam('"host-local", §"subnett": "10.1.2.0/24"'),
     ["error: plugins[0].ipam.subnett: unknown key (did you mean subnet?)"]),
    ("a subnet that is none", ipam('"host-local", "ranges": [[{"subnet": §"10.1.2.0"}]]'),
     ["error: plugins[0].ipam.ranges[0][0].subnet: expected an address with prefix length (CIDR "
      'notation, for example 10.1.2.0/24): "10.1.2.0"']),
    ("a required key that is missing", ipam('"static", "addresses": [§{"gateway": "10.1.2.1"}]'),
     ["error: plugins[0].ipam.addresses[0].address: expected an address with prefix length (CIDR "
      "notation, for example 10.1.2.0/24): the key is missing"]),
]
PARSERS = [
    ("host bits in a subnet", ipam('"host-local", "ranges": [[{"subnet": §"10.1.2.3/24"}]]'),
     ["error: plugins[0].ipam.ranges[0][0].subnet: invalid range set 0: Network has host bits set. For a "
      "subnet mask of length 24 the network address is 10.1.2.0: \"10.1.2.3/24\""]),
    *((f"a bad subnet of {plugin}, which is one mistake",
       ipam(f'"{plugin}", "subnet": §"10.1.2.3/24", "rangeStart": "10.1.2.5", "rangeEnd": "10.1.2.9", "gateway": "10.1.2.1"'),
       ["error: plugins[0].ipam.subnet: invalid range set 0: Network has host bits set. For a subnet mask of length 24 the network "
        'address is 10.1.2.0: "10.1.2.3/24"']) for plugin in ("host-local", "cluster-pool")),
    ("a bad subnet in ranges, which is one mistake",
     ipam('"cluster-pool", "ranges": [[{"subnet": §"10.1.2.3/24", "rangeStart": "10.1.2.5"}]]'),
     ["error: plugins[0].ipam.ranges[0][0].subnet: invalid range set 0: Network has host bits set. For a subnet mask of length 24 the "
      'network address is 10.1.2.0: "10.1.2.3/24"']),
    ("a range outside of its subnet",
     ipam('"host-local", "ranges": [[{"subnet": "10.1.2.0/24", "rangeEnd": §"10.1.3.9"}]]'),
     ["error: plugins[0].ipam.ranges[0][0].rangeEnd: invalid range set 0: RangeEnd 10.1.3.9 not in network "
      "10.1.2.0/24"]),
    ("two ranges that overlap",
     network('{"type": "bridge", "ipam": §{"type": "host-local", "ranges": '
             '[[{"subnet": "10.1.2.0/24"}], [{"subnet": "10.1.2.0/25"}]]}}'),
     ["error: plugins[0].ipam: range set 0 overlaps with 1; 10.1.2.1-10.1.2.254 and "
      "10.1.2.1-10.1.2.126"]),
    ("no ranges", network('{"type": "bridge", "ipam": §{"type": "host-local"}}'),
     ["error: plugins[0].ipam.ranges: no IP ranges specified: expected a range, here or in ipam.subnet"]),
    ("two contradictions of one plugin",
     bridge('"hairpinMode": true, "promiscMode": §true, "bridge": "abcdefghijkl", "vlan": 100, '
            '"isGateway": true').replace('"abc', '§"abc'),
     ["error: plugins[0].promiscMode: cannot set hairpin mode and promiscuous mode at the same time: "
      "true",
      "error: plugins[0].bridge: too long for the VLAN's gateway link 'abcdefghijkl.100', expected at "
      'most 15 bytes: "abcdefghijkl"']),
    ("options of two backends",
     chained('§{"type": "portmap", "capabilities": {"portMappings": true}, '
             '"externalSetMarkChain": "X", "conditionsV4": ["ip saddr 192.0.2.1"]}'),
     ["error: plugins[1]: failed to parse config: iptables backend was requested but configuration contains "
      "nftables-specific options [conditionsV4]; iptables because of externalSetMarkChain"]),
    ("a rate without a burst",
     chained('{"type": "bandwidth", "ingressRate": §8000}'),
     ["error: plugins[1].ingressRate: if rate is set, burst must also be set: 8000"]),
    ("a chained plugin that is the first",
     network('§{"type": "portmap", "capabilities": {"portMappings": true}}'),
     ["error: plugins[0]: must be called as chained plugin; no prevResult: portmap follows the plugin that assigns "
      "the pod's addresses"]),
    ("firewall as the first", network('§{"type": "firewall"}'),
     ["error: plugins[0]: missing prevResult from earlier plugin; firewall follows the plugin that assigns the pod's "
      "addresses"]),
    ("firewall with another policy", chained('{"type": "firewall", "ingressPolicy": §"closed"}'),
     ['error: plugins[1].ingressPolicy: expected "open", "same-bridge" or "isolated": "closed"']),
    ("a chained plugin before the one that creates the interface",
     network('{"type": "loopback"}, {"type": §"firewall"}, {"type": "bridge"}'),
     ["error: plugins[1].type: firewall comes before plugins[2].type, which creates the interface: ADD finds no "
      "interface"]),
    ("two addresses of a family in 0.2.0",
     ipam('"static", "addresses": [{"address": "10.1.2.3/24"}, {"address": "10.1.2.4/24"}]')
     .replace("1.1.0", "0.2.0").replace('"ipam": {', '"ipam": §{'),
     ["error: plugins[0].ipam: CNI version 0.2.0 does not support more than 1 address per family"]),
]
REGRETS = [
    ("portmap without its capability", chained('{"type": §"portmap"}'),
     ['warning: plugins[1].type: the runtime hands over no ports without "capabilities": '
      '{"portMappings": true}']),
    ("a policy after a plugin whose traffic does not pass the node",
     network('{"type": "macvlan", "master": "eth0"}, {"type": "firewall", "ingressPolicy": §"isolated"}'),
     ["warning: plugins[1].ingressPolicy: has no bridge after macvlan: ADD fails, because the node does not forward "
      "the pods' traffic"]),
    ("bandwidth without anything to limit", chained('{"type": §"bandwidth"}'),
     ['warning: plugins[1].type: no limits: neither rates nor "capabilities": {"bandwidth": true} '
      "are given"]),
    ("a gateway outside of the subnet",
     ipam('"host-local", "subnet": "10.1.2.0/24", "gateway": §"10.2.2.1"'),
     ["warning: plugins[0].ipam.gateway: the gateway 10.2.2.1 is not in the subnet 10.1.2.0/24"]),
    ("a gateway outside of a static address's subnet",
     ipam('"static", "addresses": [{"address": "10.1.2.3/24", "gateway": §"10.1.3.1"}]'),
     ["warning: plugins[0].ipam.addresses[0].gateway: the gateway 10.1.3.1 is not in the subnet "
      "10.1.2.0/24"]),
    ("a link-local gateway", ipam('"host-local", "subnet": "2001:db8::/64", "gateway": "fe80::1"'), []),
    ("a next hop that is nowhere",
     ipam('"host-local", "subnet": "10.1.2.0/24", "routes": [{"dst": "0.0.0.0/0", "gw": §"10.9.0.1"}]'),
     ["warning: plugins[0].ipam.routes[0].gw: the next hop 10.9.0.1 is in no subnet of the pod"]),
    ("a route to the pod's own subnet by its gateway",
     ipam('"host-local", "subnet": "10.1.2.0/24", "routes": [{"dst": "10.1.2.0/24", "gw": §"10.1.2.1"}, '
          '{"dst": "10.1.2.0/24", "gw": "10.1.2.1", "priority": 50}, {"dst": "10.1.2.0/25", "gw": "10.1.2.1"}]'),
     ["warning: plugins[0].ipam.routes[0].gw: leads to 10.1.2.0/24 by a gateway, but that is the pod's own subnet, which is "
      "on its link"]),
    ("static addresses that no host can have",
     ipam('"static", "addresses": [{"address": §"10.1.2.0/24"}, {"address": §"10.1.2.255/24"}, {"address": "10.1.2.0/31"}, '
          '{"address": "10.1.2.0/32"}, {"address": §"2001:db8::/64"}, {"address": "2001:db8::ffff:ffff:ffff:ffff/64"}]'),
     ["warning: plugins[0].ipam.addresses[0].address: is the network's own address of 10.1.2.0/24: no host can have it",
      "warning: plugins[0].ipam.addresses[1].address: is the broadcast address of 10.1.2.0/24: no host can have it",
      "warning: plugins[0].ipam.addresses[4].address: is the network's own address of 2001:db8::/64: no host can have it"]),
    ("IPv6 that is disabled behind its addresses", network(
        '{"type": "bridge", "ipam": {"type": "host-local", "subnet": "2001:db8::/64"}}, '
        '{"type": "tuning", "sysctl": §{"net.ipv6.conf.IFNAME.disable_ipv6": "1"}}, '
        '{"type": "tuning", "sysctl": {"net.ipv6.conf.default.disable_ipv6": "1", "net.ipv6.conf.all.disable_ipv6": "0"}}'),
     ["warning: plugins[1].sysctl: disable_ipv6 removes the addresses of plugins[0].ipam.subnet from the interface"]),
    ("another MAC address than that of the DHCP lease", network(
        '{"type": "macvlan", "master": "eth0", "ipam": {"type": "dhcp"}}, {"type": §"tuning", "mac": "02:00:00:00:00:07"}'),
     ["warning: plugins[1].type: changes the MAC address for which plugins[0].ipam has got a lease: a DHCP server that knows "
      "clients by their MAC address does not renew it"]),
    ("no addresses", network('{"type": "bridge", "ipam": §{"type": "static"}}'),
     ["warning: plugins[0].ipam: no addresses: ADD fails unless CNI_ARGS or args give some"]),
    ("an IPAM config without a type", bridge('"mtu": 1400', ', "ipam": §{"subnet": "10.1.2.0/24"}'),
     ['warning: plugins[0].ipam: without "type" no IPAM plugin reads it: the pod gets no addresses']),
    ("a gateway without addresses", bridge('"isGateway": §true', ""),
     ['warning: plugins[0].isGateway: has no effect without "ipam": there are no addresses']),
    ("masquerading by a bridge that is no gateway", bridge('"ipMasq": §true'),
     ["warning: plugins[0].ipMasq: the node is no gateway of the pods without isGateway or isDefaultGateway: it "
      "masquerades nothing"]),
    ("masquerading of pods without a route", bridge('"isGateway": true, "ipMasq": §true'),
     ['warning: plugins[0].ipMasq: pods have no route to other networks: "routes": [{"dst": "0.0.0.0/0"}] in "ipam" gives '
      'them one, and so does "isDefaultGateway": true']),
    ("masquerading of pods of ptp without a route",
     network('{"type": "ptp", "ipMasq": §true, "ipam": {"type": "host-local", "subnet": "10.1.2.0/24"}}'),
     ['warning: plugins[0].ipMasq: pods have no route to other networks: "routes": [{"dst": "0.0.0.0/0"}] in "ipam" gives '
      'them one']),
    ("two default gateways",
     two('{"type": §"bridge", "bridge": "cni1", "isDefaultGateway": §true, '
         '"ipam": {"type": "host-local", "subnet": "10.1.3.0/24"}}'),
     ["error: plugins[1].type: a second plugin that creates the container interface, after "
      "plugins[0].type: ADD fails, because the interface exists",
      "warning: plugins[1].isDefaultGateway: a second default gateway, after "
      "plugins[0].isDefaultGateway"]),
    ("tuning before the plugin that creates the interface",
     network('{"type": "loopback"},\n{"type": §"tuning", "mtu": 1400},\n{"type": "bridge"}'),
     ["error: plugins[1].type: tuning comes before plugins[2].type, which creates the interface: ADD finds no "
      "interface"]),
    ("two VRFs", network('{"type": "bridge"},\n{"type": "vrf", "vrfname": "a"},\n{"type": §"vrf", "vrfname": "b"}'),
     ["error: plugins[2].type: a second VRF for the interface, after plugins[1].type: ADD fails, because an "
      "interface is in one VRF"]),
    ("sbr in a VRF", network('{"type": "bridge"},\n{"type": "sbr"},\n{"type": §"vrf", "vrfname": "a"}'),
     ["warning: plugins[2].type: sbr has no effect on an interface in a VRF, whose routing table decides; see "
      "plugins[1].type"]),
    ("a VRF and sbr", network('{"type": "bridge"},\n{"type": "vrf", "vrfname": "a"},\n{"type": §"sbr"}'),
     ["warning: plugins[2].type: sbr has no effect on an interface in a VRF, whose routing table decides; see "
      "plugins[1].type"]),
    ("a MAC address of tuning where macspoofchk looks",
     network('{"type": "bridge", "macspoofchk": true, "ipam": {"type": "host-local", "subnet": "10.1.2.0/24"}},\n'
             '{"type": §"tuning", "mac": "02:00:5e:10:20:30"}'),
     ["warning: plugins[1].type: with plugins[0].macspoofchk the frames of a pod whose MAC address tuning changes are "
      'dropped: let bridge set it, by "capabilities": {"mac": true}']),
]
ALL = TEXT + LIST + KEYS + PARSERS + REGRETS


def without_marks(text):
    """The text, and the line and column of each mark: counted here, not by the tool."""
    places, out, line, column = [], "", 1, 1
    for char in text:
        if char == MARK:
            places.append((line, column))
            continue
        out += char
        line, column = (line + 1, 1) if char == "\n" else (line, column + 1)
    return out, places


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def validate(*arguments, stdin=None, **env):
    process = subprocess.Popen([os.path.join(OURS, "cnitool"), "validate", *arguments],
                               env=environment(**env), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if stdin is not None:
        process.stdin.write(stdin)
    process.stdin.close()
    process.stdin = None
    return finish(process)


class Validate(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="patchbay-validate-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def found(self, *arguments, status=1, **options):
        """[(line, column, "severity: message")], the tool having ended with status."""
        got = validate(*arguments, **options)
        self.assertEqual((got.status, got.stderr), (status, ""), str(got))
        return [(int(m["line"]), int(m["column"]), f'{m["severity"]}: {m["what"]}')
                for m in map(LINE.match, got.stdout.splitlines()) if m]

    def assert_clean(self, *files, **options):
        self.assertEqual(self.found("--strict", *files, status=0, **options), [])

    def plugin(self, name, script):
        """The directories of plugins, with one more plugin in them: a shell script."""
        path = write(self.folder, f"bin/{name}", "#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        return f"{OURS}:{os.path.dirname(path)}"


@suite.spread
class Mistakes(Validate):
    @suite.cases([(name, (text, said)) for name, text, said in ALL])
    def is_found_where_it_stands(self, row):
        text, said = row
        text, places = without_marks(text)
        path = write(self.folder, "a.conflist", text)
        expected = [(*place, what.replace("BIN", OURS)) for place, what in zip(places, said)]
        self.assertEqual(len(places), len(said), "the test itself")
        failed = any(what.startswith("error") for _, _, what in expected)
        self.assertEqual(self.found(path, status=1 if failed else 0), sorted(expected))


class Output(Validate):
    def test_all_mistakes_of_a_file_are_said_at_once_in_the_order_of_their_places(self):
        # Every mistake that does not end the text, one plugin after the other.
        plugins, said = [], []
        for _, text, complaints in KEYS + PARSERS[:5]:
            body = text[text.index("\n") + 1:text.rindex("\n]}")].strip()
            if body.startswith('{"type": "bridge"},'):
                body = body.split("\n", 1)[1].strip()
            if "0.2.0" not in text:
                number = len(plugins)
                plugins.append(body)
                said += [re.sub(r"plugins\[[01]\]", f"plugins[{number}]", one).replace("BIN", OURS)
                         for one in complaints]
        text, places = without_marks(network(",\n  ".join(plugins)))
        found = self.found(write(self.folder, "a.conflist", text))
        more = "a second plugin that creates the container interface"
        found = [one for one in found if more not in one[2]]
        self.assertGreaterEqual(len(said), 20)
        self.assertEqual(found, sorted((*place, what) for place, what in zip(places, said)))

    def test_below_each_its_line_is_shown_with_the_place_marked(self):
        path = write(self.folder, "a.conflist", bridge('\t"mtü": 1, "isGatway":\ttrue'))
        got = validate(path)
        said, excerpt, marks, last = got.stdout.splitlines()[3:]
        self.assertIn(":2:33: error: plugins[0].isGatway: unknown key (did you mean isGateway?)", said)
        # Tabs are as wide in both lines, and a letter of two bytes is one.
        excerpt, marks = excerpt.expandtabs(), marks.expandtabs()
        self.assertEqual(excerpt[marks.index("^"):len(marks)], '"isGatway"')
        self.assertEqual(marks.strip(), "^~~~~~~~~~")
        self.assertEqual(last, "1 file: 1 error, 1 warning")

    def test_a_long_line_is_cut_about_the_place(self):
        one_line = json.dumps(json.loads(bridge('"mtu": 1400'))).replace(
            '"bridge",', '"bridge",' + " " * 500 + '"isGatway": true,')
        got = validate(write(self.folder, "a.conflist", one_line))
        _, excerpt, marks = got.stdout.splitlines()[:3]
        self.assertLess(len(excerpt), 110)
        place = marks.index("^")
        self.assertEqual(excerpt[place:place + 10], '"isGatway"')

    def test_programs_get_a_list_of_objects(self):
        path = write(self.folder, "a.conflist", bridge('"isGatway": true'))
        got = validate("--json", path)
        self.assertEqual(got.status, 1)
        self.assertEqual(got.json, [{
            "file": path, "line": 2, "column": 22, "severity": "error",
            "path": "plugins[0].isGatway", "message": "unknown key", "suggestion": "isGateway"}])
        got = validate("--json", EXAMPLES[0])
        self.assertEqual((got.status, got.json), (0, []))

    def test_a_warning_is_no_failure_unless_it_is_strict(self):
        path = write(self.folder, "a.conflist", chained('{"type": "portmap"}'))
        self.assertEqual(len(self.found(path, status=0)), 1)
        self.assertEqual(len(self.found("--strict", path, status=1)), 1)

    def test_stdin_is_a_list_or_one_plugin(self):
        text, _ = without_marks(bridge('"mtu": 1'))
        self.assertEqual(self.found("-", stdin=text)[0][2],
                         "error: plugins[0].mtu: expected 0 (the kernel's default) or 68 to 65535: 1")
        one = '{"cniVersion": "1.0.0", "name": "n", "type": "bridge", "mtu": 1}'
        self.assertEqual(self.found("-", stdin=one)[0][2],
                         "error: mtu: expected 0 (the kernel's default) or 68 to 65535: 1")

    def test_files_that_no_runtime_reads_are_named_once(self):
        write(self.folder, "a.conflist", bridge('"mtu": 1400'))
        for name in ("b.yaml", "c.conflist.bak", "README"):
            write(self.folder, name, "")
        os.mkdir(os.path.join(self.folder, "d.conflist"))
        got = validate("--strict", self.folder)
        self.assertEqual((got.status, got.stdout), (0, (
            f"{self.folder}: note: not read, because only files *.conflist, *.conf and *.json are: "
            "b.yaml, c.conflist.bak, d.conflist/\n1 file: 0 errors, 0 warnings\n")))

    def test_a_fifo_is_an_error_and_not_waited_for(self):
        os.mkfifo(fifo := os.path.join(self.folder, "a.conflist"))
        for name in (fifo, self.folder):
            got = validate(name)
            self.assertEqual(got.status, 1, str(got))
            self.assertIn(f"{fifo}: error: read '{fifo}', which is not a regular file: ", got.stdout)

    def test_the_examples_do_not_overlap(self):
        self.assert_clean(*EXAMPLES)

    def test_two_default_routes_of_one_pod_are_warned_of_where_it_is_to_have_both(self):
        def one(name, keys, routes='{"dst": "0.0.0.0/0"}', more=""):
            number = ord(name)
            return write(self.folder, f"{name}.conflist", network(
                f'{{"type": "macvlan", "master": "eth1"{keys},\n"ipam": {{"type": "host-local", "subnet": '
                f'"10.{number}.0.0/24", "routes": [{routes}]}}}}{more}', f'"cniVersion": "1.1.0", "name": "{name}"'))

        a, b = one("a", ""), one("b", "")
        self.assertEqual(self.found(a, b, status=0), [])
        (_, _, said), = self.found("--one-pod", a, b, status=0)
        self.assertIn("warning: plugins[0].ipam.routes[0].dst: a second default route for IPv4, after that of network",
                      said)
        self.assertIn('"ignoreDefaultRoute": true', said)
        for other in (one("c", ', "ignoreDefaultRoute": true'), one("d", "", '{"dst": "0.0.0.0/0", "priority": 9}'),
                      one("e", "", '{"dst": "0.0.0.0/0", "table": 9}'), one("f", "", more=', {"type": "sbr"}')):
            self.assertEqual(self.found("--one-pod", "--strict", a, other, status=0), [], other)

    def test_gateways_that_are_on_the_link_are_no_mistake(self):
        for routes in ('{"dst": "0.0.0.0/0"}', '{"dst": "0.0.0.0/0", "gw": "172.31.1.1"}'):
            self.assert_clean(write(self.folder, "a.conflist", network(
                '{"type": "macvlan", "master": "eth1", "ipam": {"type": "static", "addresses": [{"address": '
                f'"192.0.2.7/32", "gateway": "172.31.1.1"}}], "routes": [{routes}]}}}}')))

    def test_a_file_that_is_not_there(self):
        got = validate("/none.conflist")
        self.assertEqual(got.status, 1)
        self.assertIn("/none.conflist: error: no such file or directory\n", got.stdout)


class Files(Validate):
    def test_a_single_plugin_stands_in_a_file_of_another_name(self):
        one = '{"cniVersion": "1.0.0", "name": "n", "type": "loopback"}'
        self.assert_clean(write(self.folder, "a.conf", one))
        found = self.found(write(self.folder, "b.conf", network('{"type": "bridge"}')))
        self.assertEqual(found[0][2], "error: plugins: a list of plugins stands in a file *.conflist, "
                         "this is read as one plugin")

    def test_plugins_from_the_directory_beside_a_list_are_plugins_of_it(self):
        path = write(self.folder, "a.conflist", network('{"type": "bridge"}'))
        more = write(self.folder, "net/10-portmap.conf", '{"type": "portmap",\n "snat": 1}')
        got = validate(path)
        self.assertIn(f"{more}:2:10: error: snat: expected true or false: 1", got.stdout)
        self.assertNotIn("chained", got.stdout)

    def test_a_directory_is_all_of_its_networks(self):
        write(self.folder, "net.d/10-a.conflist", bridge('"bridge": "a", "isGateway": true').replace('"net"', '"a"'))
        write(self.folder, "net.d/20-b.conf", '{"cniVersion": "1.0.0", "name": "b", "type": "bridge", "isGateway": true, '
              '"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/16"}]]}}')
        write(self.folder, "net.d/30-c.json", '{"cniVersion": "1.0.0", "name": "a", "type": "bridge"}')
        write(self.folder, "net.d/README", "no network")
        folder = os.path.join(self.folder, "net.d")
        self.assertEqual([what for _, _, what in self.found(folder, status=0)], [
            f"warning: ipam.ranges[0][0].subnet: overlaps with 10.1.2.0/24 of network a in "
            f"{folder}/10-a.conflist:2: both may allocate 10.1.2.2-10.1.2.254, because their "
            "leases are separate",
            f"warning: name: duplicate network name, first in {folder}/10-a.conflist:1: "
            "runtimes use that one"])
        # The directory of networks is what is looked at where nothing is named.
        self.assertEqual(self.found(status=0, NETCONFPATH=folder), self.found(folder, status=0))

    def test_networks_that_share_what_they_gave_may_share_a_subnet(self):
        for name in ("a", "b"):
            write(self.folder, f"{name}/x.conflist", bridge('"mtu": 1400'))
        found = self.found(f"{self.folder}/a/x.conflist", f"{self.folder}/b/x.conflist", status=0)
        self.assertEqual([what.split(":")[1] for _, _, what in found], [" name"])

    def test_an_empty_directory_has_no_networks(self):
        got = validate(self.folder)
        self.assertEqual(got.status, 0)
        self.assertIn("warning: no networks", got.stdout)


@suite.spread
class Right(Validate):
    @suite.cases([(os.path.basename(path), path) for path in EXAMPLES])
    def is_accepted(self, path):
        if '"ptp"' in open(path, encoding="utf-8").read() and not has_reference("ptp"):
            self.skipTest("there is no plugin ptp")
        got = validate("--strict", path, CNI_PATH=f"{OURS}:{REFERENCE}")
        self.assertEqual((got.status, got.stderr), (0, ""), str(got))
        self.assertTrue(got.stdout.endswith("1 file: 0 errors, 0 warnings\n"), got.stdout)

    # A main plugin of others with keys of its own, and what Kubernetes needs chained after it: see
    # https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/network-plugins/
    @suite.cases([
        ("portmap", {"type": "portmap", "capabilities": {"portMappings": True},
                     "externalSetMarkChain": "KUBE-MARK-MASQ"}),
        ("bandwidth", {"type": "bandwidth", "capabilities": {"bandwidth": True}})])
    def after_a_plugin_of_others_is_accepted(self, chained_plugin):
        path = self.plugin("calico", 'echo \'{"cniVersion": "1.0.0", '
                           '"supportedVersions": ["0.3.1", "0.4.0", "1.0.0"]}\'\n')
        calico = {"type": "calico", "log_level": "warning", "datastore_type": "kubernetes",
                  "nodename": "node1", "mtu": 1440, "policy": {"type": "k8s"},
                  "ipam": {"type": "host-local", "subnet": "usePodCidr"},
                  "kubernetes": {"kubeconfig": "/etc/cni/net.d/kubeconfig"}}
        conflist = write(self.folder, "10-calico.conflist", json.dumps(
            {"name": "pods", "cniVersion": "0.4.0", "plugins": [calico, chained_plugin]}, indent=2))
        found = self.found("--strict", conflist, status=0, CNI_PATH=path)
        self.assertEqual([what for _, _, what in found], [
            "note: plugins[0].type: plugin calico does not describe its keys: only those of the spec "
            "are checked"])
        # The keys of the spec are checked all the same.
        calico["capabilities"] = {"portMappings": "yes"}
        write(self.folder, "10-calico.conflist", json.dumps(
            {"name": "pods", "cniVersion": "1.1.0", "plugins": [calico, chained_plugin]}, indent=2))
        self.assertEqual([what for _, _, what in self.found(conflist, CNI_PATH=path)], [
            "error: plugins[0].type: plugin calico does not support cniVersion 1.1.0, it supports "
            "0.3.1, 0.4.0, 1.0.0",
            'error: plugins[0].capabilities.portMappings: expected true or false: "yes" '
            "(did you mean true?)"])

    def test_ranges_that_the_runtime_is_to_give_are_not_missed(self):
        self.assert_clean(write(self.folder, "a.conflist", bridge(
            '"capabilities": {"ipRanges": true}', ', "ipam": {"type": "host-local"}')))

    def test_what_podman_writes_is_accepted(self):
        self.assert_clean(write(self.folder, "a.conflist", network(
            '{"type": "bridge", "bridge": "cni-podman1", "isGateway": true, "ipMasq": true, '
            '"hairpinMode": true, "ipam": {"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}], '
            '"ranges": [[{"subnet": "10.89.0.0/24", "gateway": "10.89.0.1"}]]}, '
            '"capabilities": {"ips": true}},\n'
            '{"type": "portmap", "capabilities": {"portMappings": true}}',
            '"args": {"podman_labels": {"a": "b"}}, "cniVersion": "0.4.0", "name": "net"')))


class Plugins(Validate):
    def test_a_plugin_of_the_reference_that_cannot_be_the_first(self):
        if not has_reference("tuning"):
            self.skipTest("there is no plugin tuning")
        path = write(self.folder, "a.conflist", network('{"type": "tuning"}').replace("1.1.0", "1.0.0"))
        self.assertIn("error: plugins[0].type: tuning is chained after a plugin that creates the "
                      "interface: it cannot be the first",
                      [what for _, _, what in self.found(path, CNI_PATH=REFERENCE)])

    def test_a_renamed_plugin_is_checked_as_the_plugin_that_it_is(self):
        for link, plugin in (("cnv-bridge", "bridge"), ("cnv-tuning", "tuning"), ("x-host-local", "host-local")):
            os.symlink(os.path.join(OURS, plugin), os.path.join(self.folder, link))
        path = write(self.folder, "n.conflist", network(
            '{"type": "loopback"}, {"type": "cnv-tuning", "mtu": 1400},\n  {"type": "cnv-bridge", "isGatway": true, '
            '"ipam": {"type": "x-host-local", "subnet": "10.1.2.0/24", "gateway": "10.9.9.9"}}'))
        found = [what for _, _, what in self.found(path, CNI_PATH=f"{self.folder}:{OURS}")]
        self.assertEqual(sorted(found), [
            "error: plugins[1].type: cnv-tuning comes before plugins[2].type, which creates the interface: ADD finds "
            "no interface",
            "error: plugins[2].isGatway: unknown key (did you mean isGateway?)",
            "warning: plugins[2].ipam.gateway: the gateway 10.9.9.9 is not in the subnet 10.1.2.0/24"])

    def third(self, name, facts, properties=()):
        """A plugin of another project that states its facts. Returns the CNI_PATH."""
        schema = {"type": "object", "properties": {key: {} for key in ("type", *properties)}, "facts": facts}
        return self.plugin(name, f"""case $1 in
          --schema) echo '{json.dumps(schema)}';;
          --validate) cat >/dev/null;;
          *) echo '{{"cniVersion": "1.1.0", "supportedVersions": ["1.1.0"]}}';;
        esac
        """)

    def test_the_facts_that_a_plugin_of_another_project_states_are_used(self):
        for name, facts in (("wire", ["interface"]), ("vrf2", ["chained", "vrf"]), ("shaper", ["chained", "rates"]),
                            ("pool", ["ipam", "ranges"]), ("of-later", ["chained", "not known yet"]), ("mute", [])):
            path = self.third(name, facts)
        conflist = write(self.folder, "n.conflist", network(
            '{"type": "vrf2"}, {"type": "wire", "subnet": "10.1.2.0/24", '
            '"ipam": {"type": "pool", "subnet": "10.1.2.0/24", "gateway": "10.9.9.9"}},\n'
            '{"type": "vrf"}, {"type": "shaper"}, {"type": "mute"}, {"type": "dummy"}'))
        found = [what for _, _, what in self.found(conflist, CNI_PATH=path)]
        before = "comes before plugins[1].type, which creates the interface: ADD finds no interface"
        for line in (f"error: plugins[0].type: vrf2 {before}",
                     "warning: plugins[1].ipam.gateway: the gateway 10.9.9.9 is not in the subnet 10.1.2.0/24",
                     "error: plugins[2].type: a second VRF for the interface, after plugins[0].type: ADD fails, because "
                     "an interface is in one VRF",
                     'warning: plugins[3].type: no limits: neither rates nor "capabilities": {"bandwidth": true} are given',
                     "error: plugins[5].type: a second plugin that creates the container interface, after "
                     "plugins[1].type: ADD fails, because the interface exists"):
            self.assertIn(line, found)
        self.assertFalse([what for what in found if "plugins[4]" in what], found)
        conflist = write(self.folder, "n.conflist", network('{"type": "of-later"}, {"type": "wire"}'))
        self.assertEqual([what for _, _, what in self.found(conflist, CNI_PATH=path)],
                         [f"error: plugins[0].type: of-later {before}"])

    def test_whether_the_node_forwards_for_a_plugin_of_another_project_is_unknown(self):
        for name, facts in (("wire", ["interface"]), ("wire2", ["interface", "master"])):
            path = self.third(name, facts, ("master",))
        for maker, count in (('"wire"', 0), ('"wire2", "master": "eth0"', 1)):
            conflist = write(self.folder, "n.conflist", network(
                f'{{"type": {maker}}}, {{"type": "firewall", "ingressPolicy": "same-bridge"}}'))
            found = [what for _, _, what in self.found(conflist, status=0, CNI_PATH=path)]
            self.assertEqual(len([what for what in found if "has no bridge after" in what]), count, found)

    def test_the_ipam_of_a_plugin_of_the_reference_is_checked(self):
        if not has_reference("ptp"):
            self.skipTest("there is no plugin ptp")
        path = write(self.folder, "a.conflist", ipam('"host-local", "subnett": "10.1.2.0/24"')
                     .replace('"bridge"', '"ptp"').replace("1.1.0", "1.0.0"))
        self.assertIn("error: plugins[0].ipam.subnett: unknown key (did you mean subnet?)",
                      [what for _, _, what in self.found(path, CNI_PATH=f"{OURS}:{REFERENCE}")])

    def test_a_plugin_that_does_not_end_is_an_error_and_no_wait(self):
        path = self.plugin("stuck", "exec sleep 1000\n")
        conflist = write(self.folder, "a.conflist", network('{"type": "stuck"}'))
        (_, _, what), = self.found(conflist, CNI_PATH=path)
        self.assertRegex(what, r'plugin type="stuck" failed \(version\): .*took too long')

    def test_what_validate_accepts_add_does_not_refuse_for_its_input(self):
        # ADD in a namespace that is not there: the config is read first, and is no reason.
        for path in EXAMPLES:
            with open(path, encoding="utf-8") as file:
                conflist = json.load(file)
            for index, conf in enumerate(conflist["plugins"]):
                if not os.access(os.path.join(OURS, conf["type"]), os.X_OK):
                    continue
                conf |= {"name": conflist["name"], "cniVersion": conflist["cniVersion"]}
                if index:
                    conf["prevResult"] = {"cniVersion": conf["cniVersion"]}
                if "deviceID" in conf.get("capabilities", ()):  # what the runtime of that network passes
                    conf["runtimeConfig"] = {"deviceID": "0000:03:00.1"}
                got = cni(conf["type"], "ADD", conf, netns="/run/netns/none")
                self.assertNotIn((got.json or {}).get("code") if got.stdout else 0, (6, 7), str(got))


class Node(suite.NodeTest):
    def test_nothing_is_changed_by_it(self):
        before = snapshot()
        for path in EXAMPLES:
            validate(path)
        self.assert_same(before)


def places(value, path=()):
    """The path of every value in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield from places(below, (*path, key))


def changed(value, path, new):
    """The document with another value at a path."""
    if not path:
        return new
    out = dict(value) if isinstance(value, dict) else list(value)
    out[path[0]] = changed(value[path[0]], path[1:], new)
    return out


@suite.spread
class Robust(Validate):
    @suite.cases([(os.path.basename(path), path) for path in EXAMPLES])
    def is_an_error_and_no_crash_wherever_it_is_cut_off(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read().rstrip()
        for end in rows.sampled(range(len(text))):
            got = validate("-", stdin=text[:end])
            self.assertEqual((got.status, got.stderr), (1, ""), f"{end}: {got}")

    def test_any_value_in_the_place_of_another_is_no_crash(self):
        with open(EXAMPLES[0], encoding="utf-8") as file:
            example = json.load(file)
        for path in rows.sampled(list(places(example))):
            for value in (None, True, -1, "", "x", "10.1.2.3/24", [], [[]], {}, {"a": [None]}):
                got = validate("--json", "-", stdin=json.dumps(changed(example, path, value)))
                self.assertIn(got.status, (0, 1), got)
                self.assertEqual(got.stderr, "", f"{path} = {value}")
                self.assertIsInstance(got.json, list)


if __name__ == "__main__":
    suite.main(per_processor=2)
