#!/usr/bin/env python3
"""The executables are hardened: what the compiler was told, what the linker made of it, and what no
source calls. docs/security.md has the table."""

import glob
import json
import os
import re
import subprocess
import sys
import time

from sources import ROOT

BIN = os.environ.get("PATCHBAY_BIN", ROOT / "build/dev/bin")
BUILD = os.path.dirname(BIN)
PROGRAMS = ("patchbay", "cnitool", *re.findall(r"(?m)^cni_plugin\(([\w-]+)", (ROOT / "plugins/CMakeLists.txt").read_text()))
#: Built where libgrpc++ is installed, and with the libc of the host: it loads nothing else.
AGENT = "patchbay-agent"
LIBC = r"libc\.so\.6|libm\.so\.6|ld-linux-[\w-]+\.so\.[12]"
#: What waits for its input: the name that it is called by with its options, and its environment.
WAITING = {"patchbay": (["loopback"], {"CNI_COMMAND": "STATUS", "CNI_PATH": BIN}), AGENT: ([AGENT, "--validate"], {})}
#: Calls without a bound, or by way of a shell, PATH or a name that another may have taken.
NEVER = {"gets", "strcpy", "strcat", "stpcpy", "sprintf", "vsprintf", "scanf", "sscanf", "system",
         "popen", "execvp", "execlp", "execvpe", "posix_spawnp", "mktemp", "tmpnam", "tempnam",
         "tmpfile", "dlopen", "alloca", "rand", "srand"}
FLAGS = ("-fstack-protector-strong", "-fPIE|-fPIC", "-fvisibility=hidden")
OF_RELEASE = ("-fstack-clash-protection", "-D_FORTIFY_SOURCE=[23]", "-D_GLIBCXX_ASSERTIONS")


def say(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=True).stdout


def wrong_in(program):
    """What the executable lacks, one text each."""
    path = os.path.join(BIN, program)
    heads, dynamic = say("readelf", "-hlW", path), say("readelf", "-dW", path)
    if not re.search(r"Type:\s+DYN", heads) or "PIE" not in dynamic:
        yield "it is not position independent"
    if not re.search(r"^\s+GNU_RELRO ", heads, re.M) or not re.search(r"\bNOW\b|BIND_NOW", dynamic):
        yield "its relocations stay writable (-z relro -z now)"
    for kind, flags in re.findall(r"^\s+(LOAD|GNU_STACK)\s+(?:0x\w+\s+){5}([RWE ]{3})", heads, re.M):
        if "E" in flags and (kind == "GNU_STACK" or "W" in flags):
            yield f"{kind} is {flags.strip()}"
    if not re.search(r"^\s+GNU_STACK ", heads, re.M):
        yield "it does not say that its stack is not executable"
    if re.search(r"RPATH|RUNPATH|TEXTREL", dynamic):
        yield "it has an RPATH, a RUNPATH or relocations in its code"
    if program != AGENT and ("INTERP" in heads or "NEEDED" in dynamic):
        yield "it is not static"
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not re.fullmatch(LIBC, library):
            yield f"it loads {library}"
    if BUILD.encode() in open(path, "rb").read():
        yield "it has the path of its build"


def wrong_while_running(program):
    """A static executable relocates itself: what is left writable of what it has when it waits for
    its input."""
    path = os.path.join(BIN, program)
    words, environment = WAITING[program]
    heads = say("readelf", "-lW", path)
    start, size = re.search(r"^\s+GNU_RELRO\s+0x\w+ 0x(\w+) 0x\w+ 0x\w+ 0x(\w+)", heads, re.M).groups()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, env=environment, executable=path) as process:
        time.sleep(0.5)
        with open(f"/proc/{process.pid}/maps", encoding="ascii") as file:
            maps = re.findall(r"^(\w+)-(\w+) (\S+) .*?(\S*)$", file.read(), re.M)
        process.stdin.close()
    base = next((int(low, 16) for low, _, _, name in maps if name.endswith("/" + program)), None)
    if base is None:
        yield "it did not wait for its input"
        return
    page = os.sysconf("SC_PAGE_SIZE")
    first = base + int(start, 16) // page * page
    last = base + (int(start, 16) + int(size, 16)) // page * page
    for low, high, rights, _ in maps:
        if "w" in rights and int(low, 16) < last and int(high, 16) > first:
            yield "its relocations are writable when it runs"


def wrong_commands(release):
    """Sources that were compiled without the flags."""
    wanted = FLAGS + (OF_RELEASE if release else ())
    for name in glob.glob(os.path.join(BUILD, "compile_commands.json")):
        with open(name, encoding="utf-8") as file:
            entries = json.load(file)
        for entry in entries:
            name = os.path.relpath(entry["file"], ROOT)
            if not name.startswith(("cnitool/", "kubernetes/", "libcni/", "netlink/", "plugins/")) and not name.endswith(".pb.cc"):
                continue
            for flag in wanted:
                if not re.search(rf"(^|\s)({flag})(\s|$)", entry["command"]):
                    yield f"{name}: compiled without {flag}"


def forbidden_calls():
    """What the objects ask others for and should not."""
    for archive in sorted(glob.glob(os.path.join(BUILD, "**/lib*.a"), recursive=True)):
        member = os.path.basename(archive)
        for line in say("nm", "-u", archive).splitlines():
            if line.endswith(":"):
                member = line[:-1]
            elif (name := line.split()[-1:]) and name[0] in NEVER:
                yield f"{os.path.relpath(archive, BUILD)}: {member} calls {name[0]}()"


def main():
    cache = open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8").read() if os.path.exists(
        os.path.join(BUILD, "CMakeCache.txt")) else ""
    missing = [name for name in PROGRAMS if not os.path.exists(os.path.join(BIN, name))]
    if not cache or missing:
        print(f"not built: {' '.join(missing) or BUILD}", file=sys.stderr)
        return 77
    if re.search(r"^CNI_SANITIZE:\w+=.+$", cache, re.M):
        print("a build for the sanitizers is for nothing else", file=sys.stderr)
        return 77
    programs = [*PROGRAMS, AGENT]
    if re.search(r"^CNI_AGENT:\w+=OFF$", cache, re.M) or not os.path.exists(os.path.join(BIN, AGENT)):
        print(f"skip {AGENT}, which is not built", file=sys.stderr)
        programs.remove(AGENT)
    complaints = [f"{program}: {what}" for program in programs for what in wrong_in(program)]
    complaints += [f"{program}: {what}" for program in WAITING if program in programs for what in wrong_while_running(program)]
    complaints += wrong_commands("CMAKE_BUILD_TYPE:STRING=Release" in cache)
    complaints += forbidden_calls()
    for one in complaints:
        print(one)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
