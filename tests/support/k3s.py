"""The data folder of a k3s node, built and upgraded by k3s's rules, with a script as its `cni`."""

import hashlib
import json
import os

ROOT = "/var/lib/rancher/k3s"
DATA, CNI = f"{ROOT}/data", f"{ROOT}/data/cni"
NETWORKS = f"{ROOT}/agent/etc/cni/net.d"
LINKS = ("bandwidth", "bridge", "firewall", "flannel", "host-local", "loopback", "portmap")
#: What k3s writes into NETWORKS at each start.
CONFLIST = {"name": "cbr0", "cniVersion": "1.0.0", "plugins": [
    {"type": "flannel", "delegate": {"hairpinMode": True, "forceAddress": True, "isDefaultGateway": True}},
    {"type": "portmap", "capabilities": {"portMappings": True}},
    {"type": "bandwidth", "capabilities": {"bandwidth": True}}]}


def unpack(release):
    """The archive of a release: `cni`, relative links to it and what check-config reads; the folder data/HASH."""
    program = f"#!/bin/sh\necho CNI $(basename $0) plugin {release} >&2\n"
    folder = f"{DATA}/{hashlib.sha256(program.encode()).hexdigest()}"
    os.makedirs(f"{folder}/bin")
    with open(f"{folder}/bin/cni", "w", encoding="ascii") as file:
        file.write(program)
    os.chmod(f"{folder}/bin/cni", 0o755)
    for name in LINKS:
        os.symlink("cni", f"{folder}/bin/{name}")
    with open(f"{folder}/bin/.sha256sums", "w", encoding="ascii") as file:
        file.write(f"{hashlib.sha256(program.encode()).hexdigest()}  cni\n")
    with open(f"{folder}/bin/.links", "w", encoding="ascii") as file:
        file.writelines(f"{name} cni\n" for name in LINKS)
    return folder


def start(release):
    """The first start of a release: data/cni and the links current and previous; returns data/HASH."""
    folder = unpack(release)
    os.makedirs(CNI, exist_ok=True)
    for name in os.listdir(CNI):
        if os.path.islink(f"{CNI}/{name}"):
            os.unlink(f"{CNI}/{name}")
    for name in ("cni", *LINKS):
        if not os.path.lexists(f"{CNI}/{name}"):
            os.symlink(f"{folder}/bin/cni", f"{CNI}/{name}")
    if os.path.islink(f"{DATA}/current"):
        os.rename(f"{DATA}/current", f"{DATA}/previous")
    os.symlink(folder, f"{DATA}/current")
    write_config()
    return folder


def folder_of_runtime():
    """Where k3s finds host-local, as exec.LookPath: what it has its containerd use; None: it does not start."""
    for folder in (CNI, os.path.realpath(f"{DATA}/current") + "/bin"):
        file = f"{folder}/host-local"
        if os.path.isfile(file) and os.stat(file).st_mode & 0o111:
            return folder
    return None


def write_config():
    config = f"{ROOT}/agent/etc/containerd/config.toml"
    os.makedirs(os.path.dirname(config), exist_ok=True)
    with open(config, "w", encoding="ascii") as file:
        file.write(f"[plugins.'io.containerd.cri.v1.runtime'.cni]\n  bin_dirs = [\"{folder_of_runtime()}\"]\n"
                   f"  conf_dir = \"{NETWORKS}\"\n")
    os.makedirs(NETWORKS, exist_ok=True)
    with open(f"{NETWORKS}/10-flannel.conflist", "w", encoding="ascii") as file:
        json.dump(CONFLIST, file, indent=2)
