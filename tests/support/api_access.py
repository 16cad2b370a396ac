"""Files and variables by which clients reach the API server of a test: support.api_server."""

import json
import os


class Access:
    """Of a server with a folder, an address, a port, a url and a token."""

    def write_token(self, path):
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(self.token + "\n")
        os.rename(path + ".new", path)

    def in_cluster(self, root):
        """The environment of a pod; its files are below root."""
        folder = f"{root}/var/run/secrets/kubernetes.io/serviceaccount"
        os.makedirs(folder, exist_ok=True)
        self.write_token(f"{folder}/token")
        for name, content in (("ca.crt", open(f"{self.folder}/ca.crt", encoding="utf-8").read()), ("namespace", "kube-system")):
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                file.write(content)
        return {"KUBERNETES_SERVICE_HOST": self.address, "KUBERNETES_SERVICE_PORT": str(self.port)}

    def kubeconfig(self, path=None, user="token"):
        """The path of a kubeconfig. user: "token", "tokenFile", "certificate"."""
        path = path or f"{self.folder}/kubeconfig"
        self.write_token(f"{self.folder}/token")
        users = {"token": {"token": self.token}, "tokenFile": {"tokenFile": f"{self.folder}/token"},
                 "certificate": {"client-certificate": f"{self.folder}/client.crt", "client-key": f"{self.folder}/client.key"}}
        cluster = {"server": self.url} | ({"certificate-authority": f"{self.folder}/ca.crt"} if self.tls else {})
        with open(path, "w", encoding="utf-8") as file:  # JSON is YAML
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "test", "clusters": [{"name": "c", "cluster": cluster}],
                       "users": [{"name": "u", "user": users[user]}], "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}]}, file, indent=1)
        return path
