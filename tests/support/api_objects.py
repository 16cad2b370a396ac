"""Objects of a Kubernetes API server: what it stores, its versions, its answers to selectors, and what it refuses.

A store without HTTP, which support.api_server serves and a test changes by itself. Rules are those of the API conventions
of Kubernetes and of resource.k8s.io/v1.
"""

import copy
import datetime
import threading
import uuid

from support.api_rules import is_subdomain, refusal

#: (group and version, plural): kind, whether it has a namespace, whether it has a subresource `status`.
KINDS = {("v1", "pods"): ("Pod", True, True), ("v1", "nodes"): ("Node", False, True), ("v1", "configmaps"): ("ConfigMap", True, False),
         ("v1", "namespaces"): ("Namespace", False, True),
         ("resource.k8s.io/v1", "resourceclaims"): ("ResourceClaim", True, True),
         ("resource.k8s.io/v1", "resourceclaimtemplates"): ("ResourceClaimTemplate", True, False),
         ("resource.k8s.io/v1", "resourceslices"): ("ResourceSlice", False, False),
         ("resource.k8s.io/v1", "deviceclasses"): ("DeviceClass", False, False),
         ("blocks.patchbay/v1", "addressblocks"): ("AddressBlock", False, False),
         ("blocks.patchbay/v1", "addresspools"): ("AddressPool", False, False),
         ("blocks.patchbay/v1", "addressshortages"): ("AddressShortage", False, False)}
#: Where a field selector reads; others are refused, as a server does.
FIELDS = {"metadata.name", "metadata.namespace", "spec.nodeName", "spec.driver", "status.phase"}

#: What an update leaves as it is.
KEPT = ("uid", "creationTimestamp", "generation", "managedFields")


class Failure(Exception):
    """An answer that is a Status."""

    def __init__(self, code, reason, message, **details):
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def status(self):
        out = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
               "code": self.code} | ({"reason": self.reason} if self.reason else {})
        return out | ({"details": self.details} if self.details else {})


def qualified(kind):
    """As messages have it: addressblocks.blocks.patchbay."""
    group = kind[0].rpartition("/")[0]
    return f"{kind[1]}.{group}" if group else kind[1]


def is_custom(kind):
    return kind[0].startswith("blocks.patchbay/")


def integer(text, what, code=400, reason="BadRequest"):
    try:
        return int(text or 0)
    except ValueError:
        raise Failure(code, reason, f"{what}: Invalid value: {text!r}") from None


def field(item, path):
    for name in path.split("."):
        item = item.get(name, {}) if isinstance(item, dict) else {}
    return item if isinstance(item, str) else ""


def selector(text, value_of):
    """Whether an object has what `a=b,c!=d` says."""
    terms = []
    for term in filter(None, text.split(",")):
        key, is_not, value = term.partition("!=")
        if not is_not:
            key, _, value = term.replace("==", "=").partition("=")
        terms.append((key, bool(is_not), value))
    return lambda item: all((value_of(item, key) != value) == is_not for key, is_not, value in terms)


def selected(query):
    """Whether an object is as the parameters labelSelector and fieldSelector say."""
    fields, labels = query.get("fieldSelector", ""), query.get("labelSelector", "")
    for term in filter(None, fields.split(",")):
        if (name := term.replace("!=", "=").split("=")[0]) not in FIELDS:
            raise Failure(400, "BadRequest", f'"{name}" is not a known field selector')
    by_field = selector(fields, field)
    by_label = selector(labels, lambda item, key: item["metadata"].get("labels", {}).get(key, ""))
    return lambda item: by_field(item) and by_label(item)


def merged(old, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    out = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out


def managed(kind, item):
    """Who wrote which field, which makes an object much larger."""
    written = {".": {}} | {f"f:{name}": {} for name in item.get("spec", {})}
    return {"manager": "patchbay", "operation": "Update", "apiVersion": kind[0], "time": item["metadata"]["creationTimestamp"],
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": written}}


class Store:
    """Thread-safe. `changed` is a condition: notified with each event."""

    def __init__(self):
        self.changed = threading.Condition()
        self.version, self.oldest = 100, 100
        self.items = {kind: {} for kind in KINDS}
        self.events = []  # (version, (api, plural), type, object)
        self.saved = None

    def _event(self, kind, what, item):
        self.events.append((self.version, kind, what, copy.deepcopy(item)))
        self.changed.notify_all()

    def _put(self, kind, item, what):
        old = self.items[kind].get((item["metadata"].get("namespace", ""), item["metadata"]["name"]))
        if reason := refusal(item, old):
            raise Failure(422, "Invalid", f'{item["kind"]} "{item["metadata"]["name"]}" is invalid: {reason}')
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.items[kind][item["metadata"].get("namespace", ""), item["metadata"]["name"]] = item
        self._event(kind, what, item)
        return copy.deepcopy(item)

    def find(self, kind, space, name):
        try:
            return self.items[kind][space, name]
        except KeyError:
            raise Failure(404, "NotFound", f'{qualified(kind)} "{name}" not found', name=name, kind=kind[1]) from None

    def has(self, kind, space, name):
        with self.changed:
            return (space, name) in self.items[kind]

    def create(self, kind, space, item):
        with self.changed:
            item = copy.deepcopy(item)
            data = item.setdefault("metadata", {})
            if "generateName" in data and not data.get("name"):
                data["name"] = data["generateName"] + uuid.uuid4().hex[:5]
            if not data.get("name"):
                raise Failure(422, "Invalid", f"{KINDS[kind][0]} is invalid: metadata.name: Required value: name or generateName is required")
            if not is_subdomain(data["name"]):
                raise Failure(422, "Invalid", f'{KINDS[kind][0]} "{data["name"]}" is invalid: metadata.name: Invalid value: "{data["name"]}": a lowercase '
                              "RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'")
            if data.get("resourceVersion"):
                raise Failure(500, "", "resourceVersion should not be set on objects to be created")
            if (space, data["name"]) in self.items[kind]:
                raise Failure(409, "AlreadyExists", f'{qualified(kind)} "{data["name"]}" already exists', name=data["name"], kind=kind[1])
            data.setdefault("uid", str(uuid.uuid4()))
            data["creationTimestamp"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            if KINDS[kind][1]:
                data["namespace"] = space
            if is_custom(kind):
                data |= {"generation": 1, "managedFields": [managed(kind, item)]}
            return self._put(kind, {"kind": KINDS[kind][0], "apiVersion": kind[0]} | item, "ADDED")

    def replace(self, kind, space, item, subresource=""):
        """Of the object or its status alone, as its path says. A resourceVersion that is not the last one is a conflict."""
        with self.changed:
            name = item["metadata"]["name"]
            old = self.find(kind, space, name)
            meant = item["metadata"]
            if is_custom(kind) and not meant.get("resourceVersion"):
                raise Failure(422, "Invalid", f'{qualified(kind)} "{name}" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update')
            if meant.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
                raise Failure(409, "Conflict", f'Operation cannot be fulfilled on {qualified(kind)} "{name}": Precondition failed: UID in precondition: '
                              f'{meant["uid"]}, UID in object meta: {old["metadata"]["uid"]}', name=name, kind=kind[1])
            if meant.get("resourceVersion", old["metadata"]["resourceVersion"]) != old["metadata"]["resourceVersion"]:
                raise Failure(409, "Conflict", f'Operation cannot be fulfilled on {qualified(kind)} "{name}": the object has been modified; '
                              "please apply your changes to the latest version and try again", name=name, kind=kind[1])
            if subresource == "status":
                new = {key: value for key, value in copy.deepcopy(old).items() if key != "status"} | {
                    key: value for key, value in copy.deepcopy(item).items() if key == "status"}
            else:
                new = {"kind": old["kind"], "apiVersion": old["apiVersion"]} | copy.deepcopy(item)
                new["metadata"] = new["metadata"] | {key: old["metadata"][key] for key in KEPT if key in old["metadata"]}
                if KINDS[kind][1]:
                    new["metadata"]["namespace"] = space
                if KINDS[kind][2]:
                    new.pop("status", None)
                    new |= {"status": copy.deepcopy(old["status"])} if "status" in old else {}
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            if new == old:  # as a server: no new version
                return copy.deepcopy(old)
            return self._put(kind, new, "MODIFIED")

    def patch(self, kind, space, name, patch, subresource=""):
        with self.changed:
            old = self.find(kind, space, name)
            new = merged(old, patch)
            return self.replace(kind, space, new, subresource)

    def remove(self, kind, space, name, preconditions=None):
        with self.changed:
            old = self.find(kind, space, name)
            for key, value in (preconditions or {}).items():
                if value and old["metadata"][key] != value:
                    raise Failure(409, "Conflict", f'Operation cannot be fulfilled on {qualified(kind)} "{name}": Precondition failed: {key}', name=name)
            self.version += 1
            del self.items[kind][space, name]
            old["metadata"]["resourceVersion"] = str(self.version)
            self._event(kind, "DELETED", old)
            return copy.deepcopy(old)

    def all(self, kind, space="", query=None):
        """(objects by name, version)."""
        with self.changed:
            is_meant = selected(query or {})
            items = [copy.deepcopy(item) for (of, _), item in sorted(self.items[kind].items()) if (not space or of == space) and is_meant(item)]
            return items, self.version

    def save(self):
        """A snapshot, for restore()."""
        with self.changed:
            self.saved = self.version, copy.deepcopy(self.items)

    def restore(self):
        """As etcd does it: objects and versions are those of before. Who watches is to be disconnected."""
        with self.changed:
            self.version, self.items = self.saved[0], copy.deepcopy(self.saved[1])
            self.oldest, self.events = self.version, []
            self.changed.notify_all()

    def expire(self):
        """Forgets what happened: a watch or continued list from now or earlier gets 410."""
        with self.changed:
            self.version += 1
            self.oldest, self.events = self.version, []
            self.changed.notify_all()
