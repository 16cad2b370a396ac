"""What the parts of scripts/package share: folders, the version, what programs print."""

import gzip
import io
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "package"
OUT = WORK / "out"
STAGE = WORK / "root"  # what cmake --install writes, and then the Debian package's files
PROGRAMS = {"patchbay": "usr/lib/cni", "cnitool": "usr/bin"}  # and their folders


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, **options).stdout


def version():
    return re.search(r"project\(patchbay VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]


def architecture():
    return run("dpkg", "--print-architecture").strip()


def epoch():
    """When the sources were committed last, in seconds; without git, as in a tarball, when CMakeLists.txt changed."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if not given and not (shutil.which("git") and (ROOT / ".git").exists()):
        given = (ROOT / "CMakeLists.txt").stat().st_mtime
    return int(given or run("git", "log", "-1", "--format=%ct"))


def compressed(data):
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=9, mtime=0) as file:
        file.write(data)
    return out.getvalue()


def plugins():
    return run(STAGE / "usr/lib/cni/patchbay", "--list").split()


def copyrights(packages):
    """LICENSE, and the copyright files of the distribution's packages that are linked in."""
    parts = [(ROOT / "LICENSE").read_text()]
    for package in sorted(packages):
        path = pathlib.Path("/usr/share/doc", package, "copyright")
        parts.append(f"\n== {package}, which is linked in\n\n{path.read_text(errors='replace')}")
    return "".join(parts)
