"""The Debian packages: patchbay, and patchbay-dbgsym with its debug symbols. Neither has a script of a maintainer."""

import os
import re
import shutil

from dist import manual
from dist.common import ARCHITECTURE, OUT, PROGRAMS, ROOT, STAGE, WORK, ask, compressed, copyrights, plugins, run, version

DEBUG = WORK / "debug"
CONTROL = """Package: patchbay
Version: {version}
Architecture: {architecture}
Maintainer: patchbay <patchbay@localhost>
Installed-Size: {size}
Section: net
Priority: optional
Provides: container-network-stack (= 1), containernetworking-plugins (= 1.9.1)
Conflicts: containernetworking-plugins
Replaces: containernetworking-plugins
Suggests: iptables
Description: CNI network plugins and cnitool
 Static executables that containerd, CRI-O and podman execute for every pod,
 in place of containernetworking-plugins: the same config keys, results and
 state on disk. cnitool calls them from the command line, and finds and
 repairs what is wrong on a node.
"""
DEBUG_CONTROL = """Package: patchbay-dbgsym
Version: {version}
Architecture: {architecture}
Maintainer: patchbay <patchbay@localhost>
Installed-Size: {size}
Auto-Built-Package: debug-symbols
Build-Ids: {ids}
Section: debug
Priority: optional
Depends: patchbay (= {version})
Description: debug symbols of patchbay
 For gdb, perf and coredumpctl, which find them by the build IDs.
"""


def make(stage, control, when, level=6, **more):
    """Builds the package whose files are below the folder, with this level of xz."""
    size = sum(path.stat().st_size // path.stat().st_nlink for path in stage.rglob("*") if path.is_file()) // 1024
    (stage / "DEBIAN").mkdir()
    (stage / "DEBIAN/control").write_text(control.format(version=version(), architecture=ARCHITECTURE, size=size, **more))
    for path in [stage, *stage.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o111 else 0o644)
        os.utime(path, (when, when), follow_symlinks=False)  # dpkg-deb itself changes later times alone
    name = re.search("Package: (.*)", control)[1]
    run("dpkg-deb", "--root-owner-group", "-Zxz", f"-z{level}", "--build", stage, OUT / f"{name}_{version()}_{ARCHITECTURE}.deb",
        env=os.environ | {"SOURCE_DATE_EPOCH": str(when)})


def manuals(when):
    """Replaces cnitool.1, and adds a page for each plugin and for patchbay."""
    folder = STAGE / "usr/share/man"
    about = version(), when, "/usr/lib/cni"
    pages = {"man1/cnitool.1": manual.tool_page((folder / "man1/cnitool.1").read_text(), when),
             "man8/patchbay.8": manual.suite_page(ask, about)}
    pages |= {f"man8/cni-{plugin}.8": manual.plugin_page(plugin, ask, about) for plugin in plugins()}
    (folder / "man8").mkdir()
    (folder / "man1/cnitool.1").unlink()
    for name, text in pages.items():
        (folder / f"{name}.gz").write_bytes(compressed(text.encode()))


def package(packages, when):
    manuals(when)
    doc = STAGE / "usr/share/doc/patchbay"
    shutil.copytree(ROOT / "conf-examples", doc / "examples")
    (doc / "copyright").write_text(copyrights(packages))
    (doc / "changelog.gz").write_bytes(compressed((ROOT / "CHANGELOG.md").read_bytes()))
    make(STAGE, CONTROL, when)


def debug_package(when):
    """The debug sections of what was linked. Stripped executables have the same build IDs."""
    objcopy = re.search(r"^CMAKE_OBJCOPY:\w+=(.*)$", (WORK / "build/CMakeCache.txt").read_text(), re.M)[1]
    shutil.rmtree(DEBUG, ignore_errors=True)
    ids = []
    for program in PROGRAMS:
        linked = WORK / "build/bin" / program
        ids.append(re.search(r"Build ID: (\w+)", run("readelf", "-n", linked))[1])
        path = DEBUG / f"usr/lib/debug/.build-id/{ids[-1][:2]}/{ids[-1][2:]}.debug"
        path.parent.mkdir(parents=True, exist_ok=True)
        run(objcopy, "--only-keep-debug", "--compress-debug-sections=zlib", linked, path)
        path.chmod(0o644)
    make(DEBUG, DEBUG_CONTROL, when, level=0, ids=" ".join(ids))  # the sections are compressed
