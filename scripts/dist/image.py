"""Images for several architectures, as tar files in the layout of the OCI image specification, which skopeo, podman and
containerd read: one installs the plugins on a node and is nothing but their executable, the other is patchbay-agent and its libc."""

import datetime
import hashlib
import json

from dist.common import compressed, packed, version

KIND = "application/vnd.oci.image."
#: What an image is named, what it is for, and what it runs.
INSTALLER = ("patchbay", "installs the CNI plugins of patchbay into a directory of the node",
             {"Entrypoint": ["/patchbay", "install", "--watch"], "Cmd": ["/opt/cni/bin"]})
AGENT = ("patchbay-agent", "offers devices of the node to pods of Kubernetes", {"Entrypoint": ["/usr/sbin/patchbay-agent"]})


def encoded(document):
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def write(path, what, layers, when):
    """what: INSTALLER or AGENT. layers: {architecture: tar file of the image's files}."""
    name, purpose, runs = what
    created = datetime.datetime.fromtimestamp(when, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"title": name, "description": purpose, "version": version(), "licenses": "Apache-2.0", "created": created}
    labels = {f"org.opencontainers.image.{key}": value for key, value in about.items()}
    blobs = {}

    def put(kind, content, **more):
        """The descriptor of a blob."""
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": KIND + kind, "digest": f"sha256:{digest}", "size": len(content)} | more

    def manifest(architecture, layer):
        config = {"architecture": architecture, "os": "linux", "created": created, "config": runs | {"Labels": labels},
                  "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}}
        whole = {"schemaVersion": 2, "mediaType": f"{KIND}manifest.v1+json", "annotations": labels,
                 "config": put("config.v1+json", encoded(config)), "layers": [put("layer.v1.tar+gzip", compressed(layer))]}
        return put("manifest.v1+json", encoded(whole), platform={"architecture": architecture, "os": "linux"})

    def index(manifests):
        return encoded({"schemaVersion": 2, "mediaType": f"{KIND}index.v1+json", "manifests": manifests})

    named = {"org.opencontainers.image.ref.name": f"{name}:{version()}",  # podman load
             "io.containerd.image.name": f"localhost/{name}:{version()}"}  # ctr image import
    whole = put("index.v1+json", index([manifest(*layer) for layer in sorted(layers.items())]), annotations=named)
    files = {"oci-layout": encoded({"imageLayoutVersion": "1.0.0"}), "index.json": index([whole]), **dict(sorted(blobs.items()))}
    path.write_bytes(packed({name: (0o644, content) for name, content in files.items()}, when))
