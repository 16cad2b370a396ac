"""What was measured, as figures with verdicts."""

import dataclasses
import statistics

MODES = ("ifb", "pod")
#: A goal that is missed by a figure within this of the baseline is the kernel's to miss.
NEAR_FLOOR = 1.3
#: What the 1001st pod may take, of what the first takes.
MOST_GROWTH = 1.15
ONLY = ["bridge", "host-local", "portmap", "bandwidth"]  # all that may be executed for an ADD


@dataclasses.dataclass
class Figure:
    """One line of the table: wanted says in words what holds is about; ratio is the reference's
    divided by ours."""

    number: int
    what: str
    ours: float
    unit: str = "ms"
    reference: float = None
    floor: float = None
    multiple: float = None  # of what the figure is compared with instead of the reference
    wanted: str = ""
    holds: bool = None
    note: str = ""

    @property
    def ratio(self):
        """Nothing where a difference came out below nothing."""
        return self.reference / self.ours if min(self.reference or 0, self.ours or 0) > 0 else None

    @property
    def above_floor(self):
        return self.ours / self.floor if self.floor else None


QUANTILE = 0.5  # what --quantile says


def median(values):
    """Of microseconds, in milliseconds: the median, or another quantile where that is asked for."""
    return percentile(values, QUANTILE) if QUANTILE != 0.5 else statistics.median(values) / 1000


def percentile(values, share):
    """In milliseconds."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] / 1000


def less(figure, times):
    """The goal: so many times less than the reference plugins."""
    figure.wanted = f"1/{times}"
    if figure.ratio is not None:
        figure.holds = figure.ratio >= times
    return figure


def multiple(figure, of, most, wanted):
    """Wanted: so many times another figure at most."""
    figure.multiple = figure.ours / of
    figure.wanted, figure.holds = f"{most} {wanted}", figure.multiple <= most
    return figure


def at_most(figure, value, most, wanted):
    figure.wanted, figure.holds = wanted, value <= most
    return figure


def _took(found, name, verb, key="took"):
    values = found.get(name, {}).get(verb, {}).get(key)
    return median(values) if values else None


def of_chain(data):
    """Single pods: ADD, DEL, and later CHECK and processor time."""
    found, out = data["chain"], []
    for verb, times in (("ADD", {"ifb": 13, "pod": 13}), ("DEL", {"ifb": 4, "pod": 7})):
        for mode in MODES:
            out.append(less(Figure(1, f"{verb} of a pod, egress {mode}",
                                   _took(found, f"ours, {mode}", verb),
                                   reference=_took(found, "reference", verb),
                                   floor=_took(found, f"floor, {mode}", verb)), times[mode]))
    return out


def of_crowd(data):
    """Many pods, some at a time: how long all of them took."""
    found, out = data["crowd"], []
    options = data["options"]
    crowd = f"{options['crowd']} pods, {options['parallel']} at a time"
    for verb, times in (("ADD", 10), ("DEL", 5)):
        for mode in MODES:
            out.append(less(Figure(2, f"{verb} of {crowd}, egress {mode}",
                                   _took(found, f"ours, {mode}", verb, "batches"),
                                   reference=_took(found, "reference", verb, "batches"),
                                   floor=_took(found, f"floor, {mode}", verb, "batches")), times))
    for mode in MODES:
        took = found[f"ours, {mode}"]["ADD"]["took"]
        theirs = found.get("reference", {}).get("ADD", {}).get("took")
        middle, high = percentile(took, 0.5), percentile(took, 0.99)
        figure = Figure(2, f"99th percentile of ADD among them, egress {mode}", high,
                        reference=theirs and percentile(theirs, 0.99))
        figure.note = f"the median is {middle:.1f}"
        if theirs:
            figure.note += f"; the reference's 99th is {figure.reference / percentile(theirs, 0.5):.2f} of its median"
        out.append(multiple(figure, middle, 3, "of median"))
    return out


def of_loopback(data):
    found, out = data["loopback"], []
    ours, empty = _took(found, "ours, ifb", "ADD"), _took(found, "empty", "ADD")
    theirs = _took(found, "reference", "ADD")
    figure = Figure(3, "loopback ADD", ours, reference=theirs)
    out.append(at_most(figure, ours / theirs, 0.45, "0.45 of it") if theirs else figure)
    note = f"an empty program takes {empty:.2f}"
    out.append(at_most(Figure(3, "loopback ADD beyond an empty program", ours - empty,
                              reference=theirs and theirs - empty, note=note),
                       ours - empty, 0.25, "0.25 ms"))
    return out


def of_machine(data):
    """Processor time, memory, size."""
    found, out = data["chain"], []
    for mode in MODES:
        out.append(less(Figure(4, f"processor time of ADD, egress {mode}",
                               _took(found, f"ours, {mode}", "ADD", "cpu"),
                               reference=_took(found, "reference", "ADD", "cpu"),
                               floor=_took(found, f"floor, {mode}", "ADD", "cpu")), 12))

    def peak(names):
        return max((verb["rss"] / 1024 for part in ("chain", "loopback") for name in names
                    for verb in (data.get(part) or {}).get(name, {}).values()), default=None)

    memory = Figure(4, "most memory of a process", peak(["ours, ifb", "ours, pod"]), "MiB",
                    peak(["reference"]), note=f"no less than {data['runner'] / 1024:.1f} can be seen")
    out.append(at_most(memory, memory.ours, 4, "4 MiB"))
    size = Figure(4, "size of all plugins", data["sizes"]["ours"] / 1e6, "MB",
                  data["sizes"].get("reference", 0) / 1e6 or None)
    out.append(at_most(size, size.ours, 40, "40 MB"))
    return out


def _at(points, level, verb, key="took", node="chain"):
    """What a pod takes beside so many, or at that time on the node where it is alone."""
    found = [point[node][verb][key] for point in points or () if point["pods"] == level]
    return median(found[0]) if found else None


def _grown(points, verb, key="took"):
    """How many times as much a pod takes beside the most as it does alone at that time."""
    level = points[-1]["pods"]
    return _at(points, level, verb, key) / _at(points, level, verb, key, "alone")


def of_growth(data):
    """A pod more, where many are: an empty program and the floor tell what the machine adds."""
    found, out = data["growth"], []
    ours, floor, theirs = (found.get(name) for name in ("ours, ifb", "floor, ifb", "reference"))
    first, last = ours[0], ours[-1]
    drift = median(last["empty"]["ADD"]["took"]) / median(first["empty"]["ADD"]["took"])
    for verb in ("ADD", "DEL"):
        if theirs:
            level = theirs[-1]["pods"]
            out.append(Figure(5, f"{verb} of pod {level + 1}", _at(ours, level, verb),
                              reference=_at(theirs, level, verb), floor=_at(floor, level, verb),
                              note="the reference's first takes "
                              f"{_at(theirs, level, verb, 'took', 'alone'):.1f}"))
        after = _at(ours, last["pods"], verb)
        alone, before = (_at(ours, point["pods"], verb, "took", "alone") for point in (last, first))
        figure = Figure(5, f"{verb} of pod {last['pods'] + 1}", after,
                        floor=_at(floor, last["pods"], verb))
        figure.note = (f"the first takes {alone:.2f}, took {before:.2f} before the others came; "
                       f"processor time {_grown(ours, verb, 'cpu'):.2f} "
                       f"times, an empty program {drift:.2f} times")
        if floor:
            figure.note += (f", the floor {_grown(floor, verb):.2f} times, its processor time "
                            f"{_grown(floor, verb, 'cpu'):.2f} times")
        out.append(multiple(figure, alone, MOST_GROWTH, "of first"))
    return out


def of_check(data):
    found, out = data["chain"], []
    failed = found.get("reference", {}).get("CHECK", {}).get("failed", {})
    for mode in MODES:
        figure = less(Figure(6, f"CHECK of a pod, egress {mode}",
                             _took(found, f"ours, {mode}", "CHECK"),
                             reference=_took(found, "reference", "CHECK")), 8)
        if failed:
            figure.note = f"the reference's {', '.join(failed)} ends with an error"
        out.append(figure)
    return out


def of_alone(name, add, del_):
    """An interface plugin without others, with the goals of its verbs."""
    def figures_of(data):
        found = data[name]
        return [less(Figure(9, f"{verb} of {name}", _took(found, "ours, ifb", verb),
                            reference=_took(found, "reference", verb),
                            floor=_took(found, "floor, ifb", verb)), times)
                for verb, times in (("ADD", add), ("DEL", del_))]
    return figures_of


def of_chained(name, add):
    """A plugin that is chained, without others, with the goal of ADD."""
    def figures_of(data):
        added, removed = (Figure(9, f"{verb} of {name}", _took(data[name], "ours, ifb", verb),
                                 reference=_took(data[name], "reference", verb)) for verb in ("ADD", "DEL"))
        return [less(added, add), removed]
    return figures_of


def of_trace(data):
    """Programs, system calls, and requests for which the kernel holds RTNL."""
    out = []

    def total(name, verb, key):
        calls = data["trace"].get(name, {}).get(verb, [])
        found = sum(call[key] if isinstance(call[key], int) else len(call[key]) for call in calls)
        return found or None

    for mode in MODES:
        name = f"ours, {mode}"
        for verb in ("ADD", "DEL"):
            for key, what in (("programs", "programs executed"), ("calls", "system calls"),
                              ("changes", "requests that hold RTNL")):
                figure = Figure(7, f"{what} in {verb}, egress {mode}", total(name, verb, key) or 0,
                                "", total("reference", verb, key))
                figure.floor = total(f"floor, {mode}", verb, key)
                out.append(figure)
                if key == "programs" and verb == "ADD":
                    run = [one for call in data["trace"][name][verb]
                           for one in call["programs"]]
                    figure.wanted, figure.holds = "4 or less", len(run) <= 4 and set(run) <= set(ONLY)
                    figure.note = " ".join(run)
    return out


def of_netavark(data):
    """For one bridge network with one port; ours and the reference's without bandwidth."""
    out = []
    for verb in ("ADD", "DEL") if data.get("netavark") else ():
        def both(name):
            plugins = data["chain"].get(name, {}).get(verb, {}).get("plugins", {})
            return plugins and sum(median(plugins[one]) for one in ("bridge", "portmap"))
        took = median(data["netavark"][verb])
        ours = both("ours, ifb")
        out.append(Figure(8, f"{verb}, bridge and portmap alone", ours, reference=both("reference")
                          or None, note=f"netavark {took:.1f}, {took / ours:.1f} times"))
    return out


PARTS = {"chain": (of_chain, of_check, of_machine), "crowd": (of_crowd,),
         "loopback": (of_loopback,), "growth": (of_growth,), "trace": (of_trace,),
         "netavark": (of_netavark,), "ptp": (of_alone("ptp", 12, 4),),
         "macvlan": (of_alone("macvlan", 5, 2),), "host-device": (of_alone("host-device", 4, 2),),
         "tuning": (of_chained("tuning", 4),), "sbr": (of_chained("sbr", 4),),
         "firewall": (of_chained("firewall", 15),), "firewall-iptables": (of_chained("firewall-iptables", 4),)}


def figures(data):
    """All figures of what was measured, in order."""
    found = [figure for part, functions in PARTS.items() if data.get(part)
             for function in functions for figure in function(data)]
    return sorted(found, key=lambda figure: figure.number)


def number(value, unit="ms"):
    """As short as it may be."""
    if value is None:
        return ""
    if unit == "":
        return f"{value:.0f}"
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _verdict(figure):
    """The goal's rule is that of "wanted" alone; beside a miss stands whether the kernel's own work
    leaves no room for it."""
    if figure.holds is False and figure.above_floor is not None and figure.above_floor <= NEAR_FLOOR:
        return f"missed, {figure.above_floor:.2f} of the baseline"
    return {None: "", True: "met", False: "missed"}[figure.holds]


def _compared(figure):
    if figure.multiple:
        return f"{figure.multiple:.2f}"
    return f"1/{figure.ratio:.1f}" if figure.ratio else ""


HEADER = ("", "ours", "reference", "ratio", "goal", "baseline", "of it", "", "")
SHOWN = (*range(1, 7), 9)  # the numbers that docs/speed.md shows


def _cells(figure):
    return (figure.what, f"{number(figure.ours, figure.unit)} {figure.unit}".strip(),
            number(figure.reference, figure.unit),
            _compared(figure), figure.wanted,
            number(figure.floor, figure.unit),
            f"{figure.above_floor:.2f}" if figure.above_floor else "", _verdict(figure), figure.note)


def table(found):
    """The figures for a terminal."""
    rows = [HEADER] + [_cells(figure) for figure in found]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER) - 1)]
    numbers = [""] + [figure.number for figure in found]
    lines = []
    for at, row in zip(numbers, rows):
        cells = [cell.ljust(width) if i in (0, 7) else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        lines.append(f"{at or ' '} {'  '.join(cells)}  {row[-1]}".rstrip())
    return "\n".join(lines)


def markdown(found):
    """The whole table for docs/speed.md."""
    lines = ["| | ours | reference | ratio | goal | baseline | |", "|---|--:|--:|--:|--:|--:|---|"]
    for figure in found:
        if figure.number in SHOWN:
            what, ours, reference, ratio, wanted, floor, _, verdict, _ = _cells(figure)
            lines.append(f"| {' | '.join((what, ours, reference, ratio, wanted, floor, verdict))} |")
    return "\n".join(lines)


def write_tables(paths, data):
    """Puts the table where the files have <!-- bench --> and its end."""
    begin, end = "<!-- bench -->\n", "<!-- /bench -->"
    for path in paths:
        with open(path, encoding="utf-8") as file:
            before, rest = file.read().split(begin, 1)
        with open(path, "w", encoding="utf-8") as file:
            file.write(before + begin + f"{data['machine']}:\n\n{markdown(figures(data))}\n" + end
                       + rest.split(end, 1)[1])
