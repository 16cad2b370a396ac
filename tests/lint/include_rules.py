#!/usr/bin/env python3
"""Who may include whom: every layer knows the ones below it and no others.

Includes in quotes are ours and written from the root; those in angle brackets are others'.
"""

import re
import sys

from sources import ROOT, Complaints, files, text

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
LIBRARIES = {
    # One use links all locales into patchbay, 0.5 MB, which each call then sets up.
    "iostreams": r"(iostream|istream|ostream|sstream|fstream|streambuf|syncstream|iomanip|locale|regex)$",
    "libbpf": r"bpf/",
    "uapi": r"(linux|asm)/",
    "nlohmann_json": r"nlohmann/",
    "CLI11": r"CLI/",
    "toml++": r"toml\+\+/",
    "doctest": r"doctest/",
    "libcurl": r"curl/",
    "libyaml": r"yaml\.h$",
    "gRPC": r"(grpc|grpcpp|google/protobuf)/|\w+(\.grpc)?\.pb\.h$",
}


def rules(path):
    """What a file may include of ours (patterns), and which libraries."""
    folder, name = path.parts[0], path.as_posix()
    in_source = path.suffix == ".cc"
    if name.startswith("netlink/types/"):
        return [r"netlink/types/"], set()
    if folder == "netlink":
        return [r"netlink/"], {"libbpf", "uapi"} if in_source else set()
    if folder == "libcni":
        # The rooms of libcni, each above the ones before it.
        rooms = ["common", "config", "daemon", "plugin", "runtime"]
        below = rooms[: rooms.index(path.parts[1]) + 1]
        ours = [f"libcni/{room}/" for room in below] + [r"netlink/types/", r"netlink/netns\.h$"]
        return ours, {"nlohmann_json"}
    if folder == "kubernetes":
        libraries = {"nlohmann_json"} | {"kubernetes/connection.cc": {"libcurl"}, "kubernetes/yaml.cc": {"libyaml"}}.get(name, set())
        return [r"kubernetes/", r"libcni/(common|config)/", r"netlink/types/"], libraries
    if folder == "cnitool":
        libraries = {"nlohmann_json", "iostreams"}
        if name in ("cnitool/cnitool.cc", "cnitool/command_line.cc", "cnitool/commands.cc"):
            libraries.add("CLI11")
        if name == "cnitool/toml.cc":
            libraries.add("toml++")
        return [r"cnitool/", r"libcni/", r"netlink/", r"plugins/(names/|state/|facts\.h$)"], libraries  # it shows what is on the node
    if folder == "installer":
        return [r"installer/", r"libcni/", r"netlink/types/"], set()
    if name == "plugins/main.cc":
        return [r"installer/commands\.h$", r"libcni/plugin/", r"plugins/(list|origin)\.h$"], set()
    if name.startswith("plugins/names/"):
        return [r"libcni/common/hash\.h$"], set()
    if name.startswith("plugins/state/"):
        return [r"libcni/(common|config|daemon|plugin)/", r"netlink/", r"plugins/(names|state)/"], {"nlohmann_json"}
    if name.startswith("plugins/leases/"):
        return [r"libcni/(common|config|daemon|plugin)/", r"netlink/", r"plugins/(common|leases|names|state)/"], {"nlohmann_json"}
    if name.startswith("plugins/cluster-pool/agent/"):
        is_of_grpc = name in ("plugins/cluster-pool/agent/etcd_client.cc", "plugins/cluster-pool/agent/engine_etcd.cc")
        return [r"libcni/(common|config|daemon)/", r"netlink/types/", r"plugins/(cluster-pool/agent|leases|names|state)/",
                r"kubernetes/"], {"nlohmann_json"} | ({"gRPC"} if is_of_grpc else set())
    if name.startswith("plugins/devices/agent/"):
        libraries = {"nlohmann_json", "iostreams"} | ({"uapi"} if in_source else set())
        if name.startswith(("plugins/devices/agent/kubelet/", "plugins/devices/agent/dra/service.", "plugins/devices/agent/dra/health.")):
            libraries.add("gRPC")
        if name == "plugins/devices/agent/main.cc":
            libraries.add("CLI11")
        if name == "plugins/devices/agent/nri/session.cc":
            libraries.add("gRPC")  # nri.pb.h
        # The runtime's results cache, which it reads.
        rooms = r"common|config|daemon|plugin" + ("|runtime" if name.startswith("plugins/devices/agent/nri/log/") else "")
        beside = [r"plugins/cluster-pool/agent/block_agent\.h$"] if name == "plugins/devices/agent/blocks.h" else []
        return [rf"libcni/({rooms})/", r"netlink/", r"plugins/(devices|leases|names|state)/",
                r"kubernetes/", *beside], libraries
    if folder == "plugins":
        ours = [r"libcni/(common|config|daemon|plugin)/", r"netlink/", r"plugins/((common|names|state)/|list\.h$)"]
        if path.parts[1] in ("host-local", "cluster-pool"):
            ours.append(r"plugins/leases/")
        if path.parts[1] != "common":
            ours.append(re.escape("/".join(path.parts[:2])) + "/(?!agent/)")
        return ours, {"nlohmann_json", "uapi"} if in_source else {"nlohmann_json"}
    return [r""], set(LIBRARIES)


def main():
    complaints = Complaints()
    for path in files(".h", ".cc"):
        content = text(path)
        ours, libraries = rules(path)
        first = True
        for match in INCLUDE.finditer(content):
            line = content.count("\n", 0, match.start()) + 1
            quoted, angled = match.groups()
            if quoted is not None:
                if not (ROOT / quoted).is_file():
                    complaints.add(path, line, f'"{quoted}" is no file when written from the root')
                elif not any(re.match(rule, quoted) for rule in ours):
                    complaints.add(path, line, f'"{quoted}" is not for this layer')
            else:
                for library, pattern in LIBRARIES.items():
                    if re.match(pattern, angled) and library not in libraries:
                        complaints.add(path, line, f"<{angled}>: {library} is not for this file")
            own = path.with_suffix(".h")
            if first and path.suffix == ".cc" and (ROOT / own).is_file() and quoted != own.as_posix():
                complaints.add(path, line, f'the first include is the file\'s own header "{own}"')
            first = False
        if path.suffix == ".h" and not content.startswith("#pragma once\n"):
            complaints.add(path, 1, "a header starts with #pragma once")
    return complaints.code()


if __name__ == "__main__":
    sys.exit(main())
