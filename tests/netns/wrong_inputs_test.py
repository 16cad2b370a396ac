#!/usr/bin/env python3
"""Wrong inputs as people make them, and the whole sentence that answers each: what is wrong, where, the value and what
was expected. Of a plugin's keys a few are here: tests/conformance/sentences_test.py and the unit tests know the others."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import CONF_DIR, cnitool  # noqa: E402
from support.plugin import OURS, cni  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402

POOL = {"type": "host-local", "subnet": "10.1.2.0/24"}
BRIDGE = {"type": "bridge", "bridge": "cni0", "ipam": POOL}
PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
MACVLAN = {"type": "macvlan", "master": "up0", "ipam": POOL}
POD = "/run/netns/pod1"
ADD = ("add", "net", POD)


def text(*plugins, **keys):
    """A network list as a file has it."""
    return json.dumps({"cniVersion": "1.0.0", "name": "net", **keys, "plugins": list(plugins)}, indent=2)


def bridge(**keys):
    return text(BRIDGE | keys)


def pool(**keys):
    return bridge(ipam=POOL | keys)


def mapped(mapping):
    return {"CAP_ARGS": {"portMappings": [mapping]}}


#: What is wrong: the file of the network, the command, variables of the environment.
TOOL = {
    "a file without its last brace": (bridge()[:-1], ADD, {}),
    "a trailing comma": (bridge().replace('"10.1.2.0/24"', '"10.1.2.0/24",'), ADD, {}),
    "YAML": ("cniVersion: 1.0.0\nname: net\nplugins:\n- type: bridge\n", ADD, {}),
    "single quotes": (bridge().replace('"', "'"), ADD, {}),
    "a comment": (bridge().replace('"name"', '// ours\n"name"'), ADD, {}),
    "an empty file": ("", ADD, {}),
    "a misspelt list of plugins": (bridge().replace('"plugins"', '"plugin"'), ADD, {}),
    "plugins that are an object": (bridge().replace('"plugins": [', '"plugins": ').replace("]", ""), ADD, {}),
    "a plugin without a type": (text({"bridge": "cni0"}), ADD, {}),
    "a misspelt plugin": (bridge(type="brigde"), ADD, {}),
    "a misspelt IPAM plugin": (pool(type="host-locl"), ADD, {}),
    "a bridge as the IPAM plugin": (pool(type="bridge"), ADD, {}),
    "an unknown version": (bridge().replace("1.0.0", "2.0.0"), ADD, {}),
    "a version that is a number": (bridge().replace('"1.0.0"', "1.0"), ADD, {}),
    "a network name with a blank": (bridge().replace('"net"', '"my net"'), ("add", "my net", POD), {}),
    "a network that does not exist": (bridge(), ("add", "nett", POD), {}),
    "a folder without networks": (None, ADD, {}),
    "a namespace that does not exist": (bridge(), ("add", "net", "/run/netns/pod2"), {}),
    "a namespace that is a file": (bridge(), ("add", "net", "/etc/passwd"), {}),
    "an unknown verb": (bridge(), ("ad", "net", POD), {}),
    "an unknown option": (bridge(), ("--jsn", *ADD), {}),
    "no namespace": (bridge(), ("add", "net"), {}),
    "a path without plugins": (bridge(), ADD, {"CNI_PATH": "/opt/none"}),
    "an interface name of 16 bytes": (bridge(), ADD, {"CNI_IFNAME": "e" * 16}),
    "capability arguments that are no JSON": (bridge(), ADD, {"CAP_ARGS": "portMappings"}),
    "a number in quotes": (bridge(mtu="1400"), ADD, {}),
    "a subnet with host bits": (pool(subnet="10.1.2.5/24"), ADD, {}),
    "a subnet beside ipam": (text({"type": "bridge", "subnet": "10.1.2.0/24", "ipam": {"type": "host-local"}}), ADD, {}),
    "a master that does not exist": (text(MACVLAN), ADD, {}),
    "portmap before bridge": (text(PORTMAP, BRIDGE), ADD, mapped({"hostPort": 80, "containerPort": 80, "protocol": "tcp"})),
    "a mapping without a protocol": (text(BRIDGE, PORTMAP), ADD, mapped({"hostPort": 8080, "containerPort": 80})),
    "DEL of a network that does not exist": (bridge(), ("del", "nett", POD), {}),
    "a rate with a unit": (text(BRIDGE, {"type": "bandwidth", "ingressRate": "10M", "ingressBurst": 10000}), ADD, {}),
    "arguments without a value": (bridge(), ADD, {"CNI_ARGS": "K8S_POD_NAME"}),
    "an argument that no plugin knows": (bridge(), ADD, {"CNI_ARGS": "MACC=02:00:00:00:00:01"}),
}
#: What is wrong: a plugin, its verb, its config, variables of the environment, and what runs it.
PLUGIN = {
    "no container ID": ("bridge", "ADD", BRIDGE, {"CNI_CONTAINERID": ""}, ()),
    "an unknown CNI_COMMAND": ("bridge", "add", BRIDGE, {}, ()),
    "a config on stdin that is empty": ("bridge", "ADD", "", {}, ()),
    "too few open files": ("bridge", "ADD", BRIDGE, {}, ("prlimit", "--nofile=5")),
    "no capability": ("bridge", "ADD", BRIDGE, {}, ("setpriv", "--bounding-set=-all", "--inh-caps=-all")),
    "a name of the network with a slash": ("bridge", "ADD", BRIDGE | {"name": "a/b"}, {}, ()),
    "a previous result that is text": ("portmap", "ADD", {"prevResult": "none"}, {}, ()),
    "the namespace of the node": ("bridge", "ADD", BRIDGE, {"CNI_NETNS": "/proc/self/ns/net"}, ()),
}
#: The exit status and all that is said on stderr, or the error object.
SAID = {
    "a file without its last brace": (1,
        "read '/run/net.d/10-net.conflist': it is not JSON: parse error at line 14, column 1: syntax error "
        "while parsing object - unexpected end of input; expected '}' (`cnitool validate "
        "/run/net.d/10-net.conflist` shows where)\nno net configurations found in /run/net.d\nhint: networks "
        "are read from /run/net.d: set NETCONFPATH or --conf-dir for another directory"),
    "a trailing comma": (1,
        "read '/run/net.d/10-net.conflist': it is not JSON: parse error at line 11, column 7: syntax error "
        "while parsing object key - unexpected '}'; expected string literal (`cnitool validate "
        "/run/net.d/10-net.conflist` shows where)\nno net configurations found in /run/net.d\nhint: networks "
        "are read from /run/net.d: set NETCONFPATH or --conf-dir for another directory"),
    "YAML": (1,
        "read '/run/net.d/10-net.conflist': it is not JSON: parse error at line 1, column 1: syntax error "
        "while parsing value - invalid literal; last read: 'c' (`cnitool validate /run/net.d/10-net.conflist` "
        "shows where)\nno net configurations found in /run/net.d\nhint: networks are read from /run/net.d: set "
        "NETCONFPATH or --conf-dir for another directory"),
    "single quotes": (1,
        "read '/run/net.d/10-net.conflist': it is not JSON: parse error at line 2, column 3: syntax error "
        "while parsing object key - invalid literal; last read: '{<U+000A>  ''; expected string literal "
        "(`cnitool validate /run/net.d/10-net.conflist` shows where)\nno net configurations found in "
        "/run/net.d\nhint: networks are read from /run/net.d: set NETCONFPATH or --conf-dir for another "
        "directory"),
    "a comment": (1,
        "read '/run/net.d/10-net.conflist': it is not JSON: parse error at line 3, column 3: syntax error "
        "while parsing object key - invalid literal; last read: '\"1.0.0\",<U+000A>  /'; expected string "
        "literal (`cnitool validate /run/net.d/10-net.conflist` shows where)\nno net configurations found in "
        "/run/net.d\nhint: networks are read from /run/net.d: set NETCONFPATH or --conf-dir for another "
        "directory"),
    "an empty file": (1,
        "read '/run/net.d/10-net.conflist': it is not JSON: parse error at line 1, column 1: syntax error "
        "while parsing value - unexpected end of input; expected '[', '{', or a literal (`cnitool validate "
        "/run/net.d/10-net.conflist` shows where)\nno net configurations found in /run/net.d\nhint: networks "
        "are read from /run/net.d: set NETCONFPATH or --conf-dir for another directory"),
    "a misspelt list of plugins": (1,
        "read '/run/net.d/10-net.conflist': no plugin configs found; plugins: expected a list of plugins' "
        "configs\nhint: `cnitool validate /run/net.d/10-net.conflist` shows where"),
    "plugins that are an object": (1,
        "read '/run/net.d/10-net.conflist': plugins: expected a list: "
        "{\"bridge\":\"cni0\",\"ipam\":{\"subnet\":\"10.1.2.0/24\",\"type\":\"host-local\"},\"type\":\"bridge\"}\nhint: `cnitool "
        "validate /run/net.d/10-net.conflist` shows where"),
    "a plugin without a type": (1,
        "read '/run/net.d/10-net.conflist': plugins[0].type: expected the name of a plugin: the key is "
        "missing\nhint: `cnitool validate /run/net.d/10-net.conflist` shows where"),
    "a misspelt plugin": (1,
        'plugin type="brigde" failed (add): failed to find plugin "brigde" in path [BIN]; plugins[0].type: '
        "\"brigde\" (did you mean bridge?); there are ...\nhint: set CNI_PATH or --path to the directories of "
        "plugins, separated by ':'"),
    "a misspelt IPAM plugin": (1,
        "failed to find plugin \"host-locl\" in path [BIN]; nothing is released, as no ADD has called it\nplugin "
        'type="bridge" failed (add): failed to find plugin "host-locl" in path [BIN]; ipam.type: "host-locl" '
        "(did you mean host-local?); there are ...\nhint: set CNI_PATH or --path to the directories of "
        "plugins, separated by ':'"),
    "a bridge as the IPAM plugin": (1,
        "ipam.type: 'bridge' is not an IPAM plugin; nothing is released, as no ADD has called it\nplugin "
        "type=\"bridge\" failed (add): ipam.type: 'bridge' is not an IPAM plugin; IPAM plugins give addresses, "
        "as host-local, static and dhcp do"),
    "an unknown version": (1,
        'plugin type="bridge" failed (add): incompatible CNI versions; config is "2.0.0", plugin supports ["0.1.0" "0.2.0" "0.3.0" "0.3.1" '
        '"0.4.0" "1.0.0" "1.1.0"]'),
    "a version that is a number": (1,
        "read '/run/net.d/10-net.conflist': cniVersion: expected a string: 1.0\nhint: `cnitool validate "
        "/run/net.d/10-net.conflist` shows where"),
    "a network name with a blank": (1,
        "read '/run/net.d/10-net.conflist': invalid characters found in network name; my net\nhint: `cnitool "
        "validate /run/net.d/10-net.conflist` shows where"),
    "a network that does not exist": (1,
        "no net configuration with name \"nett\" in /run/net.d\nhint: did you mean net? the networks are net"),
    "a folder without networks": (1,
        "no net configurations found in /run/net.d\nhint: networks are read from /run/net.d: set NETCONFPATH "
        "or --conf-dir for another directory"),
    "a namespace that does not exist": (1,
        'plugin type="bridge" failed (add): failed to open netns "/run/netns/pod2": failed to Statfs '
        "\"/run/netns/pod2\": no such file or directory; the path is that of CNI_NETNS\nhint: no network "
        "namespace at '/run/netns/pod2'; `ip netns add NAME` creates /run/netns/NAME"),
    "a namespace that is a file": (1,
        'plugin type="bridge" failed (add): failed to open netns "/etc/passwd": unknown FS magic on '
        '"/etc/passwd": MAGIC; the path is that of CNI_NETNS: the file is not a network namespace; its mount '
        "may be gone or not propagated\nhint: no network namespace at '/etc/passwd'; `ip netns add NAME` "
        "creates /run/netns/NAME"),
    "an unknown verb": (2,
        "cnitool: unknown command 'ad'\nhint: `cnitool --help` lists all commands"),
    "an unknown option": (2,
        "cnitool add: unknown option '--jsn' (did you mean --json?)\nhint: `cnitool add --help` lists its "
        "arguments and options"),
    "no namespace": (2,
        "cnitool add: netns is required\nhint: `cnitool add --help` lists its arguments and options"),
    "a path without plugins": (1,
        'plugin type="bridge" failed (add): failed to find plugin "bridge" in path [/opt/none]; '
        "plugins[0].type: \"bridge\"; there are no plugins\nhint: set CNI_PATH or --path to the directories of "
        "plugins, separated by ':'"),
    "an interface name of 16 bytes": (1,
        "interface name is too long; interface name should be less than 16 characters"),
    "capability arguments that are no JSON": (1,
        "CAP_ARGS is not JSON: parse error at line 1, column 1: syntax error while parsing value - invalid "
        "literal; last read: 'p'"),
    "a number in quotes": (1,
        'plugin type="bridge" failed (add): failed to load netconf: mtu: expected an integer from 0 to 65535: '
        '"1400"'),
    "a subnet with host bits": (1,
        'plugin type="bridge" failed (add): invalid range set 0: Network has host bits set. For a subnet mask '
        'of length 24 the network address is 10.1.2.0; ipam.subnet: "10.1.2.5/24"'),
    "a subnet beside ipam": (1,
        'plugin type="bridge" failed (add): no IP ranges specified; ipam.ranges: expected a range, here or in '
        "ipam.subnet"),
    "a master that does not exist": (1,
        'plugin type="macvlan" failed (add): Link not found; master: "up0"'),
    "portmap before bridge": (1,
        'plugin type="portmap" failed (add): must be called as chained plugin; no prevResult: portmap follows '
        "the plugin that assigns the pod's addresses"),
    "a mapping without a protocol": (1,
        'plugin type="portmap" failed (add): runtimeConfig.portMappings[0].protocol: expected "tcp", "udp" or '
        '"sctp": the key is missing'),
    "DEL of a network that does not exist": (1,
        "no net configuration with name \"nett\" in /run/net.d\nhint: did you mean net? the networks are net"),
    "a rate with a unit": (1,
        'plugin type="bandwidth" failed (add): failed to parse network configuration: ingressRate: expected an '
        'integer of at least 0: "10M"'),
    "arguments without a value": (1,
        "invalid CNI_ARGS pair \"K8S_POD_NAME\"; expected KEY=VALUE, several of them separated by ';'"),
    "an argument that no plugin knows": (1,
        'plugin type="bridge" failed (add): ARGS: unknown args ["MACC=02:00:00:00:00:01"]; CNI_ARGS: '
        "IgnoreUnknown=1 passes them over"),
    "no container ID": (1, 4,
        "required env variables [CNI_CONTAINERID] missing",
        ""),
    "an unknown CNI_COMMAND": (1, 4,
        "unknown CNI_COMMAND: add",
        "expected ADD, DEL, CHECK, GC, STATUS or VERSION"),
    "a config on stdin that is empty": (1, 6,
        "the network config on stdin is not JSON: parse error at line 1, column 1: syntax error while parsing "
        "value - unexpected end of input; expected '[', '{', or a literal",
        ""),
    "too few open files": (1, 8,
        'failed to open netns "/run/netns/pod1": too many open files',
        "the path is that of CNI_NETNS: raise the process's limit of open files: ulimit -n"),
    "no capability": (1, 999,
        "run ADD: operation not permitted: this process lacks CAP_NET_ADMIN and CAP_SYS_ADMIN",
        ""),
    "a name of the network with a slash": (1, 7,
        "invalid characters found in network name",
        "a/b"),
    "a previous result that is text": (1, 6,
        'could not parse prevResult: expected an object: "none"',
        ""),
    "the namespace of the node": (1, 8,
        "plugin's netns and netns from CNI_NETNS should not be the same",
        "/proc/self/ns/net"),
}


def as_before_3_11_3(text):
    """What nlohmann_json says of nothing at all, in every release."""
    return text.replace("attempting to parse an empty input; check that your input string or stream contains the expected JSON",
                        "syntax error while parsing value - unexpected end of input; expected '[', '{', or a literal")


def said_by(outcome):
    """The text without what depends on the machine."""
    said = as_before_3_11_3(outcome.stderr.strip()).replace(OURS, "BIN")
    said = re.sub(r"there are [a-z_]+, .*", "there are ...", said)
    return re.sub(r'(unknown FS magic on "[^"]*"): [0-9a-f]+', r"\1: MAGIC", said)


def run_tool(row):
    file, command, env = row
    os.makedirs(CONF_DIR, exist_ok=True)
    if file is not None:
        with open(os.path.join(CONF_DIR, "10-net.conflist"), "w", encoding="utf-8") as out:
            out.write(file)
    outcome = cnitool(*command, **({"CNI_PATH": OURS} | env))
    return outcome.status, said_by(outcome)


def run_plugin(row):
    plugin, verb, conf, env, wrap = row
    if isinstance(conf, dict):
        conf = {"cniVersion": "1.0.0", "name": "net", "type": plugin, **conf}
    outcome = cni(plugin, verb, conf, netns=POD, env=env, wrap=wrap, documented=False)
    error = outcome.json
    return outcome.status, error["code"], as_before_3_11_3(error["msg"]), as_before_3_11_3(error.get("details", ""))


@suite.spread
class WrongInputs(suite.NodeTest):
    def assert_said(self, name, run_row, row):
        self.pod("pod1")
        before = snapshot()
        self.assertEqual(run_row(row), SAID[name])
        self.assert_same(before, ignore=lambda place: left_by_design(place) or place.startswith(f"file{CONF_DIR}"))

    @suite.cases([(name, name) for name in TOOL])
    def cnitool_answers(self, name):
        self.assert_said(name, run_tool, TOOL[name])

    @suite.cases([(name, name) for name in PLUGIN])
    def a_plugin_answers(self, name):
        self.assert_said(name, run_plugin, PLUGIN[name])


if __name__ == "__main__":
    suite.main()
