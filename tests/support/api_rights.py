"""What a Kubernetes API server lets the pods of a manifest do: RBAC of its service account, the authorization of a claim's status
that Kubernetes has since 1.36, and the schemas of the custom resources which the manifest defines.

    api.account = Account("patchbay-agent.yaml", "n1")      # for all who have the token; a client certificate may do everything
    api.account.used                                         # {(verb, resource)} so far
"""

import json

import yaml

from support.api_objects import Failure
from support.api_rules import key_of
from support.plugin import ROOT

VERBS = {"GET": "get", "POST": "create", "PUT": "update", "DELETE": "delete", "PATCH": "patch"}
CLAIM_STATUS = ("resource.k8s.io/v1", "resourceclaims", "status")


def documents(manifest):
    """Objects of a file of conf-examples/kubernetes."""
    with open(f"{ROOT}/conf-examples/kubernetes/{manifest}", encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def node_selector(node):
    """Of an allocation with devices of one node, as the scheduler makes it."""
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}


def unknown(item, schema, path=""):
    """Paths of what a server would remove from a custom resource."""
    found = []
    for key, value in item.items():
        known = schema.get("properties", {}).get(key)
        if known is None:
            found.append(f"{path}.{key}")
        elif isinstance(value, dict):
            found += unknown(value, known, f"{path}.{key}")
    return found


def drop(item, paths):
    for path in paths:
        *parents, last = path.split(".")
        of = item
        for one in parents:
            of = of[one]
        del of[last]


class Account:
    """The service account of the DaemonSet of a manifest, by the token of its pod on the node."""

    def __init__(self, manifest, node):
        self.node, self.used, docs = node, set(), documents(manifest)

        def of(kind):
            return [one for one in docs if one["kind"] == kind]

        daemon, = of("DaemonSet")
        name, space = daemon["spec"]["template"]["spec"]["serviceAccountName"], daemon["metadata"]["namespace"]
        assert any(one["metadata"]["name"] == name and one["metadata"]["namespace"] == space for one in of("ServiceAccount"))
        self.user = f"system:serviceaccount:{space}:{name}"
        subject = {"kind": "ServiceAccount", "name": name, "namespace": space}
        roles = {one["roleRef"]["name"] for one in of("ClusterRoleBinding") if subject in one["subjects"]}
        self.rules = [rule for one in of("ClusterRole") if one["metadata"]["name"] in roles for rule in one["rules"]]
        self.schemas = {(f"{one['spec']['group']}/{version['name']}", one["spec"]["names"]["plural"]): version["schema"]["openAPIV3Schema"]
                        for one in of("CustomResourceDefinition") for version in one["spec"]["versions"] if version["served"]}

    def rights(self):
        return {(verb, resource) for rule in self.rules for resource in rule["resources"] for verb in rule["verbs"]}

    def may(self, verb, group, resource, name=""):
        allowed = any(verb in rule["verbs"] and resource in rule["resources"] and group in rule["apiGroups"]
                      and name in rule.get("resourceNames", [name]) for rule in self.rules)
        if allowed:
            self.used.add((verb, resource))
        return allowed

    def check(self, method, is_watch, kind, of):
        """Refuses a request as RBAC does. of: name and subresource."""
        name, subresource = of
        verb = "watch" if is_watch else "list" if method == "GET" and not name else VERBS[method]
        group = kind[0].rpartition("/")[0]
        resource = f"{kind[1]}/{subresource}" if subresource else kind[1]
        if not self.may(verb, group, resource, name or ""):
            raise Failure(403, "Forbidden", f'{kind[1]} is forbidden: User "{self.user}" cannot {verb} resource "{resource}" in API group "{group}"')

    def check_status(self, method, what, old, new):
        """Refuses a change of a claim's status: of each driver whose devices change it needs a right, and another of all else."""
        if what != CLAIM_STATUS:
            return
        before, after, verb, group = old.get("status", {}), new.get("status", {}), VERBS[method], "resource.k8s.io"
        if any(before.get(part) != after.get(part) for part in ("allocation", "reservedFor")) and not self.may(verb, group, "resourceclaims/binding"):
            raise Failure(422, "Invalid", "status: Forbidden: changing status.allocation or status.reservedFor requires resourceclaims/binding")
        is_associated = after.get("allocation", {}).get("nodeSelector") == node_selector(self.node)
        prefixes = ("associated-node:", "arbitrary-node:") if is_associated else ("arbitrary-node:",)
        devices = [{json.dumps((key_of(one), one), sort_keys=True) for one in status.get("devices", [])} for status in (before, after)]
        for driver in {json.loads(one)[1]["driver"] for one in devices[0] ^ devices[1]}:
            if not any(self.may(prefix + verb, group, "resourceclaims/driver", driver) for prefix in prefixes):
                raise Failure(422, "Invalid", f'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", '
                                              f'verb="{[prefix + verb for prefix in prefixes]}" permission for {driver}')

    def check_schema(self, kind, item, is_strict=True):
        """Refuses a custom resource that its definition does not describe. What is not in it is refused, too, or dropped."""
        if schema := self.schemas.get(kind):
            if lost := unknown(item.get("spec", {}), schema["properties"]["spec"], "spec"):
                if is_strict:
                    raise Failure(400, "BadRequest", f'{item.get("kind")} in version "v1" cannot be handled as a {item.get("kind")}: strict decoding error: '
                                  + ", ".join(f'unknown field "{one}"' for one in lost))
                drop(item, lost)
            import jsonschema  # it takes a quarter of a second, and most tests have no custom resources
            try:
                jsonschema.validate({key: value for key, value in item.items() if key not in ("apiVersion", "kind", "metadata")}, schema)
            except jsonschema.ValidationError as error:
                raise Failure(422, "Invalid", f"{error.json_path}: {error.message}") from None
