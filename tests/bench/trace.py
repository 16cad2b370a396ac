"""What the calls of a chain ask of the kernel, counted in strace's log of each."""

import os
import re

LOGS = "/run/bench/trace"
STRACE = ["strace", "-f", "-qq", "-v", "-s", "8"]
SOCKET = re.compile(r"^(\d+) +socket\(AF_NETLINK, .*, NETLINK_(\w+)\) = (\d+)")
SENT = re.compile(r"^(\d+) +(?:sendto|sendmsg)\((\d+),")
CALL = re.compile(r"^\d+ +(\w+)\(")
PROGRAM = re.compile(r'execve\("([^"]*)"')
TYPE = re.compile(r"nlmsg_type=(\w+)")
#: rtnetlink's types come in fours, from RTM_NEWLINK on: new, del, get, set (linux/rtnetlink.h). strace
#: knows their names in its own network namespace alone.
FIRST, LAST = 16, 128


def is_change(kind):
    """Whether a message of NETLINK_ROUTE, by the name or number of its type, changes something: for
    that the kernel holds the lock of all links (RTNL)."""
    if kind.startswith("0x"):
        number = int(kind, 16)
        return FIRST <= number < LAST and number % 4 != 2
    return kind.startswith("RTM_") and not kind.startswith("RTM_GET")


def count(log):
    """{"programs": [names that were executed], "calls": n, "changes": [types]} of a log of strace."""
    programs, calls, changes, pending, protocols = [], 0, [], {}, {}
    for line in log.splitlines():
        pid = line.split(" ", 1)[0]
        found = CALL.match(line)
        calls += found is not None
        program = PROGRAM.search(line)
        if program:
            pending[pid] = os.path.basename(program[1])
        if "execve" in line and line.rstrip().endswith("= 0"):
            programs.append(pending.pop(pid, "?"))
        if opened := SOCKET.match(line):
            protocols[opened[1], opened[3]] = opened[2]
        sent = SENT.match(line)
        if sent and "NFNL" not in line and protocols.get(sent.groups(), "ROUTE") == "ROUTE":
            changes += [kind for kind in TYPE.findall(line) if is_change(kind)]
    return {"programs": programs, "calls": calls, "changes": changes}


def traced(subject, verbs=("ADD", "CHECK", "DEL")):
    """{verb: [count() and the plugin's name]} of the chain of one pod; one was there before it."""
    subject.grow(2)
    first, pod = subject.pod(0), subject.pod(1)
    subject.job("ADD", [first])
    subject.enter()
    os.makedirs(LOGS, exist_ok=True)
    found = {}
    for verb in verbs:
        wrap = STRACE + ["-o", f"{LOGS}/{verb}.%"]
        lines = subject.job(verb, [pod], wrap=wrap, tolerant=verb == "CHECK")
        found[verb] = []
        for number, line in enumerate(line for line in lines if "plugin" in line):
            with open(f"{LOGS}/{verb}.{number}", encoding="utf-8", errors="replace") as file:
                found[verb].append({"plugin": line["plugin"]} | count(file.read()))
    subject.job("DEL", [first])
    return found


def sizes(directory, plugins):
    """Bytes of the plugins' different files together. The reference has not all."""
    files = {}
    for path in (os.path.join(directory, plugin) for plugin in plugins):
        if not os.path.exists(path):
            continue
        info = os.stat(path)
        files[(info.st_dev, info.st_ino)] = info.st_size
    return sum(files.values())
