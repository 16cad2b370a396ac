"""A Kubernetes API server in the test's process: TLS, tokens, client certificates, lists, watches, and all that it may do wrong.

    api = ApiServer("/run/api")                   # its CA, certificates and token are there
    api.create("v1", "nodes", {"metadata": {"name": "n1"}})
    path = api.kubeconfig()                       # for whoever is to speak to it
    api.fault(method="PUT", path="resourceslices", times=2, status=409)

What it stores is support.api_objects. It stays where it was made: start it after the test has entered its namespaces.
"""

import base64
import http.server
import json
import os
import re
import socket
import ssl
import threading
import time
import urllib.parse

from support.api_access import Access
from support.api_listener import listen
from support.api_objects import KINDS, Failure, Store, integer, is_custom, merged, qualified, selected
from support.authority import authority

PATH = re.compile(r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+/[^/]+))(?:/namespaces/(?P<space>[^/]+))?/(?P<plural>[a-z]+)"
                  r"(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[a-z]+))?$")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout, disable_nagle_algorithm = 120, True

    def log_message(self, *_):
        pass

    def setup(self):
        self.api = self.server.api
        self.request.settimeout(10)
        if self.api.tls:
            self.request = self.api.tls.wrap_socket(self.request, server_side=True)
        with self.api.lock:
            self.api.connections.add(self.request)
        super().setup()

    def finish(self):
        with self.api.lock:
            self.api.connections.discard(self.request)
        super().finish()

    # Answers.

    def answer(self, code, body, headers=()):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.noted["code"] = code  # before the client has the answer
        self.send_response(code)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(content)), **dict(headers)}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def fail(self, failure, headers=()):
        self.answer(failure.code, failure.status(), headers)

    def do_anything(self):
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        self.is_watch = self.query.get("watch") in ("1", "true")
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        fault = self.api.take_fault("WATCH" if self.is_watch else self.command, self.path)
        self.noted = {"method": "WATCH" if self.is_watch else self.command, "path": self.path, "code": 0,
                      "agent": self.headers.get("User-Agent"), "at": time.monotonic()}
        with self.api.lock:
            self.api.requests.append(self.noted)
        try:
            if not self.misbehave(fault):
                self.serve(url.path, body, fault)
        except Failure as failure:
            self.fail(failure)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_anything

    def misbehave(self, fault):
        """Whether the request was answered by what is wrong with it."""
        if "slow" in fault:
            self.api.sleep(fault["slow"])
        if fault.get("close"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return True
        if "raw" in fault:  # bytes instead of the whole answer
            self.wfile.write(fault["raw"])
            self.close_connection = True
            return True
        if "huge" in fault:  # bytes of one body
            self.send_response(200)
            self.send_header("Content-Length", str(fault["huge"]))
            self.end_headers()
            for _ in range(fault["huge"] >> 16):
                self.wfile.write(b" " * 65536)
            return True
        if "body" in fault:
            content = fault["body"] if isinstance(fault["body"], bytes) else json.dumps(fault["body"]).encode()
            self.answer(fault.get("status", 200), content, fault.get("headers", {}).items())
            return True
        if "status" in fault:
            self.fail(Failure(fault["status"], fault.get("reason", "Fault"), fault.get("message", "this server was asked to fail")),
                      fault.get("headers", {}).items())
            return True
        return False

    # What a server does.

    def authenticate(self):
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        has_certificate = self.api.tls and self.connection.getpeercert()
        if token not in self.api.tokens and not has_certificate:
            raise Failure(401, "Unauthorized", "Unauthorized")
        return None if has_certificate else self.api.account

    def serve(self, path, body, fault):
        account = self.authenticate()
        match = PATH.match(path)
        kind = match and (match["core"] or match["group"], match["plural"])
        if match and account:  # before it says whether there is such a resource
            account.check(self.command, self.is_watch, kind, (match["name"], match["subresource"] or ""))
        if kind not in KINDS:
            return self.answer(404, b"404 page not found\n", {"Content-Type": "text/plain; charset=utf-8"})
        space, name, subresource, store = match["space"] or "", match["name"], match["subresource"] or "", self.api.store
        if subresource == "status" and not KINDS[kind][2]:
            raise Failure(404, "NotFound", f'{qualified(kind)} "{name}" not found')
        if self.command == "GET" and not name:
            return self.watch(kind, space, fault) if self.is_watch else self.list(kind, space, fault)
        if self.command == "GET":
            with store.changed:
                return self.write(200, store.find(kind, space, name), fault)
        if self.command == "DELETE":
            options = json.loads(body or b"{}")
            store.remove(kind, space, name, options.get("preconditions"))
            return self.write(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, fault)
        try:
            item = json.loads(body)
        except ValueError:
            raise Failure(400, "BadRequest", "the object provided is unrecognized") from None
        return self.change((kind, space, name, subresource), item, account, fault)

    def change(self, of, item, account, fault):
        kind, space, name, subresource = of
        store = self.api.store
        if self.command == "POST":
            self.check(kind, name, item)
            return self.write(201, store.create(kind, space, item), fault)
        is_apply = self.headers["Content-Type"] == "application/apply-patch+yaml"
        if self.command == "PATCH" and not is_apply and self.headers["Content-Type"] != "application/merge-patch+json":
            raise Failure(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        if is_apply and not self.query.get("fieldManager"):
            raise Failure(422, "Invalid", 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch')
        if is_apply and not subresource and not store.has(kind, space, name):
            return self.write(201, store.create(kind, space, item), fault)
        with store.changed:
            old = store.find(kind, space, name)
            new = item if self.command == "PUT" else merged(old, item)
            if account:
                account.check_status(self.command, (*kind, subresource), old, new)
            self.check(kind, name, new)
        if self.command == "PUT":
            return self.write(200, store.replace(kind, space, item, subresource), fault)
        return self.write(200, store.patch(kind, space, name, item, subresource), fault)

    def check(self, kind, name, item):
        """What a server looks at before it does anything. name: in the path."""
        if item.get("apiVersion", kind[0]) != kind[0]:
            raise Failure(400, "BadRequest", f"the API version in the data ({item['apiVersion']}) does not match the expected API version ({kind[0]})")
        if item.get("kind", KINDS[kind][0]) != KINDS[kind][0]:
            raise Failure(*((422, "Invalid") if is_custom(kind) else (400, "BadRequest")), f'kind: Invalid value: "{item["kind"]}": must be {KINDS[kind][0]}')
        if name and item["metadata"]["name"] != name:
            raise Failure(400, "BadRequest", f"the name of the object ({item['metadata']['name']}) does not match the name on the URL ({name})")
        if self.api.account:
            self.api.account.check_schema(kind, item, self.query.get("fieldValidation") == "Strict")

    def write(self, code, item, fault):
        content = json.dumps(item).encode()
        self.api.sleep(fault.get("late", 0))
        if not fault.get("torn"):
            return self.answer(code, content)
        self.send_response(code)  # the connection ends in the middle of the body
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:len(content) // 2])
        self.close_connection = True

    def list(self, kind, space, fault):
        store, token = self.api.store, self.query.get("continue")
        if token:
            try:
                version, start = json.loads(base64.b64decode(token))
            except ValueError:
                raise Failure(400, "BadRequest", "continue key is not valid") from None
            with store.changed:
                if version < store.oldest:
                    raise Failure(410, "Expired", "The provided continue parameter is too old")
            items = self.api.snapshots[kind, version]
        else:
            items, version = store.all(kind, space, self.query)
            self.api.snapshots[kind, version], start = items, 0
        most = integer(self.query.get("limit"), "limit") or len(items)
        data = {"resourceVersion": str(version)}
        if start + most < len(items):
            data |= {"continue": base64.b64encode(json.dumps([version, start + most]).encode()).decode(),
                     "remainingItemCount": len(items) - start - most}
        shown = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items[start:start + most]]
        self.write(200, {"kind": KINDS[kind][0] + "List", "apiVersion": kind[0], "metadata": data, "items": shown}, fault)

    def chunk(self, content):
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()

    def event(self, what, item):
        self.chunk(json.dumps({"type": what, "object": item}).encode() + b"\n")

    def watch(self, kind, space, fault):
        store, is_meant = self.api.store, selected(self.query)
        version = integer(self.query.get("resourceVersion"), "resourceVersion", 500, "")
        end = time.monotonic() + min(float(self.query.get("timeoutSeconds") or 1800), self.api.watch_limit)
        self.noted["code"] = 200
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if fault.get("silent"):
            self.api.sleep(fault["silent"])
            self.close_connection = True
            return
        if "lines" in fault:  # bytes instead of events
            self.chunk(fault["lines"])
            self.close_connection = True
            return
        if "drip" in fault:  # spaces, which end no line
            while not self.api.is_away:
                self.chunk(b" ")
                self.api.sleep(fault["drip"])
        if version == 0:  # any state, with an event for each object of it
            items, version = store.all(kind, space, self.query)
            for item in items:
                self.event("ADDED", item)
        if version < store.oldest:
            self.event("ERROR", Failure(410, "Expired", f"too old resource version: {version} ({store.oldest})").status())
        else:
            self.events(kind, (space, is_meant), version, end, fault)
        if not self.close_connection:
            self.chunk(b"")

    def events(self, kind, wanted, version, end, fault):
        store, (space, is_meant), marked = self.api.store, wanted, time.monotonic()
        ends = self.api.ends
        while time.monotonic() < end and not self.api.is_away and self.api.ends == ends:
            with store.changed:
                if version < store.oldest and not store.events:
                    return self.event("ERROR", Failure(410, "Expired", "too old resource version").status())
                last = store.version  # before the wait: what comes in it is sent in the next turn
                if not (new := [one for one in store.events if one[0] > version]):
                    store.changed.wait(0.1)
            for at, of, what, item in new:
                version = at
                if of != kind or (space and item["metadata"].get("namespace") != space) or not is_meant(item):
                    continue
                if fault.get("torn"):
                    self.chunk(json.dumps({"type": what, "object": item}).encode()[:-20])
                    self.close_connection = True
                    return None
                self.event(what, item)
            if self.query.get("allowWatchBookmarks") == "true" and time.monotonic() - marked >= self.api.bookmarks and not new:
                marked, version = time.monotonic(), last
                self.event("BOOKMARK", {"kind": KINDS[kind][0], "apiVersion": kind[0], "metadata": {"resourceVersion": str(version)}})
        return None


class ApiServer(Access):
    """It listens when it is made. watch_limit: seconds after which it ends a watch; bookmarks: seconds between two."""

    def __init__(self, folder="/run/api", *, address="127.0.0.1", tls=True):
        self.folder, self.address, self.port = folder, address, 0
        self.store, self.tokens, self.token = Store(), {"first-token"}, "first-token"
        self.account = None  # support.api_rights: what who has a token may do; None: everything
        self.lock, self.connections, self.requests, self.faults, self.snapshots = threading.Lock(), set(), [], [], {}
        self.watch_limit, self.bookmarks, self.is_away, self.tls, self.ends = 1800, 5, True, None, 0
        self.certify(tls)
        self.back()

    def certify(self, tls=True):
        """Makes an authority and certificates; again: instead of those from before."""
        authority(self.folder, self.address if ":" not in self.address else "127.0.0.1")
        if tls:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(f"{self.folder}/server.crt", f"{self.folder}/server.key")
            self.tls.load_verify_locations(f"{self.folder}/ca.crt")
            self.tls.verify_mode = ssl.CERT_OPTIONAL

    @property
    def url(self):
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    def back(self):
        """Listens, at the port that it had before."""
        if self.is_away:
            self.is_away = False
            self.listener = listen(self.address, self.port, Handler)
            self.listener.api, self.port = self, self.listener.server_port
            threading.Thread(target=self.listener.serve_forever, args=(0.05,), daemon=True).start()

    def away(self):
        """Ends all connections and refuses new ones, as when it was killed. What it stores stays."""
        if not self.is_away:
            self.is_away = True
            self.listener.shutdown()
            self.listener.server_close()
            self.disconnect()

    stop = away

    def disconnect(self):
        with self.lock:
            connections = list(self.connections)
        for one in connections:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end_watches(self):
        """All, as at their time: without an error."""
        with self.store.changed:
            self.ends += 1
            self.store.changed.notify_all()

    def sleep(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.is_away:
            time.sleep(0.02)

    def fault(self, method="", path="", times=1, **what):
        """The next requests of that method ("WATCH" for a watch) whose path and query match: misbehave(), or torn, silent, lines.

        status, reason, message, headers; slow: seconds; late: seconds, after it was done; close; raw: bytes; huge: bytes; body: bytes or JSON; torn."""
        with self.lock:
            self.faults.append({"method": method, "path": path, "times": times, **what})

    def no_faults(self):
        with self.lock:
            self.faults.clear()

    def take_fault(self, method, path):
        with self.lock:
            for one in self.faults:
                if one["times"] > 0 and one["method"] in ("", method) and re.search(one["path"], path):
                    one["times"] -= 1
                    return one
        return {}

    def rotate(self, token):
        """The only token from now on. in_cluster() or kubeconfig() writes it to the client's file."""
        self.tokens, self.token = {token}, token

    def seen(self, method="", path=""):
        """Requests so far: [{method, path, agent, at, code}]; code is 0 before the answer, and where there is none."""
        with self.lock:
            return [one for one in self.requests if one["method"] in (method, one["method"] if not method else "") and re.search(path, one["path"])]

    # Objects, without HTTP.

    def create(self, api, plural, item, space=""):
        return self.store.create((api, plural), space, item)

    def get(self, api, plural, name, space=""):
        """The object, or None."""
        return next((one for one in self.store.all((api, plural), space)[0] if one["metadata"]["name"] == name), None)

    def list(self, api, plural, space=""):
        return self.store.all((api, plural), space)[0]

    def patch(self, api, plural, name, patch, space="", subresource=""):
        return self.store.patch((api, plural), space, name, patch, subresource)

    def remove(self, api, plural, name, space=""):
        return self.store.remove((api, plural), space, name)
