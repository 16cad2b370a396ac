"""What the API of Kubernetes refuses of an object: the validation of resource.k8s.io/v1, as far as a driver can get it wrong.

Fields and limits are those of Kubernetes 1.36 (k8s.io/api/resource/v1, and what its documentation says of each). A field that the
API does not know is refused, which a server drops.
"""

import ipaddress
import re

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
QUANTITY = re.compile(r"(\d+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
FACTORS = {"m": 1e-3, None: 1} | {unit: 1000 ** at for at, unit in enumerate("kMGTPE", 1)} | {
    unit + "i": 1024 ** at for at, unit in enumerate("KMGTPE", 1)}
SPEC = {"driver", "pool", "nodeName", "devices", "sharedCounters"}
DEVICE = {"name", "attributes", "capacity", "allowMultipleAllocations", "consumesCounters", "taints"}
STATUS = {"driver", "pool", "device", "shareID", "conditions", "networkData", "data"}


class Invalid(Exception):
    """The sentence has the path of the field."""


def need(condition, path, why):
    if not condition:
        raise Invalid(f"{path}: {why}")


def known(item, fields, path):
    need(set(item) <= fields, path, f"unknown field {sorted(set(item) - fields)}")


def is_subdomain(text, most=253):
    return 0 < len(text) <= most and all(LABEL.fullmatch(part) or len(part) > 63 and re.fullmatch(r"[a-z0-9][-a-z0-9]*[a-z0-9]", part)
                                         for part in text.split("."))


def is_qualified(text, name):
    """Whether a text is a name, or DOMAIN/NAME."""
    domain, slash, last = text.rpartition("/")
    return bool(name.fullmatch(last)) and (not slash or is_subdomain(domain))


def quantity(text, path):
    found = QUANTITY.fullmatch(str(text))
    need(found, path, f"Invalid value: {text!r}: no quantity")
    return int(found[1]) * FACTORS[found[2]]


def key_of(device):
    return tuple(device.get(name, "") for name in ("driver", "pool", "device", "shareID"))


def attribute(path, name, value):
    need(is_qualified(name, IDENTIFIER), path, f"Invalid value: {name!r}")
    need(len(value) == 1 and set(value) <= {"string", "int", "bool", "version"}, path, "exactly one value must be specified")
    kind, content = next(iter(value.items()))
    need(type(content) is {"int": int, "bool": bool}.get(kind, str), path, f"Invalid value: {content!r}")
    need(not isinstance(content, str) or len(content.encode()) <= 64, path, "Too long: may not be more than 64 bytes")


def capacity(path, item, is_shared):
    known(item, {"value", "requestPolicy"}, path)
    value, policy = quantity(item["value"], path), item.get("requestPolicy")
    if policy is None:
        return
    need(is_shared, path, "Forbidden: allowMultipleAllocations must be true")
    known(policy, {"default", "validRange", "validValues"}, path)
    need("default" in policy, f"{path}.default", "Required value")
    default, values = quantity(policy["default"], path), policy.get("validRange", {})
    if "validRange" in policy:
        need("min" in values, f"{path}.validRange.min", "Required value")
        least, most = quantity(values["min"], path), quantity(values.get("max", item["value"]), path)
        need(least <= default <= most <= value, path, f"Invalid value: {policy} of {item['value']}")


def counters(path, item, name):
    need(LABEL.fullmatch(item.get(name, "")), f"{path}.{name}", "Invalid value")
    need(0 < len(item.get("counters", {})) <= 32, f"{path}.counters", "must have 1 to 32 items")
    for key, one in item["counters"].items():
        need(LABEL.fullmatch(key), path, f"Invalid value: {key!r}")
        quantity(one["value"], path)


def device_of_slice(item, path):
    known(item, DEVICE, path)
    need(LABEL.fullmatch(item.get("name", "")), f"{path}.name", f"Invalid value: {item.get('name')!r}")
    attributes, capacities = item.get("attributes", {}), item.get("capacity", {})
    need(len(attributes) + len(capacities) <= 32, path, "the total number of attributes and capacities must not exceed 32")
    for name, value in attributes.items():
        attribute(f"{path}.attributes[{name}]", name, value)
    for name, value in capacities.items():
        need(is_qualified(name, IDENTIFIER), path, f"Invalid value: {name!r}")
        capacity(f"{path}.capacity[{name}]", value, item.get("allowMultipleAllocations", False))
    need(len(item.get("taints", [])) <= 16, f"{path}.taints", "Too many")
    for taint in item.get("taints", []):
        known(taint, {"key", "value", "effect", "timeAdded"}, path)
        need(is_qualified(taint["key"], NAME), f"{path}.taints", f"Invalid value: {taint['key']!r}")
        need(taint.get("effect") in ("NoSchedule", "NoExecute"), f"{path}.taints", "Unsupported value")
    used = item.get("consumesCounters", [])
    need(len(used) <= 2 and len({one["counterSet"] for one in used}) == len(used), f"{path}.consumesCounters", "Too many or duplicate")
    for one in used:
        counters(path, one, "counterSet")


def slice_refusal(item, old):
    spec = item.get("spec", {})
    known(spec, SPEC, "spec")
    need(is_subdomain(item["metadata"]["name"]), "metadata.name", f"Invalid value: {item['metadata']['name']!r}")
    need(is_subdomain(spec.get("driver", ""), 63), "spec.driver", "Invalid value")
    pool = spec.get("pool", {})
    need(0 < len(pool.get("name", "")) <= 253 and all(map(is_subdomain, pool["name"].split("/"))), "spec.pool.name", "Invalid value")
    need(pool.get("resourceSliceCount", 0) > 0 and pool.get("generation", -1) >= 0, "spec.pool", "Invalid value")
    need(is_subdomain(spec.get("nodeName", "")), "spec.nodeName", "exactly one of nodeName and others is required")
    if old:
        for path, of in (("driver", lambda one: one["driver"]), ("pool.name", lambda one: one["pool"]["name"]),
                         ("nodeName", lambda one: one["nodeName"])):
            need(of(spec) == of(old["spec"]), f"spec.{path}", "field is immutable")
    need(not ("devices" in spec and "sharedCounters" in spec), "spec", "only one of `sharedCounters` or `devices` is allowed")
    devices = spec.get("devices", [])
    most = 64 if any(one.get("taints") or one.get("consumesCounters") for one in devices) else 128
    need(len(devices) <= most, "spec.devices", f"Too many: {len(devices)}: must have at most {most} items")
    need(len({one.get("name") for one in devices}) == len(devices), "spec.devices", "Duplicate value")
    for at, one in enumerate(devices):
        device_of_slice(one, f"spec.devices[{at}]")
    sets = spec.get("sharedCounters", [])
    need(len(sets) <= 8 and len({one["name"] for one in sets}) == len(sets), "spec.sharedCounters", "Too many or duplicate")
    for one in sets:
        counters("spec.sharedCounters", one, "name")


def network(data, path):
    known(data, {"interfaceName", "ips", "hardwareAddress"}, path)
    ips = data.get("ips", [])
    need(len(data.get("interfaceName", "")) <= 256 and len(data.get("hardwareAddress", "")) <= 128 and len(ips) <= 16, path, "Too long")
    need(len(set(ips)) == len(ips), f"{path}.ips", "Duplicate value")
    for one in ips:
        try:
            is_canonical = "/" in one and str(ipaddress.ip_interface(one)) == one
        except ValueError:
            is_canonical = False
        need(is_canonical, f"{path}.ips", f"Invalid value: {one!r}: must be in canonical form (CIDR)")


def claim_refusal(item, _):
    status = item.get("status", {})
    results = [key_of(one) for one in status.get("allocation", {}).get("devices", {}).get("results", [])]
    devices = status.get("devices", [])
    need(len(set(map(key_of, devices))) == len(devices), "status.devices", "Duplicate value")
    for device in devices:
        known(device, STATUS, "status.devices")
        need(key_of(device) in results, "status.devices", f"Invalid value: {key_of(device)}: must be an allocated device in the claim")
        network(device.get("networkData", {}), "status.devices.networkData")
        need(len(device.get("conditions", [])) <= 8, "status.devices.conditions", "Too many")
        for condition in device.get("conditions", []):
            path = "status.devices.conditions"
            known(condition, {"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"}, path)
            need(all(condition.get(name) for name in ("type", "status", "reason", "lastTransitionTime")), path, "Required value")
            need(condition["status"] in ("True", "False", "Unknown") and REASON.fullmatch(condition["reason"]), path, "Invalid value")


RULES = {"ResourceSlice": slice_refusal, "ResourceClaim": claim_refusal}


def refusal(item, old=None):
    """Why the API would not have the object, in place of `old` where there is one; None: it takes it."""
    try:
        if rule := RULES.get(item["kind"]):
            rule(item, old)
    except Invalid as why:
        return str(why)
    return None
