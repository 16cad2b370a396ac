#!/usr/bin/env python3
"""scripts/package in two folders makes the same files, and each of them is what docs/packaging.md says. A step of
`scripts/test --full`.

    tests/install/packages.py            makes them twice
    tests/install/packages.py FOLDER     looks at those that scripts/package has made in this clone of the sources
"""

import filecmp
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import linked  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = pathlib.Path(os.environ.get("PATCHBAY_REFERENCE", "/usr/lib/cni"))
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "KEYS", "ENVIRONMENT", "EXIT STATUS", "FILES", "SEE ALSO"]
AGENT = "patchbay-agent"
PROGRAMS = {"patchbay": "usr/lib/cni/patchbay", "cnitool": "usr/bin/cnitool", AGENT: "usr/sbin/patchbay-agent"}
MOST = 40e6  # bytes of all plugins together


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def made_in(folder, written=None):
    """Makes a copy of the sources, as if written then, and the files of scripts/package in it."""
    run("git", "clone", "-q", ROOT, folder)
    for path in folder.rglob("*") if written else ():
        os.utime(path, (written, written))
    run("scripts/package", cwd=folder)
    return folder / "build/package/out"


def require(condition, what):
    if not condition:
        sys.exit(f"FAIL {what}")
    print(f"ok   {what}", flush=True)


def size_of(file):
    return f"{file.stat().st_size / 1e6:.2f} MB"


class Made:
    """What scripts/package has made in a folder."""

    def __init__(self, folder, work):
        self.folder, self.work, self.architecture = folder, work, run("dpkg", "--print-architecture").strip()
        self.out, self.build = folder / "build/package/out", folder / f"build/package/{self.architecture}/build"
        self.files = work / "package"
        run("dpkg", "-x", self.one("patchbay_*.deb"), self.files)
        self.main = [path for path in self.files.rglob("*") if not path.is_dir()]
        run("dpkg", "-x", self.one("patchbay-agent_*.deb"), self.files)
        self.names = run(self.files / PROGRAMS["patchbay"], "--list").split()
        self.programs = PROGRAMS | {name: f"usr/lib/cni/{name}" for name in self.names}
        self.packages = {"patchbay": set(self.programs) - {AGENT}, AGENT: {AGENT}}

    def one(self, pattern):
        """The file of this machine's architecture; bills of materials have its name, too."""
        return next(path for path in self.out.glob(pattern) if re.search(rf"[-_]{self.architecture}[-_.]", path.name))

    def symbols(self, package):
        """The .debug files of a package, by their build IDs."""
        folder = self.work / f"symbols of {package}"
        run("dpkg", "-x", self.one(package), folder)
        return {path.parent.name + path.stem: path for path in folder.rglob("*.debug")}


def check_tarball(made):
    tarball, folder = made.one("patchbay-linux-*.tgz"), made.work / "tarball"
    folder.mkdir()
    for name in made.names:
        run("tar", "-xzf", tarball, "-C", folder, f"./{name}")
        said = run(folder / name, "--version")
        if f"CNI {name} plugin patchbay" not in said:
            sys.exit(f"FAIL {name}: {said}")
        (folder / name).unlink()
    run("tar", "-xzf", tarball, "-C", folder)
    require({file.stat().st_uid for file in folder.iterdir()} == {0}, f"{tarball.name} is root's")
    require({file.name for file in folder.iterdir()} == {*made.names, "patchbay", "COPYRIGHT", "LICENSE", "README.md"},
            f"{tarball.name}: each plugin works when it is extracted alone")
    different = [name for name in made.names if (folder / name).read_bytes() != (made.files / made.programs[name]).read_bytes()]
    require(not different, f"the package has the same executables: {different}")


def check_package(made):
    plugins = made.files / "usr/lib/cni"
    require({file.name: file.stat().st_nlink for file in plugins.iterdir()} == dict.fromkeys([*made.names, "patchbay"], 1),
            "each plugin is a file of its own")
    require("patchbay" in run(made.files / "usr/bin/cnitool", "--version"), "cnitool runs")
    deb = made.one("patchbay_*.deb")
    said = run("dpkg-deb", "-f", deb, "Provides", "Replaces")
    require("container-network-stack" in said and "containernetworking-plugins" in said, "it replaces the reference's")
    scripts = made.work / "control"
    run("dpkg-deb", "-e", deb, scripts)
    require(set(os.listdir(scripts)) == {"control", "md5sums"}, "it has no maintainer's scripts")
    unit = (made.files / "usr/lib/systemd/system/cni-dhcp.service").read_text()
    require("ExecStart=/usr/lib/cni/dhcp daemon" in unit, "the unit has the package's path")
    doc = made.files / "usr/share/doc/patchbay"
    modules = set(re.findall(r"(?m)^\w+$", (doc / "examples/node/modules-load.d-patchbay.conf").read_text()))
    known = set(re.findall(r'\{"(\w+)", "CONFIG_', (ROOT / "netlink/types/hints.cc").read_text()))
    require(modules ^ known == {"br_netfilter", "sch_bfifo"}, "the example for modules-load.d has the modules of the plugins")
    notes = (doc / "copyright").read_text()
    for program in made.packages["patchbay"]:
        for library in libraries(made, program):
            require(f"\n== {library}, which is linked in\n\n" in notes, f"{program}: the copyright of {library}")


def check_agent(made):
    """A package of its own, which needs no more than libc; the main package has nothing of it."""
    main = {str(path.relative_to(made.files)) for path in made.main}
    require(not [path for path in main if AGENT in path and "examples" not in path], "patchbay has no file of patchbay-agent")
    require(b"grpc" not in (made.files / PROGRAMS["patchbay"]).read_bytes().lower(), "patchbay has nothing of gRPC")
    deb, control = made.one("patchbay-agent_*.deb"), made.work / "control of the agent"
    run("dpkg-deb", "-e", deb, control)
    require(set(os.listdir(control)) == {"control", "md5sums", "prerm"}, "patchbay-agent has a maintainer's script for its removal alone")
    needs = run("dpkg-deb", "-f", deb, "Depends").strip()
    versions = re.findall(r"Name: GLIBC_([\d.]+)", run("readelf", "-VW", made.files / PROGRAMS[AGENT]))
    newest = ".".join(map(str, max([int(part) for part in number.split(".")] for number in versions)))
    require(needs == f"libc6 (>= {newest})", f"it depends on {needs}")
    unit = (made.files / "usr/lib/systemd/system/patchbay-agent.service").read_text()
    require("ExecStart=/usr/sbin/patchbay-agent\n" in unit, "its unit has the package's path")
    folder = made.work / "agent"
    folder.mkdir()
    run("tar", "-xzf", made.one("patchbay-agent-linux-*.tgz"), "-C", folder)
    require({path.name for path in folder.iterdir()} == {AGENT, f"{AGENT}.service", "COPYRIGHT", "LICENSE", "README.md"}
            and (folder / AGENT).read_bytes() == (made.files / PROGRAMS[AGENT]).read_bytes(), "its tarball has the same executable")
    for program in (folder / AGENT, made.files / PROGRAMS[AGENT]):
        require(run(program, "--version").startswith("patchbay-agent 0."), f"{program.parent.name}/{AGENT} runs")
    require(isinstance(json.loads(run(program, "list", "--json", "--config", "/nonexistent", stderr=subprocess.DEVNULL)), list),
            "it lists the devices of this machine")
    notes = (made.files / "usr/share/doc/patchbay-agent/copyright").read_text()
    for library in libraries(made, AGENT):
        require(f"\n== {library}, which is linked in\n\n" in notes, f"{AGENT}: the copyright of {library}")


def check_manuals(made):
    state = "".join(path.read_text() for path in (ROOT / "plugins/names").glob("*.h"))
    wrong = []
    for name, sections in [("man1/cnitool.1", {"COMMANDS", "OPTIONS"} | set(SECTIONS) - {"KEYS"}), ("man8/patchbay.8", {"FILES"}),
                           ("man8/patchbay-agent.8", {"OPTIONS"} | set(SECTIONS) - {"ENVIRONMENT"}),
                           *((f"man8/cni-{plugin}.8", set(SECTIONS)) for plugin in made.names)]:
        text = gzip.decompress((made.files / f"usr/share/man/{name}.gz").read_bytes()).decode()
        found = re.findall(r"(?m)^\.SH (.*)$", text)
        if not sections <= set(found) or name.startswith("man8/cni-") and found != SECTIONS:
            wrong.append(f"{name}: sections {found}")
        wrong += [f"{name}: {path}: no state of a plugin" for path in re.findall(r"/run/cni/[\w./-]+", text.replace("\\-", "-"))
                  if path.rstrip(".") not in state and name != "man1/cnitool.1"]
        for tool, options in (("groff", ["-man", "-ww", "-z", "-Kutf8", "-Tutf8"]), ("mandoc", ["-Tlint", "-Wwarning"])):
            if shutil.which(tool):
                said = subprocess.run([tool, *options], input=text, capture_output=True, text=True)
                wrong += (said.stderr + (said.stdout if tool == "mandoc" else "")).splitlines()
    require(not wrong, f"{len(made.names) + 3} manual pages have their sections, without warnings: {wrong}")


def check_symbols(made):
    files = {package: made.symbols(f"{package}-dbgsym_*.deb") for package in made.packages}
    for package, program in [(package, program) for package, programs in made.packages.items() for program in sorted(programs)]:
        check_symbols_of(made, program, package, files[package])


def check_symbols_of(made, program, package, files):
    path = made.programs[program]
    stripped, number = made.files / path, re.search(r"Build ID: (\w+)", run("readelf", "-n", made.files / path))[1]
    sections = run("readelf", "-SW", stripped)
    require(".symtab" not in sections and ".debug" not in sections, f"{program} is stripped: {size_of(stripped)}")
    require(number in files, f"{package}-dbgsym has the symbols of {program}: {size_of(files.get(number, stripped))}")
    at = re.search(r"(?m)^([0-9a-f]+) T main$", run("nm", files[number]))[1]
    where = run("addr2line", "-e", files[number], at)
    require(re.match(r"/usr/src/patchbay-[\d.]+/"
                     r"(plugins/main|cnitool/cnitool|plugins/devices/agent/main|build/package/\w+/build/plugins/single/[\w-]+)\.cc:\d+", where),
            f"they have its lines: {where.strip()}")
    require(str(made.folder) not in run("strings", "-n", "8", stripped), f"{program} has no path of the folder")


def libraries(made, program):
    """{package: version} of the bill of materials."""
    of = program if program in ("cnitool", AGENT) else "patchbay"
    bill = json.loads(made.one(f"{of}-linux-*.spdx.json").read_text())
    parts = {part["SPDXID"]: part for part in bill["packages"]}
    if (licence := parts[f"SPDXRef-{program}"]["licenseDeclared"]) != "Apache-2.0":
        sys.exit(f"FAIL {program}: its own licence is {licence}")
    linked_in = [parts[one["relatedSpdxElement"]] for one in bill["relationships"]
                 if one["relationshipType"] == "STATIC_LINK" and parts[one["spdxElementId"]]["name"] == program]
    return {part["name"]: part["versionInfo"] for part in linked_in}


def check_bills(made):
    """The linker's map says what a bill has; the symbols of what was linked say the same."""
    for program in made.programs:
        found = linked.packages_in(made.build / "bin" / program)
        said = libraries(made, program)
        sure = {name for name, count in found.items() if count >= linked.FEW}
        require(sure <= set(said) <= set(found), f"{program}: the bill of materials has the libraries whose symbols it has: "
                f"{', '.join(f'{name} {found.get(name, 0)}' for name in sorted({*said, *sure}))}")
        for name, number in said.items():
            if run("dpkg-query", "-W", "-f", "${Version}", name) != number:
                sys.exit(f"FAIL {program}: {name} {number} is not what is installed")


def check_sizes(made):
    """All plugins together, beside the reference plugins as far as those are here."""
    ours = sum((made.files / made.programs[name]).stat().st_size for name in made.names)
    require(ours <= MOST, f"all {len(made.names)} plugins are {ours / 1e6:.2f} MB")
    theirs = [path for path in REFERENCE.glob("*") if path.name in made.names and path.is_file()]
    if not theirs or b" plugin patchbay " in theirs[0].read_bytes():
        print(f"skip sizes: the reference plugins are not in {REFERENCE}")
        return
    names = {path.name for path in theirs}
    total, same = sum(path.stat().st_size for path in theirs), sum((made.files / made.programs[name]).stat().st_size for name in names)
    require(same < total, f"the {len(names)} of {REFERENCE}: {same / 1e6:.2f} MB, the reference's {total / 1e6:.2f} MB")
    for path in sorted(made.out.iterdir()):
        if not path.name.endswith((".sha256", ".sha512")):
            print(f"     {path.name} {path.stat().st_size}")


def look(folder):
    with tempfile.TemporaryDirectory(prefix="patchbay-packages-") as name:
        made = Made(folder, pathlib.Path(name))
        for check in (check_tarball, check_package, check_agent, check_manuals, check_symbols, check_bills, check_sizes):
            check(made)


def main():
    if shutil.which("dpkg-deb") is None:
        print("skip everything: needs the program dpkg-deb")
        sys.exit(77)
    if len(sys.argv) > 1:
        return look(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory(prefix="patchbay-packages-") as name:
        work = pathlib.Path(name)
        one, other = made_in(work / "one"), made_in(work / "another-folder", 1_700_000_000)
        files = sorted(os.listdir(one))
        _, different, missing = filecmp.cmpfiles(one, other, files, shallow=False)
        require(files == sorted(os.listdir(other)) and not different + missing, f"{len(files)} files are the same: {different}")
        look(work / "one")


if __name__ == "__main__":
    main()
