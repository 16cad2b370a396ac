"""The API server of Kubernetes' own libraries, with etcd and kubectl of the same release: scripts/kube-apiserver has them.

    api = KubeApiServer("/run/api")
    api.kubectl("apply", "-f", "-", stdin=manifest)
    api.account("n1", "system:serviceaccount:kube-system:patchbay-blocks")   # its token is in /run/api/n1.token
"""

import json
import os
import shutil
import signal
import subprocess

from support.authority import authority
from support.plugin import ROOT
from support.world import run, wait_for

FOLDER = os.environ.get("PATCHBAY_KUBE_APISERVER", "")
MANIFESTS = f"{ROOT}/conf-examples/kubernetes"
PORT, ETCD = 6443, 2379


def why_impossible():
    return None if os.path.exists(f"{FOLDER}/kube_apiserver") else "needs PATCHBAY_KUBE_APISERVER: scripts/kube-apiserver COMMAND sets it"


class Process:
    """A program of the folder, with its log."""

    def __init__(self, folder, *command):
        self.command, self.log = command, f"{folder}/{os.path.basename(command[0])}.log"
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self, by=signal.SIGKILL):
        if self.process:
            self.process.send_signal(by)
            self.process.wait(60)
            self.process = None

    def end_of_log(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]


class KubeApiServer:
    """It answers when it is made. options: flags of the server."""

    def __init__(self, folder="/run/api", *options):
        self.folder, self.accounts = folder, {}
        authority(folder)
        self.admin = self.account("admin", "admin", "system:masters")
        peer = f"http://127.0.0.1:{ETCD + 1}"
        self.etcd = Process(folder, f"{FOLDER}/etcd", "--data-dir", f"{folder}/etcd", "--listen-client-urls", self.etcd_url,
                            "--advertise-client-urls", self.etcd_url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                            "--initial-cluster", f"default={peer}", "--log-level", "warn", "--unsafe-no-fsync")
        self.server = Process(folder, f"{FOLDER}/kube_apiserver", "--folder", folder, "--port", str(PORT), "--etcd", self.etcd_url, *options)
        self.etcd.start()
        self.back()

    etcd_url = f"http://127.0.0.1:{ETCD}"
    url = f"https://127.0.0.1:{PORT}"

    def is_ready(self):
        done = subprocess.run([f"{FOLDER}/kubectl", f"--kubeconfig={self.admin}", "get", "--raw", "/readyz"], capture_output=True, text=True, timeout=60)
        return done.returncode == 0

    def back(self):
        if not self.server.process:
            self.server.start()
        if not wait_for(lambda: self.server.process.poll() is not None or self.is_ready(), 60, 0.2) or self.server.process.poll() is not None:
            raise RuntimeError("the API server is not ready: " + self.server.end_of_log())

    def away(self):
        """As when it was killed."""
        self.server.kill()

    def stop(self):
        self.server.kill()
        self.etcd.kill()

    # Who may ask.

    def account(self, name, user, *groups, node=""):
        """A token for a user; the path of a kubeconfig that has it by a file. Again: another token, and the former is refused."""
        token = f"{name}-{os.urandom(8).hex()}"
        self.accounts[name] = token, {"User": user, "Groups": list(groups), "Node": node}
        self.write(f"{self.folder}/tokens.json", json.dumps(dict(self.accounts.values())))
        return self.hand_out(name)

    def hand_out(self, name):
        """Writes the token to the file of who asks by it."""
        self.write(f"{self.folder}/{name}.token", self.accounts[name][0])
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "test",
                  "clusters": [{"name": "c", "cluster": {"server": self.url, "certificate-authority": f"{self.folder}/ca.crt"}}],
                  "users": [{"name": "u", "user": {"tokenFile": f"{self.folder}/{name}.token"}}],
                  "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}]}
        self.write(f"{self.folder}/{name}.kubeconfig", json.dumps(config))
        return f"{self.folder}/{name}.kubeconfig"

    def rotate(self, name):
        """The former token is refused from now on; the new one is in no file before hand_out()."""
        token = f"{name}-{os.urandom(8).hex()}"
        self.accounts[name] = token, self.accounts[name][1]
        self.write(f"{self.folder}/tokens.json", json.dumps(dict(self.accounts.values())))

    @staticmethod
    def write(path, text):
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(path + ".new", path)

    # Objects, by kubectl.

    def kubectl(self, *words, stdin=None, check=True, by=None):
        """What it prints; with check=False (exit status, stdout, stderr)."""
        done = subprocess.run([f"{FOLDER}/kubectl", f"--kubeconfig={by or self.admin}", *words], input=stdin, capture_output=True, text=True, timeout=120)
        if not check:
            return done.returncode, done.stdout, done.stderr
        if done.returncode:
            raise RuntimeError(f"kubectl {words}: {done.stderr}")
        return done.stdout

    def apply(self, manifest, *words):
        return self.kubectl("apply", *words, "-f", f"{MANIFESTS}/{manifest}")

    def create(self, api, plural, item, space="default"):
        """The object; its status, too, which is a call of its own."""
        kind = {"nodes": "Node", "namespaces": "Namespace", "resourceclaims": "ResourceClaim", "pods": "Pod"}[plural]
        meant = {"apiVersion": api, "kind": kind} | item
        made = json.loads(self.kubectl("create", "-n", space, "-o", "json", "-f", "-", stdin=json.dumps(meant)))
        if "status" in meant:
            made["status"] = meant["status"]
            made = json.loads(self.kubectl("replace", "--subresource=status", "-o", "json", "-f", "-", stdin=json.dumps(made)))
        return made

    def get(self, _api, plural, name, space="default"):
        """The object, or None."""
        found = self.kubectl("get", plural, name, "-n", space, "--ignore-not-found", "-o", "json")
        return json.loads(found) if found else None

    def list(self, _api, plural):
        return json.loads(self.kubectl("get", plural, "-o", "json"))["items"]

    def remove(self, _api, plural, name):
        self.kubectl("delete", plural, name)

    # What happens to etcd.

    def etcdctl(self, *words):
        return run("env", "ETCDCTL_API=3", f"{FOLDER}/etcdctl", f"--endpoints={self.etcd_url}", *words)

    def save(self):
        self.etcdctl("snapshot", "save", f"{self.folder}/saved")

    def restore(self):
        """Both are stopped for it, and have afterwards what was saved."""
        self.away()
        self.etcd.kill()
        shutil.rmtree(f"{self.folder}/etcd")
        peer = f"http://127.0.0.1:{ETCD + 1}"
        run(f"{FOLDER}/etcdutl", "snapshot", "restore", f"{self.folder}/saved", "--data-dir", f"{self.folder}/etcd", "--initial-cluster", f"default={peer}",
            "--initial-advertise-peer-urls", peer)
        self.etcd.start()
        self.back()

    def compact(self):
        """Forgets all that etcd had before."""
        shown = json.loads(self.etcdctl("endpoint", "status", "-w", "json"))
        self.etcdctl("compact", "--physical", str(shown[0]["Status"]["header"]["revision"]))
