"""What the parts of scripts/package share: folders, the version, what programs print. DEB_HOST_ARCH: for which architecture
(dpkg-architecture(1)), if it is not this machine's."""

import functools
import gzip
import io
import os
import pathlib
import re
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN = subprocess.run(["dpkg", "--print-architecture"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
ARCHITECTURE = os.environ.get("DEB_HOST_ARCH", OWN)
FOREIGN = ARCHITECTURE != OWN
WORK = ROOT / "build" / "package" / ARCHITECTURE
OUT = ROOT / "build" / "package" / "out"
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
#: The root of the packages that are linked in.
PACKAGES = ROOT / "build" / ARCHITECTURE / "root" if FOREIGN else pathlib.Path("/")
#: The plugins, and the multi-call binary of them.
PLUGINS = re.findall(r"(?m)^cni_plugin\(([\w-]+)", (ROOT / "plugins/CMakeLists.txt").read_text())
SUITE = (*PLUGINS, "patchbay")
#: Of each Debian package: its programs and their folders.
PROGRAMS = {"patchbay": {**{name: "usr/lib/cni" for name in SUITE}, "cnitool": "usr/bin"}, "patchbay-agent": {"patchbay-agent": "usr/sbin"}}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, **options).stdout


def version():
    return re.search(r"project\(patchbay VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]


def epoch():
    """The time of all files, in seconds: of the release, if SOURCE_DATE_EPOCH has no other."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or run("dpkg-parsechangelog", "-STimestamp"))


def packed(files, when):
    """A tar file of {name: (mode, content)}, which are root's."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, (mode, content) in files.items():
            info = tarfile.TarInfo(name)
            info.mtime, info.mode, info.size, info.uname, info.gname = when, mode, len(content), "root", "root"
            tar.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def compressed(data):
    return gzip.compress(data, 9, mtime=0)


@functools.cache
def query(*arguments):
    """Of the database of the packages that are linked in; None where they do not know."""
    command = ["dpkg-query", f"--admindir={PACKAGES}/var/lib/dpkg", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout if done.returncode == 0 else None


def staged(program):
    """Its path, stripped, in what debian/rules has made."""
    return next(ROOT / "debian" / package / programs[program] / program for package, programs in PROGRAMS.items() if program in programs)


def shared_libraries(executable):
    """{its path without a leading slash: file} of the libraries of libc that it loads, and of what loads them."""
    heads = run("readelf", "-ldW", executable)
    loader = re.search(r"interpreter: /(\S+)\]", heads)[1]
    folder = f"lib/{TRIPLETS[ARCHITECTURE]}"
    names = set(re.findall(r"\(NEEDED\).*\[(.*)\]", heads)) - {pathlib.Path(loader).name}
    return {path: PACKAGES / path for path in (loader, *(f"{folder}/{name}" for name in sorted(names)))}


def notices(packages):
    """The copyright files of the distribution's packages that are linked in."""
    texts = {name: (PACKAGES / "usr/share/doc" / name / "copyright").read_text(errors="replace") for name in sorted(packages)}
    return "".join(f"\n== {name}, which is linked in\n\n{text}" for name, text in texts.items())
