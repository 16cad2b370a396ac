"""A container image made of nothing but a static busybox, so that no registry is needed."""

import hashlib
import io
import json
import shutil
import tarfile

NAME = "localhost/busybox:test"
APPLETS = ("sh", "sleep", "httpd", "wget", "ping", "ip", "cat")


def _add(tar, name, data=b"", mode=0o644, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.type, info.linkname = len(data), mode, kind, link
    tar.addfile(info, io.BytesIO(data))


def _layer(page):
    out = io.BytesIO()
    with open(shutil.which("busybox"), "rb") as file:
        busybox = file.read()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in ("bin", "etc", "proc", "sys", "dev", "tmp", "run", "var", "www"):
            _add(tar, folder, mode=0o755, kind=tarfile.DIRTYPE)
        _add(tar, "bin/busybox", busybox, 0o755)
        for applet in APPLETS:
            _add(tar, f"bin/{applet}", mode=0o777, kind=tarfile.SYMTYPE, link="busybox")
        _add(tar, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
        _add(tar, "www/index.html", page.encode())
    return out.getvalue()


def build(path, page):
    """Writes a docker-archive to path; both podman load and ctr image import read it. Its command
    is a web server on port 80 that answers with page."""
    layer = _layer(page)
    config = json.dumps({
        "architecture": "amd64", "os": "linux",
        "config": {"Cmd": ["/bin/httpd", "-f", "-p", "80", "-h", "/www"],
                   "Env": ["PATH=/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [NAME], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        _add(tar, config_name, config)
        _add(tar, "layer.tar", layer)
        _add(tar, "manifest.json", json.dumps(manifest).encode())
