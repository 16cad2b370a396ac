"""Which packages of the distribution an executable has parts of, by its symbols: what the linker says of itself is not asked."""

import collections
import functools
import pathlib
import re
import subprocess

#: Header libraries, by a namespace of C++ that is theirs alone.
HEADERS = {"nlohmann-json3-dev": r"\bnlohmann::", "libcli11-dev": r"\bCLI::", "libtomlplusplus-dev": r"\btoml::"}
#: A name that only one package's archives define may be another program's by accident; so many are none. One may be all
#: that was taken: `atexit` of libc_nonshared.a.
FEW = 10


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **options).stdout


def defined(path, kinds="A-Za-z"):
    """The names that a file or an archive defines, of these kinds as nm has them."""
    return set(re.findall(rf"^[0-9a-f]+ [{kinds}] (\S+)$", run("nm", "--defined-only", path), re.MULTILINE))


def owners(paths):
    """{path: package} by dpkg, whose database has some files without /usr."""
    said = run("dpkg-query", "-S", *paths, *[str(path).removeprefix("/usr") for path in paths])
    found = {}
    for package, path in re.findall(r"^([^:\s]+)(?::\S+)?: (\S+)$", said, re.MULTILINE):
        found[path if path.startswith("/usr") else f"/usr{path}"] = package
    return found


def archives_of(executable):
    """Where a compiler for the executable's machine looks for archives."""
    triplet = {"Advanced Micro Devices X86-64": "x86_64-linux-gnu", "AArch64": "aarch64-linux-gnu"}[
        re.search(r"Machine:\s+(.*)", run("readelf", "-h", executable))[1]]
    places = [f"/usr/lib/{triplet}", f"/usr/lib/gcc/{triplet}", f"/usr/lib/gcc-cross/{triplet}", f"/usr/{triplet}/lib"]
    return tuple(sorted({path for place in places for path in pathlib.Path(place).rglob("*.a")}))


@functools.cache
def definers_in(paths):
    """{name: packages whose archives define it}"""
    of = owners(paths)
    definers = collections.defaultdict(set)
    for path in paths:
        for name in defined(path, "TDBRi"):  # not weak: what templates make is in many files
            definers[name].add(of.get(str(path), str(path)))
    return definers


def packages_in(executable):
    """{package: how many names only it defines of those that the executable has}"""
    definers = definers_in(archives_of(executable))
    names = defined(executable)
    found = collections.Counter(next(iter(definers[name])) for name in names if len(definers.get(name, ())) == 1)
    plain = run("c++filt", input="\n".join(names))
    return found | {package: FEW + count for package, pattern in HEADERS.items() if (count := len(re.findall(pattern, plain)))}
