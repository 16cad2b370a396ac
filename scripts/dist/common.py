"""What the parts of scripts/package share: folders, the version, what programs print. PACKAGE_ARCHITECTURE: for which
architecture, if it is not this machine's."""

import gzip
import io
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN = subprocess.run(["dpkg", "--print-architecture"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
ARCHITECTURE = os.environ.get("PACKAGE_ARCHITECTURE", OWN)
FOREIGN = ARCHITECTURE != OWN
WORK = ROOT / "build" / "package" / (ARCHITECTURE if FOREIGN else "")
OUT = ROOT / "build" / "package" / "out"
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
#: The root of the packages that are linked in.
PACKAGES = ROOT / "build" / ARCHITECTURE / "root" if FOREIGN else pathlib.Path("/")
#: Of each Debian package: what cmake --install writes, and then the package's files; its programs and their folders.
STAGES = {"patchbay": WORK / "root", "patchbay-agent": WORK / "agent"}
#: The plugins, and the multi-call binary of them.
PLUGINS = re.findall(r"(?m)^cni_plugin\(([\w-]+)", (ROOT / "plugins/CMakeLists.txt").read_text())
SUITE = (*PLUGINS, "patchbay")
PROGRAMS = {"patchbay": {**{name: "usr/lib/cni" for name in SUITE}, "cnitool": "usr/bin"}, "patchbay-agent": {"patchbay-agent": "usr/sbin"}}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, **options).stdout


def version():
    return re.search(r"project\(patchbay VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]


def git(*words):
    """What git says of the sources; empty without git, as in a tarball, and where it refuses to look at them."""
    if not (shutil.which("git") and (ROOT / ".git").exists()):
        return ""
    return subprocess.run(["git", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT).stdout.strip()


def epoch():
    """When the sources were committed last, in seconds; where git does not know, when CMakeLists.txt changed."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct") or
               (ROOT / "CMakeLists.txt").stat().st_mtime)


def compressed(data):
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=9, mtime=0) as file:
        file.write(data)
    return out.getvalue()


def query(*arguments):
    """Of the database of the packages that are linked in; None where they do not know."""
    command = ["dpkg-query", f"--admindir={PACKAGES}/var/lib/dpkg", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout if done.returncode == 0 else None


def staged(program):
    """Its path below the stage of its package."""
    return next(STAGES[package] / programs[program] / program for package, programs in PROGRAMS.items() if program in programs)


def shared_libraries(executable):
    """{its path without a leading slash: file} of the libraries of libc that it loads, and of what loads them."""
    heads = run("readelf", "-ldW", executable)
    loader = re.search(r"interpreter: /(\S+)\]", heads)[1]
    folder = f"lib/{TRIPLETS[ARCHITECTURE]}"
    names = set(re.findall(r"\(NEEDED\).*\[(.*)\]", heads)) - {pathlib.Path(loader).name}
    return {path: PACKAGES / path for path in (loader, *(f"{folder}/{name}" for name in sorted(names)))}


def copyrights(packages):
    """LICENSE, and the copyright files of the distribution's packages that are linked in."""
    parts = [(ROOT / "LICENSE").read_text()]
    for package in sorted(packages):
        path = PACKAGES / "usr/share/doc" / package / "copyright"
        parts.append(f"\n== {package}, which is linked in\n\n{path.read_text(errors='replace')}")
    return "".join(parts)
