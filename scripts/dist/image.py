"""The image that installs the plugins on a node: nothing but the executable, for several architectures, as a tar file in
the layout of the OCI image specification, which skopeo, podman and containerd read."""

import datetime
import hashlib
import io
import json
import tarfile

from dist.common import ROOT, compressed, run, version

KIND = "application/vnd.oci.image."


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

    def __init__(self, when):
        self.when = when
        self.blobs = {}

    def put(self, kind, content, **more):
        """The descriptor of a blob."""
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": KIND + kind, "digest": f"sha256:{digest}", "size": len(content)} | more

    def image(self, architecture, files, labels):
        """The descriptor of one architecture's manifest."""
        layer = packed(files, self.when)
        config = {"architecture": architecture, "os": "linux", "created": labels["org.opencontainers.image.created"],
                  "config": {"Entrypoint": ["/patchbay", "install", "--watch"], "Cmd": ["/opt/cni/bin"], "Labels": labels},
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
        named = {"org.opencontainers.image.ref.name": f"patchbay:{version()}",  # podman load
                 "io.containerd.image.name": f"localhost/patchbay:{version()}"}  # ctr image import
        whole = self.put("index.v1+json", encoded(self.index(manifests)), annotations=named)
        files = {"oci-layout": encoded({"imageLayoutVersion": "1.0.0"}), "index.json": encoded(self.index([whole]))}
        files |= dict(sorted(self.blobs.items()))
        path.write_bytes(packed({name: (0o644, content) for name, content in files.items()}, self.when))


def labels_of(when):
    about = {"title": "patchbay", "description": "installs the CNI plugins of patchbay into a directory of the node",
             "version": version(), "licenses": "Apache-2.0",
             "created": datetime.datetime.fromtimestamp(when, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
    if (ROOT / ".git").exists():
        about["revision"] = run("git", "rev-parse", "HEAD").strip()
    return {f"org.opencontainers.image.{name}": value for name, value in about.items()}


def write(path, contents, when):
    """contents: {architecture: (the executable, the licences of what is in it)}."""
    layout = Layout(when)
    manifests = [layout.image(architecture, {"patchbay": (0o755, program), "COPYRIGHT": (0o644, notes)}, labels_of(when))
                 for architecture, (program, notes) in sorted(contents.items())]
    layout.write(path, manifests)
