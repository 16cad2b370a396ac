"""The Debian packages: patchbay, patchbay-agent, and of each one with debug symbols. None has a script of a maintainer."""

import os
import re
import shutil

from dist import manual
from dist.common import ARCHITECTURE, OUT, PROGRAMS, ROOT, STAGES, WORK, compressed, copyrights, run, staged, version

EXAMPLES = ROOT / "conf-examples"
# The beginning of each.
HEAD = """Package: {package}
Version: {version}
Architecture: {architecture}
Maintainer: patchbay <patchbay@localhost>
Installed-Size: {size}
Priority: optional
"""
CONTROL = """Section: net
Provides: container-network-stack (= 1), containernetworking-plugins (= 1.9.1)
Conflicts: containernetworking-plugins
Replaces: containernetworking-plugins
Suggests: iptables, patchbay-agent
Description: CNI network plugins and cnitool
 Static executables that containerd, CRI-O and podman execute for every pod,
 in place of containernetworking-plugins: the same config keys, results and
 state on disk. cnitool calls them from the command line, and finds and
 repairs what is wrong on a node.
"""
AGENT_CONTROL = """Section: net
Depends: libc6 (>= {libc})
Recommends: patchbay
Description: device plugin of the kubelet for the CNI plugin devices
 A daemon that offers network devices of a node to the pods of Kubernetes, as
 extended resources. The plugin devices of the package patchbay attaches them.
"""
DEBUG_CONTROL = """Auto-Built-Package: debug-symbols
Build-Ids: {ids}
Section: debug
Depends: {of} (= {version})
Description: debug symbols of {of}
 For gdb, perf and coredumpctl, which find them by the build IDs.
"""


def make(package, stage, control, when, level=6, **more):
    """Builds the package whose files are below the folder stage, with this level of xz."""
    size = sum(path.stat().st_size // path.stat().st_nlink for path in stage.rglob("*") if path.is_file()) // 1024
    (stage / "DEBIAN").mkdir()
    control = (HEAD + control).format(package=package, version=version(), architecture=ARCHITECTURE, size=size, **more)
    (stage / "DEBIAN/control").write_text(control)
    for path in [stage, *stage.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o111 else 0o644)
        os.utime(path, (when, when), follow_symlinks=False)  # dpkg-deb itself changes later times alone
    run("dpkg-deb", "--root-owner-group", "-Zxz", f"-z{level}", "--build", stage, OUT / f"{package}_{version()}_{ARCHITECTURE}.deb",
        env=os.environ | {"SOURCE_DATE_EPOCH": str(when)})


def examples(package):
    """What it has in its folder of examples."""
    if package == "patchbay":
        return [path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*") if path.is_file()]
    return ["10-devices.conflist", "kubernetes/patchbay-agent.yaml", "kubernetes/pod-with-nic.yaml"]


def needed_libc(program):
    """The newest version of glibc of whose symbols it has one."""
    found = re.findall(r"Name: GLIBC_([\d.]+)", run("readelf", "-VW", staged(program)))
    return max(found, key=lambda number: [int(part) for part in number.split(".")])


def package(name, libraries, when):
    """libraries: what is linked into its programs."""
    share, agent = STAGES[name] / "usr/share", name == "patchbay-agent"
    for page in [*share.glob("man/man*/*")]:
        page.with_name(f"{page.name}.gz").write_bytes(compressed(manual.dated(page.read_text(), when).encode()))
        page.unlink()
    doc = share / "doc" / name
    for example in examples(name):
        (doc / "examples" / example).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(EXAMPLES / example, doc / "examples" / example)
    (doc / "copyright").write_text(copyrights(libraries))
    (doc / "changelog.gz").write_bytes(compressed((ROOT / "CHANGELOG.md").read_bytes()))
    make(name, STAGES[name], AGENT_CONTROL if agent else CONTROL, when, **({"libc": needed_libc(name)} if agent else {}))


def debug_package(package, when):
    """The debug sections of what was linked. Stripped executables have the same build IDs."""
    objcopy = re.search(r"^CMAKE_OBJCOPY:\w+=(.*)$", (WORK / "build/CMakeCache.txt").read_text(), re.M)[1]
    debug = WORK / f"debug-{package}"
    shutil.rmtree(debug, ignore_errors=True)
    ids = []
    for program in PROGRAMS[package]:
        linked = WORK / "build/bin" / program
        ids.append(re.search(r"Build ID: (\w+)", run("readelf", "-n", linked))[1])
        path = debug / f"usr/lib/debug/.build-id/{ids[-1][:2]}/{ids[-1][2:]}.debug"
        path.parent.mkdir(parents=True, exist_ok=True)
        run(objcopy, "--only-keep-debug", "--compress-debug-sections=zlib", linked, path)
        path.chmod(0o644)
    make(f"{package}-dbgsym", debug, DEBUG_CONTROL, when, level=0, of=package, ids=" ".join(ids))  # the sections are compressed
