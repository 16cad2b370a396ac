"""What is measured: each function takes subjects and returns plain data, in microseconds and KiB."""

import os
import time

from support.plugin import OURS

from undisturbed import Turns, until_all_suffice

VERBS = ("ADD", "CHECK", "DEL")


def record(into, lines):
    """Adds what a runner said of some calls to {verb: {"took", "cpu", "rss", "plugins"}}. took is the
    time in plugins of each pod, cpu that of all processes."""
    cpu = {}
    for line in lines:
        if "plugin" in line:
            verb = _of_verb(into, line["verb"])
            cpu[line["pod"]] = cpu.get(line["pod"], 0) + line["cpu"]
            verb["rss"] = max(verb["rss"], line["rss"])
            if line["failed"]:
                verb.setdefault("failed", {}).setdefault(line["plugin"], 0)
                verb["failed"][line["plugin"]] += 1
            verb["plugins"].setdefault(line["plugin"], []).append(line["wall"])
        elif "chain" in line:
            verb = _of_verb(into, line["verb"])
            verb["took"].append(line["plugins"])
            verb["cpu"].append(cpu.pop(line["pod"]))
        elif "batch" in line:
            _of_verb(into, line["verb"]).setdefault("batches", []).append(line["batch"])
    return into


def recorded(*turns):
    """{name: what record() makes of it} of turns that are known by (name, lines)."""
    found = {}
    for some in turns:
        for name, lines in some.found():
            record(found.setdefault(name, {}), lines)
    return found


def _of_verb(into, verb):
    return into.setdefault(verb, {"took": [], "cpu": [], "rss": 0, "plugins": {}})


def _in_turns(names, number):
    """Whoever was first comes last next time, so that each follows each."""
    names = list(names)
    start = number % len(names)
    return names[start:] + names[:start]


def settle(seconds=0.02):
    """What the kernel put off is done before the next one is measured."""
    time.sleep(seconds)


def one_at_a_time(subjects, pods, options, network="chain0", renew=lambda subject, number: None):
    """A pod comes, is checked and goes, then the next; the subjects take turns at each verb. CHECK may
    fail: the reference's portmap looks for each port in the IPv6 rules, too, and ends there. Of
    host-device no other pod is there: there is one device, and of firewall there is one address. renew() makes
    what a pod of that number has before ADD."""
    present = 0 if network.startswith(("host-device", "firewall")) else options.present
    for name, subject in subjects.items():
        subject.grow(present + pods + 1)
        for number in range(present + pods + 1):
            renew(subject, number)
        # The first makes what all share, and those that are there already stay.
        warm = [subject.pod(pods, options.ports)]
        subject.job("ADD", warm, network)
        subject.job("DEL", warm, network)
        subject.job("ADD", others_of(subject, pods, present, options), network)
    turns = {verb: Turns(pods) for verb in VERBS}
    for number in until_all_suffice(turns.values()):
        for verb in VERBS:
            with turns[verb].turn() as found:
                for name in _in_turns(subjects, number):
                    if verb == "ADD":
                        renew(subjects[name], number % pods)
                    pod = [subjects[name].pod(number % pods, options.ports)]
                    found.append((name, subjects[name].job(verb, pod, network,
                                                           tolerant=verb == "CHECK")))
                    settle()
    for subject in subjects.values():
        subject.job("DEL", others_of(subject, pods, present, options), network)
    return recorded(*turns.values())


def others_of(subject, pods, present, options):
    """The pods that are there while others are measured."""
    return [subject.pod(pods + 1 + i, options.ports) for i in range(present)]


def many_at_a_time(subjects, pods, options):
    """All pods come, then all go, some at a time; whole batches in turns."""
    for name, subject in subjects.items():
        subject.grow(pods)
        for verb in ("ADD", "DEL"):
            subject.job(verb, [subject.pod(0, options.ports)])
    turns = {verb: Turns(options.rounds) for verb in ("ADD", "DEL")}
    for number in until_all_suffice(turns.values()):
        for verb in turns:
            with turns[verb].turn() as found:
                for name in _in_turns(subjects, number):
                    some = [subjects[name].pod(i, options.ports) for i in range(pods)]
                    lines = subjects[name].job(verb, some, parallel=options.parallel)
                    found.append((name, lines))
                    settle(0.3)
    return recorded(*turns.values())


def loopback(subjects, rounds):
    """lo of a pod is set up, beside a program that does nothing."""
    kinds = {name: (one, "loopback") for name, one in subjects.items()}
    first = next(iter(subjects.values()))
    kinds["empty"] = (first, "empty")
    for name, (subject, network) in kinds.items():
        subject.grow(1)
        for number in range(3):
            subject.job(("ADD", "DEL")[number % 2], [subject.pod(0)], network)
    turns = Turns(rounds)
    for number in until_all_suffice([turns]):
        with turns.turn() as found:
            for name in _in_turns(kinds, number):
                subject, network = kinds[name]
                for verb in ("ADD", "DEL"):
                    found.append((name, subject.job(verb, [subject.pod(0)], network)))
    return recorded(turns)


def growth(subject, alone, levels, samples, bridges):
    """One pod comes and goes beside so many others, on some bridges of one network, in turns with one
    on a node of its own where no other is: what takes up the machine meanwhile takes up both. An empty
    process tells whether the machine itself became slower."""
    subject.grow(max(levels) + bridges)
    alone.grow(bridges)
    nodes = {"chain": subject, "alone": alone}
    for one in nodes.values():
        for bridge in range(bridges):
            for verb in ("ADD", "DEL"):
                one.job(verb, [one.pod(bridge)], f"chain{bridge}")
    found = []
    there = 0
    for level in levels:
        for bridge in range(bridges):
            new = [subject.pod(i) for i in range(there, level) if i % bridges == bridge]
            subject.job("ADD", new, f"chain{bridge}", parallel=2)
        there = level
        settle(5)  # new pods say hello to their neighbours
        networks = [f"chain{bridge}" for bridge in range(bridges)]
        found.append({"pods": level} | one_more(nodes, {"chain": level, "alone": 0}, samples, networks))
    return found


def one_more(nodes, levels, samples, networks):
    """One pod of each network beside as many as are on each node, and an empty program."""
    turns = Turns(samples)
    for number in until_all_suffice([turns]):
        which = number % len(networks)
        with turns.turn() as found:
            alone = nodes["alone"]
            found.append(("empty", alone.job("ADD", [alone.pod(which)], "empty")))
            for verb in ("ADD", "DEL"):
                for name in _in_turns(nodes, number):
                    pod = [nodes[name].pod(levels[name] + which)]
                    found.append((name, nodes[name].job(verb, pod, networks[which])))
                    settle()
    return recorded(turns)
