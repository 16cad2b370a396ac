"""etcd as a process of a test: a member of its own, with or without TLS and users; what is in it; snapshots."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time

from support.authority import authority
from support.world import run, wait_for

PREFIX = "/patchbay"


class Etcd:
    """It listens when it is made. user: (name, password), who may then do all below PREFIX."""

    def __init__(self, folder="/run/etcd", *, port=2379, tls=False, user=None, flags=()):
        self.folder, self.port, self.user, self.flags = folder, port, user, list(flags)
        self.scheme, self.data = "https" if tls else "http", f"{folder}/data"
        os.makedirs(folder, exist_ok=True)
        if tls:
            authority(folder)
        self.process = None
        self.start()
        if user:
            for words in (["user", "add", "root:root"], ["user", "grant-role", "root", "root"], ["role", "add", "patchbay"],
                          ["role", "grant-permission", "patchbay", "--prefix=true", "readwrite", PREFIX + "/"],
                          ["user", "add", ":".join(user)], ["user", "grant-role", user[0], "patchbay"], ["auth", "enable"]):
                self.control(*words, by=None)

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def conf(self, *urls):
        """What goes into the config of the agent."""
        out = {"endpoints": list(urls) or [self.url], "prefix": PREFIX}
        if self.scheme == "https":
            out |= {"ca": f"{self.folder}/ca.crt", "cert": f"{self.folder}/client.crt", "key": f"{self.folder}/client.key"}
        if self.user:
            with open(f"{self.folder}/password", "w", encoding="ascii") as file:
                file.write(self.user[1] + "\n")
            out |= {"username": self.user[0], "passwordFile": f"{self.folder}/password"}
        return out

    def start(self, wait=True):
        """wait: until etcdctl reaches it, which trusts what clients do."""
        peer = f"http://127.0.0.1:{self.port + 1}"
        command = ["etcd", "--name", "m1", "--data-dir", self.data, "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                   "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"m1={peer}", "--logger", "zap",
                   "--log-level", "warn", *self.flags]
        if self.scheme == "https":
            command += ["--cert-file", f"{self.folder}/server.crt", "--key-file", f"{self.folder}/server.key",
                        "--trusted-ca-file", f"{self.folder}/ca.crt", "--client-cert-auth"]
        with open(f"{self.folder}/log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if wait and not wait_for(self.answers, 20, 0.05):
            with open(f"{self.folder}/log", encoding="utf-8") as log:
                raise RuntimeError("etcd does not answer: " + log.read()[-2000:])

    def certify(self, name, seconds):
        """A new certificate for server or client, with the key that it has. The time when it ends."""
        end = int(time.time()) + seconds
        with open(f"{self.folder}/ca.conf", "w", encoding="ascii") as file:
            file.write(f"[ca]\ndefault_ca=a\n[a]\ndatabase={self.folder}/index\nnew_certs_dir={self.folder}\nrand_serial=yes\nunique_subject=no\n"
                       "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\norganizationName=optional\n")
        open(f"{self.folder}/index", "w", encoding="ascii").close()
        run("openssl", "ca", "-batch", "-notext", "-config", f"{self.folder}/ca.conf", "-cert", f"{self.folder}/ca.crt", "-keyfile",
            f"{self.folder}/ca.key", "-in", f"{self.folder}/{name}.csr", "-out", f"{self.folder}/{name}.new", "-extfile", f"{self.folder}/{name}.ext",
            "-startdate", time.strftime("%Y%m%d%H%M%SZ", time.gmtime(end - 3600)), "-enddate", time.strftime("%Y%m%d%H%M%SZ", time.gmtime(end)))
        os.rename(f"{self.folder}/{name}.new", f"{self.folder}/{name}.crt")
        return end

    def answers(self):
        with contextlib.suppress(RuntimeError):
            return "healthy" in self.control("endpoint", "health", by=None, seconds=3) or True
        return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    stop = kill

    def control(self, *words, by="root:root", stdin=None, seconds=30):
        """etcdctl. `seconds`: a busy machine answers late."""
        command = ["etcdctl", f"--endpoints={self.url}", "--dial-timeout=1s", f"--command-timeout={seconds}s"]
        if self.scheme == "https":
            command += [f"--cacert={self.folder}/ca.crt", f"--cert={self.folder}/client.crt", f"--key={self.folder}/client.key"]
        if by and self.user:
            command.append(f"--user={by}")
        return run("env", "ETCDCTL_API=3", *command, *words, stdin=stdin)

    def objects(self, kind="blocks"):
        """{key: value} below PREFIX/kind/."""
        start = f"{PREFIX}/{kind}/"
        pairs = json.loads(self.control("get", start, "--prefix", "-w", "json")).get("kvs", [])
        return {base64.b64decode(one["key"]).decode().removeprefix(start): json.loads(base64.b64decode(one["value"])) for one in pairs}

    def save(self, path):
        self.control("snapshot", "save", path)

    def restore(self, path):
        """Stopped, it starts again with what was saved."""
        self.kill()
        shutil.rmtree(self.data)
        peer = f"http://127.0.0.1:{self.port + 1}"
        run("env", "ETCDCTL_API=3", shutil.which("etcdutl") or "etcdctl", "snapshot", "restore", path, "--name", "m1", "--data-dir", self.data, "--initial-cluster",
            f"m1={peer}", "--initial-advertise-peer-urls", peer)
        self.start()
