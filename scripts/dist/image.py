"""Images for several architectures, as tar files in the layout of the OCI image specification, which skopeo, podman and
containerd read: one installs the plugins on a node and is nothing but their executable, the other is patchbay-agent and its libc."""

import datetime
import hashlib
import io
import json
import tarfile

from dist.common import compressed, git, version

KIND = "application/vnd.oci.image."
#: What an image is named, what it is for, and what it runs.
INSTALLER = ("patchbay", "installs the CNI plugins of patchbay into a directory of the node",
             {"Entrypoint": ["/patchbay", "install", "--watch"], "Cmd": ["/opt/cni/bin"]})
AGENT = ("patchbay-agent", "offers devices of the node to pods of Kubernetes", {"Entrypoint": ["/usr/sbin/patchbay-agent"]})


def encoded(document):
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def packed(files, when):
    """A tar file of {name: (mode, content)}."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, (mode, content) in files.items():
            info = tarfile.TarInfo(name)
            info.mtime, info.mode, info.size = when, mode, len(content)
            tar.addfile(info, io.BytesIO(content))
    return raw.getvalue()


class Layout:
    """Blobs by their digest."""

    def __init__(self, what, when):
        self.name, self.purpose, self.runs = what
        self.when = when
        self.blobs = {}

    def put(self, kind, content, **more):
        """The descriptor of a blob."""
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": KIND + kind, "digest": f"sha256:{digest}", "size": len(content)} | more

    def labels(self):
        about = {"title": self.name, "description": self.purpose, "version": version(), "licenses": "Apache-2.0",
                 "created": datetime.datetime.fromtimestamp(self.when, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
        if revision := git("rev-parse", "HEAD"):
            about["revision"] = revision
        return {f"org.opencontainers.image.{name}": value for name, value in about.items()}

    def image(self, architecture, files):
        """The descriptor of one architecture's manifest."""
        layer, labels = packed(files, self.when), self.labels()
        config = {"architecture": architecture, "os": "linux", "created": labels["org.opencontainers.image.created"],
                  "config": self.runs | {"Labels": labels},
                  "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
                  "history": [{"created": labels["org.opencontainers.image.created"], "created_by": "scripts/package"}]}
        manifest = {"schemaVersion": 2, "mediaType": f"{KIND}manifest.v1+json", "annotations": labels,
                    "config": self.put("config.v1+json", encoded(config)),
                    "layers": [self.put("layer.v1.tar+gzip", compressed(layer))]}
        return self.put("manifest.v1+json", encoded(manifest), platform={"architecture": architecture, "os": "linux"})

    def index(self, manifests):
        return {"schemaVersion": 2, "mediaType": f"{KIND}index.v1+json", "manifests": manifests}

    def write(self, path, manifests):
        """index.json names one image: the index of all architectures."""
        named = {"org.opencontainers.image.ref.name": f"{self.name}:{version()}",  # podman load
                 "io.containerd.image.name": f"localhost/{self.name}:{version()}"}  # ctr image import
        whole = self.put("index.v1+json", encoded(self.index(manifests)), annotations=named)
        files = {"oci-layout": encoded({"imageLayoutVersion": "1.0.0"}), "index.json": encoded(self.index([whole]))}
        files |= dict(sorted(self.blobs.items()))
        path.write_bytes(packed({name: (0o644, content) for name, content in files.items()}, self.when))


def write(path, what, contents, when):
    """what: INSTALLER or AGENT. contents: {architecture: {path of a file: (mode, content)}}."""
    layout = Layout(what, when)
    layout.write(path, [layout.image(architecture, files) for architecture, files in sorted(contents.items())])
