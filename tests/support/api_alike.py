"""The same requests to two API servers, whose answers must be of one kind: what the simulated one (support.api_server) says is what
Kubernetes says."""

import http.client
import json
import ssl
import time

API = "/apis/blocks.patchbay/v1/addressblocks"
SPEC = {"network": "lab", "cidr": "10.9.0.16/28", "node": "n1", "machine": "m", "claim": "c"}


# A name of agents, as the definition demands it: of a network that is no DNS name.
def block(name="n-one", version="", **spec):
    data = {"name": name} | ({"resourceVersion": version} if version else {})
    return {"apiVersion": "blocks.patchbay/v1", "kind": "AddressBlock", "metadata": data, "spec": SPEC | spec}


class Asked:
    """A server at a port, by a token. admin: the same by who may do everything; certificate: of a client, beside its key."""

    def __init__(self, port, ca, token, *, admin=None, certificate=""):
        self.port, self.token, self.admin, self.tls = port, token, admin, ssl.create_default_context(cafile=ca)
        if certificate:
            self.tls.load_cert_chain(certificate, certificate.replace(".crt", ".key"))

    def ask(self, *request, **more):
        """(code, object): of a watch, which is to end by timeoutSeconds, the list of events. Again after 429, as of a server that starts."""
        while True:
            code, body, header = self.ask_once(*request, **more)
            if code != 429:
                return code, body
            time.sleep(int(header))

    def ask_once(self, method, path, body=None, kind="application/json", token=None):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self.tls)
        content = body if isinstance(body, (str, type(None))) else json.dumps(body)
        connection.request(method, path, content, {"Authorization": f"Bearer {self.token if token is None else token}", "Content-Type": kind})
        with connection.getresponse() as answer:
            text = answer.read().decode()
        connection.close()
        lines = [self.parsed(line) for line in text.splitlines() if line]
        return answer.status, lines if "watch=" in path and answer.status == 200 else self.parsed(text), answer.headers.get("Retry-After")

    @staticmethod
    def parsed(text):
        try:
            return json.loads(text)
        except ValueError:
            return {"text": text}


def sign(answer):
    """What a client decides by."""
    code, body = answer
    if isinstance(body, list):
        return code, [one if isinstance(one, str) else (one["type"], one["object"].get("code"), one["object"].get("reason"), one["object"]["metadata"].get("name")) for one in body]
    return code, body.get("kind"), body.get("reason"), body.get("status") if body.get("kind") == "Status" else None


def version(server, name="n-one"):
    return server.ask("GET", f"{API}/{name}")[1]["metadata"]["resourceVersion"]


def uid(server, name="n-one"):
    return server.ask("GET", f"{API}/{name}")[1]["metadata"]["uid"]


def removal(**preconditions):
    return {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}


MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
#: (what, what is asked of a server), in this order.
STEPS = [
    ("none", lambda s: s.ask("GET", f"{API}/n-one")),
    ("empty list", lambda s: s.ask("GET", API)),
    ("create", lambda s: s.ask("POST", API, block())),
    ("create again", lambda s: s.ask("POST", API, block())),
    ("without a name", lambda s: s.ask("POST", API, block(""))),
    ("a wrong name", lambda s: s.ask("POST", API, block("A_b"))),
    ("a text for a field", lambda s: s.ask("POST", API, block("n-two", cidr=5))),
    ("no JSON", lambda s: s.ask("POST", API, "{")),
    ("another kind", lambda s: s.ask("POST", API, block() | {"kind": "AddressPool"})),
    ("another version", lambda s: s.ask("POST", API, block("n-two") | {"apiVersion": "blocks.patchbay/v2"})),
    ("an unknown field, strictly", lambda s: s.ask("POST", f"{API}?fieldValidation=Strict", block("n-two", other="x"))),
    ("an unknown field", lambda s: s.ask("POST", API, block("n-two", other="x"))),
    ("without the unknown field", lambda s: (200, sorted(s.ask("GET", f"{API}/n-two")[1]["spec"]))),
    ("remove it", lambda s: s.ask("DELETE", f"{API}/n-two", removal())),
    ("replace by an unknown field, strictly", lambda s: s.ask("PUT", f"{API}/n-one?fieldValidation=Strict", block("n-one", version(s), other="x"))),
    ("a version at creation", lambda s: s.ask("POST", API, block("n-two", "5"))),
    ("replace", lambda s: s.ask("PUT", f"{API}/n-one", block("n-one", version(s), node="n2"))),
    ("replace without a version", lambda s: s.ask("PUT", f"{API}/n-one", block("n-one"))),
    ("replace an older one", lambda s: s.ask("PUT", f"{API}/n-one", block("n-one", "1"))),
    ("replace what does not exist", lambda s: s.ask("PUT", f"{API}/n-three", block("n-three", "1"))),
    ("replace by another name", lambda s: s.ask("PUT", f"{API}/n-one", block("n-two", version(s)))),
    ("replace of another uid", lambda s: s.ask("PUT", f"{API}/n-one", {**(found := block("n-one", version(s))), "metadata": found["metadata"] | {"uid": "x"}})),
    ("merge", lambda s: s.admin.ask("PATCH", f"{API}/n-one", {"spec": {"node": "n3"}}, MERGE)),
    ("merge what does not exist", lambda s: s.admin.ask("PATCH", f"{API}/n-three", {"spec": {"node": "n3"}}, MERGE)),
    ("merge of an older one", lambda s: s.admin.ask("PATCH", f"{API}/n-one", {"metadata": {"resourceVersion": "1"}, "spec": {"node": "n4"}}, MERGE)),
    ("merge into a wrong one", lambda s: s.admin.ask("PATCH", f"{API}/n-one", {"spec": {"node": None}}, MERGE)),
    ("apply without a manager", lambda s: s.admin.ask("PATCH", f"{API}/n-one", block(node="n5"), APPLY)),
    ("apply", lambda s: s.admin.ask("PATCH", f"{API}/n-one?fieldManager=test&force=true", block(node="n5"), APPLY)),
    ("apply what does not exist", lambda s: s.admin.ask("PATCH", f"{API}/n-two?fieldManager=test", block("n-two"), APPLY)),
    ("remove what was applied", lambda s: s.ask("DELETE", f"{API}/n-two", removal())),
    ("an unknown kind of patch", lambda s: s.admin.ask("PATCH", f"{API}/n-one", {}, "application/json")),
    ("a status that there is not", lambda s: s.admin.ask("PATCH", f"{API}/n-one/status", {"status": {}}, MERGE)),
    ("remove another uid", lambda s: s.ask("DELETE", f"{API}/n-one", removal(uid="x"))),
    ("remove an older one", lambda s: s.ask("DELETE", f"{API}/n-one", removal(uid=uid(s), resourceVersion="1"))),
    ("remove what does not exist", lambda s: s.ask("DELETE", f"{API}/n-three", removal(uid="x"))),
    ("by a name", lambda s: s.ask("GET", f"{API}?fieldSelector=metadata.name%3Dn-one")),
    ("by an unknown field", lambda s: s.ask("GET", f"{API}?fieldSelector=spec.other%3Done")),
    ("a wrong limit", lambda s: s.ask("GET", f"{API}?limit=x")),
    ("a wrong token to continue", lambda s: s.ask("GET", f"{API}?limit=1&continue=x")),
    ("a watch from any state", lambda s: s.ask("GET", f"{API}?watch=true&resourceVersion=0&timeoutSeconds=1")),
    ("a watch without a version", lambda s: s.ask("GET", f"{API}?watch=true&timeoutSeconds=1")),
    ("a watch of what was", lambda s: s.ask("GET", f"{API}?watch=true&resourceVersion={version(s)}&timeoutSeconds=1")),
    ("a watch of a wrong version", lambda s: s.ask("GET", f"{API}?watch=true&resourceVersion=x&timeoutSeconds=1")),
    ("remove", lambda s: s.ask("DELETE", f"{API}/n-one", removal(uid=uid(s), resourceVersion=version(s)))),
    ("remove again", lambda s: s.ask("DELETE", f"{API}/n-one", removal())),
    ("no such resource", lambda s: s.ask("GET", "/apis/blocks.patchbay/v1/others")),
    ("no such group", lambda s: s.ask("GET", "/apis/other.patchbay/v1/addressblocks")),
    ("another token", lambda s: s.ask("GET", API, token="other")),
    ("no token", lambda s: s.ask("GET", API, token="")),
    ("no such resource, by who may", lambda s: s.admin.ask("GET", "/apis/blocks.patchbay/v1/others")),
    ("no such group, by who may", lambda s: s.admin.ask("GET", "/apis/other.patchbay/v1/addressblocks")),
    ("no such pod", lambda s: s.admin.ask("GET", "/api/v1/namespaces/default/pods/x")),
    ("a patch without the right", lambda s: s.ask("PATCH", f"{API}/n-one", {"spec": {"node": "n3"}}, MERGE)),
    ("a right that there is not", lambda s: s.ask("GET", "/api/v1/nodes")),
    ("a right for others", lambda s: s.ask("GET", "/api/v1/namespaces/default/pods/x")),
    ("a node", lambda s: s.ask("GET", "/api/v1/nodes/n0")),
]
