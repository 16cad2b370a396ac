"""A strict reader of CDI specs, as the loader of runtimes is: one unknown field, or a version that is lower than the
content needs, and the whole file does not exist for them. The published JSON Schema is weaker than that.

Source: specs-go/config.go, pkg/parser and pkg/cdi of the Container Device Interface, 0.3.0 to 1.1.0.
"""

import json
import os
import re

VERSIONS = ["0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"]
VENDOR = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
CLASS = VENDOR
DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
ENV = re.compile(r"[^=\0]+=[^\0]*")
EDITS = {"env": list, "deviceNodes": list, "netDevices": list, "hooks": list, "mounts": list, "intelRdt": dict,
         "additionalGids": list}
NODE = {"path": str, "hostPath": str, "type": str, "major": int, "minor": int, "fileMode": int, "permissions": str,
        "uid": int, "gid": int}


class Invalid(Exception):
    pass


def require(condition, text):
    if not condition:
        raise Invalid(text)


def fields(value, known, required, where):
    require(isinstance(value, dict), f"{where}: no object")
    for name, one in value.items():
        require(name in known, f"{where}: unknown field {name}")
        right = isinstance(one, known[name]) and not (known[name] is int and isinstance(one, bool))
        require(right, f"{where}.{name}: {one!r}")
    for name in required:
        require(value.get(name), f"{where}: no {name}")


def no_repeated(pairs):
    names = [name for name, _ in pairs]
    require(len(names) == len(set(names)), f"repeated field in {names}")
    return dict(pairs)


def needed(spec):
    """The lowest version that has all of the content."""
    out = "0.3.0"

    def at_least(version):
        nonlocal out
        out = max(out, version, key=VERSIONS.index)

    if "." in spec["kind"].split("/")[1] or spec.get("annotations"):
        at_least("0.6.0")
    for device in spec["devices"]:
        if device["name"][0].isdigit():
            at_least("0.5.0")
        if device.get("annotations"):
            at_least("0.6.0")
    for edits in [spec.get("containerEdits", {}), *(one["containerEdits"] for one in spec["devices"])]:
        if any("hostPath" in node for node in edits.get("deviceNodes", [])):
            at_least("0.5.0")
        if any("type" in mount for mount in edits.get("mounts", [])):
            at_least("0.4.0")
        if edits.get("intelRdt") or edits.get("additionalGids"):
            at_least("0.7.0")
        if edits.get("netDevices"):
            at_least("1.1.0")
    return out


def check_edits(edits, where):
    fields(edits, EDITS, (), where)
    for one in edits.get("env", []):
        require(isinstance(one, str) and ENV.fullmatch(one), f"{where}.env: {one!r}")
    for node in edits.get("deviceNodes", []):
        fields(node, NODE, ("path",), f"{where}.deviceNodes")
        require(node.get("type", "c") in ("b", "c", "u", "p", ""), f"{where}: type {node.get('type')}")
        require(set(node.get("permissions", "")) <= set("rwm"), f"{where}: permissions {node['permissions']}")


def read(text):
    """The spec. Raises Invalid for what a runtime would not load."""
    spec = json.loads(text, object_pairs_hook=no_repeated)
    fields(spec, {"cdiVersion": str, "kind": str, "annotations": dict, "devices": list, "containerEdits": dict},
           ("cdiVersion", "kind", "devices"), "spec")
    require(spec["cdiVersion"] in VERSIONS, f"version {spec['cdiVersion']}")
    vendor, slash, name = spec["kind"].partition("/")
    require(slash and VENDOR.fullmatch(vendor) and CLASS.fullmatch(name), f"kind {spec['kind']}")
    names = set()
    for device in spec["devices"]:
        fields(device, {"name": str, "annotations": dict, "containerEdits": dict}, ("name", "containerEdits"), "device")
        require(DEVICE.fullmatch(device["name"]), f"name {device['name']}")
        require(device["name"] not in names, f"{device['name']} twice")
        names.add(device["name"])
        check_edits(device["containerEdits"], device["name"])
        require(any(device["containerEdits"].values()), f"{device['name']}: no edits")
    check_edits(spec.get("containerEdits", {}), "spec.containerEdits")
    lowest = needed(spec)
    require(VERSIONS.index(spec["cdiVersion"]) >= VERSIONS.index(lowest),
            f"version {spec['cdiVersion']}, but its content needs {lowest}")
    return spec


def load(folder):
    """The specs of a folder by their files. Raises Invalid, also for a device that two files have."""
    out, owners = {}, {}
    for name in sorted(os.listdir(folder) if os.path.isdir(folder) else []):
        if not name.endswith((".json", ".yaml")):
            continue
        with open(f"{folder}/{name}", encoding="utf-8") as file:
            out[name] = read(file.read())
        for device in out[name]["devices"]:
            full = f"{out[name]['kind']}={device['name']}"
            require(full not in owners, f"{full} is in {owners.get(full)} and {name}")
            owners[full] = name
    return out
