#!/usr/bin/env python3
"""scripts/package in two folders makes the same files; every name of the tarball is whole when it is copied alone; the
Debian package has what it says. A step of `scripts/test --full`."""

import filecmp
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def made_in(folder, when):
    """The files that scripts/package makes of a copy of the sources."""
    run("git", "clone", "-q", ROOT, folder)
    run("scripts/package", cwd=folder, env=os.environ | {"SOURCE_DATE_EPOCH": when})
    return folder / "build/package/out"


def require(condition, what):
    if not condition:
        sys.exit(f"FAIL {what}")
    print(f"ok   {what}", flush=True)


def check_tarball(path, work):
    run("tar", "-xzf", path, "-C", work)
    names = run(work / "patchbay", "--list").split()
    (work / "alone").mkdir()
    for name in names:
        copy = shutil.copy(work / name, work / "alone" / name)
        require(f"CNI {name} plugin patchbay" in run(copy, "--version"), f"{name} of the tarball works alone")


def check_package(path, work):
    run("dpkg", "-x", path, work)
    plugins = work / "usr/lib/cni"
    require({file.stat().st_nlink for file in plugins.iterdir()} == {len(list(plugins.iterdir()))}, "names are hard links")
    for name in run(plugins / "patchbay", "--list").split():
        require((work / f"usr/share/man/man8/cni-{name}.8.gz").is_file(), f"cni-{name}(8)")
    require("patchbay" in run(work / "usr/bin/cnitool", "--version"), "cnitool runs")
    said = run("dpkg-deb", "-f", path, "Provides", "Replaces")
    require("container-network-stack" in said and "containernetworking-plugins" in said, "it replaces the reference's")


def main():
    if shutil.which("dpkg-deb") is None:
        print("skip everything: needs the program dpkg-deb")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="patchbay-packages-") as name:
        work = pathlib.Path(name)
        when = run("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()
        one, other = made_in(work / "one", when), made_in(work / "another-folder", when)
        files = sorted(os.listdir(one))
        _, different, missing = filecmp.cmpfiles(one, other, files, shallow=False)
        require(files == sorted(os.listdir(other)) and not different + missing, f"{len(files)} files are the same: {different}")
        for check, pattern in ((check_tarball, "*.tgz"), (check_package, "*.deb")):
            folder = work / check.__name__
            folder.mkdir()
            check(next(one.glob(pattern)), folder)


if __name__ == "__main__":
    main()
