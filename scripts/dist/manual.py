"""Manual pages of the plugins and of patchbay, from what they print of themselves."""

import datetime
import re

CONFIG = ("/etc/cni/net.d", "the networks, for all runtimes: *.conflist")
RESULTS = ("/var/lib/cni/results", "the results cache of the runtime, which GC and host-local read")
#: What a plugin keeps, as plugins/names/state.h has it.
STATE = {
    "devices": [("/var/lib/cni/devices", "the ledger: a file for each device that is promised or attached"),
                ("/run/cni/devices.sock", "the socket of patchbay-agent")],
    "dhcp": [("/run/cni/dhcp.sock", "the socket of the daemon"), ("/run/cni/dhcp", "the leases"),
             ("/usr/lib/systemd/system/cni-dhcp.service", "the unit of the daemon, with cni-dhcp.socket")],
    "firewall": [("/run/cni/firewall", "a link for each address of a pod")],
    "host-device": [("/run/cni/host-device", "what a device was before ADD, a file for each attachment")],
    "host-local": [("/var/lib/cni/networks", "a folder for each network, with a file for each leased address"), RESULTS],
    "portmap": [("/run/cni/portmap", "the ports of each container")],
    "sbr": [("/run/cni/sbr", "the routes of each attachment"), ("/run/cni/route-tables", "a lock for choosing a table")],
    "tuning": [("/run/cni/tuning", "the settings before ADD, a file for each attachment")],
    "vrf": [("/run/cni/vrf", "the routes of each attachment"), ("/run/cni/route-tables", "a lock for choosing a table")],
}
ENVIRONMENT = [
    ("CNI_COMMAND", "the verb: ADD, DEL, CHECK, GC, STATUS or VERSION"),
    ("CNI_CONTAINERID", "the ID of the container"),
    ("CNI_NETNS", "the path of its network namespace"),
    ("CNI_IFNAME", "the name of the interface in it"),
    ("CNI_ARGS", "KEY=VALUE pairs, with semicolons between them"),
    ("CNI_PATH", "the folders of the plugins that this one calls, with colons between them"),
    ("PATCHBAY_LOG", "a file, or stderr: one line of JSON for each call"),
    ("TRACEPARENT", "the trace of the runtime's call (W3C Trace Context), for the log"),
]
PLUGIN_STATUS = [
    ("0", "The verb has succeeded. The result of ADD is on stdout."),
    ("1", "It has failed. stdout has the error as JSON: a code, a message and details."),
    ("2", "The option or subcommand does not exist."),
]


def roff(text):
    """Text of one paragraph: no line of it is a request, no character of it an escape."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def marked(text):
    """The same, with what is between backquotes in bold letters."""
    parts = text.split("`")
    return roff("".join(f"\1{part}\2" if at % 2 else part for at, part in enumerate(parts))).replace(
        "\1", r"\fB").replace("\2", r"\fR")


def sentence(text):
    return text[:1].upper() + text[1:].rstrip(".") + "."


def listed(entries, letters="I"):
    """(heading, text) pairs as a list; headings with backquotes have their own letters."""
    out = ""
    for heading, text in entries:
        shown = marked(heading) if "`" in heading else rf"\f{letters}{roff(heading)}\fR"
        out += f".TP\n{shown}\n{marked(text)}\n"
    return out


def table_of(keys):
    """(heading, text) of each row that --keys prints."""
    out = []
    for line in keys.splitlines()[2:]:
        name, kind, default, text = (cell.strip() for cell in line.strip("|").split(" | "))
        said = default if default in ("absent", "required") else f"default {default}"
        out.append((f"{name} ({kind}; {said})", sentence(text)))
    return out


def title(name, version, when):
    day = datetime.datetime.fromtimestamp(when, datetime.timezone.utc).strftime("%Y-%m-%d")
    return f'.TH {roff(name.upper())} 8 {day} "patchbay {version}" "CNI plugins"\n'


def also(names):
    return ".SH SEE ALSO\n" + " ,\n".join(rf".BR {roff(name)} ({number})" for name, number in names) + "\n"


def section_after(heading, text):
    """The paragraph of a help text below the heading; empty if there is none."""
    found = re.search(rf"(?ms)^{heading}[^\n]*:\n(.*?)(?:\n\n|\Z)", text)
    return found[1] if found else ""


def plugin_page(plugin, ask, about):
    """ask(plugin, option): what it prints. about: (version of patchbay, time of the sources, folder of the plugins)."""
    version, when, folder = about
    text = ask(plugin, "--help")
    purpose, called = (" ".join(part.split()) for part in text.split("\n\n")[1:3])
    called = re.sub(r"\.? (Verbs|Capabilities):", r".\n.PP\n\1:", called) + "."
    purpose = purpose.removeprefix(plugin).strip()
    keys = table_of(ask(plugin, "--keys"))
    commands = [line.split(None, 1) for line in section_after("Subcommands", text).splitlines()]
    options = [line.split(None, 1) for line in section_after("Options", text).splitlines()]
    page = title(f"cni-{plugin}", version, when)
    page += f".SH NAME\n{roff(f'cni-{plugin}')} \\- {roff(purpose.removeprefix('is an ').rstrip('.'))}\n.SH SYNOPSIS\n"
    page += rf"\fBCNI_COMMAND\fR=\fIVERB\fR {roff(folder)}/\fB{roff(plugin)}\fR < \fICONFIG\fR" + "\n"
    for words in [*options, *commands]:
        page += f".br\n{roff(folder)}/" + rf"\fB{roff(plugin)} {roff(words[0])}\fR" + "\n"
    page += f".SH DESCRIPTION\n{roff(plugin)} {roff(purpose)}\n.PP\n"
    page += "\n".join(line if line.startswith(".PP") else roff(line) for line in called.split("\n")) + "\n"
    page += listed(((f"`{words[0]}`", sentence(words[1])) for words in [*options, *commands]))
    page += ".SH KEYS\n" + (listed(keys) if keys else "None of its own.\n")
    files = [CONFIG, (f"{folder}/{plugin}", "the plugin"), *STATE.get(plugin, [])]
    return page + endings(ENVIRONMENT, PLUGIN_STATUS, files, [("cnitool", 1), ("patchbay", 8), ("ip", 8)])


def endings(environment, status, files, others):
    def sentences(entries):
        return [(name, sentence(text)) for name, text in entries]
    page = ".SH ENVIRONMENT\n" + listed(sentences(environment), "B") if environment else ""
    page += ".SH EXIT STATUS\n" + listed(status, "B")
    return page + ".SH FILES\n" + listed(sentences(files)) + also(others)


def suite_page(ask, about):
    """patchbay(8): the commands that put it into a folder."""
    version, when, folder = about
    installer = ask("patchbay", "install", "--help")
    calls, options, status = installer.strip().split("\n\n")
    plugins = ask("patchbay", "--list").split()
    page = title("patchbay", version, when)
    page += ".SH NAME\npatchbay \\- all CNI plugins in one executable, and what installs them\n.SH SYNOPSIS\n"
    pairs = [re.split(r"  +", line, maxsplit=1) for line in calls.splitlines()]
    page += "\n.br\n".join(rf"\fB{roff(call.split(' DIR')[0])}\fR" + roff(" DIR [OPTION...]") for call, _ in pairs) + "\n"
    page += f".br\n\\fBpatchbay\\fR {roff('PLUGIN [OPTION...]')}\n.SH DESCRIPTION\n"
    page += "The name of the file, or the first argument, selects the plugin: " + roff(", ".join(plugins)) + ".\n"
    page += listed((f"`{call.split(' DIR')[0]}`", sentence(text)) for call, text in pairs)
    page += ".SH OPTIONS\n" + listed((f"`{words[0]}`", sentence(words[1]))
                                     for words in (re.split(r"  +", line.strip(), maxsplit=1) for line in options.splitlines()))
    numbers = [(number, sentence(text)) for number, text in re.findall(r"(\d) ([^.]*?)(?=, \d|\.$)", status.strip())]
    files = [CONFIG, (f"{folder}/patchbay", "the executable; the plugins beside it do not need it"),
             ("DIR/.patchbay/previous", "the files that `patchbay install` replaced, for `patchbay uninstall`")]
    return page + endings([], numbers, files, [("cnitool", 1), *((f"cni-{plugin}", 8) for plugin in plugins)])


def described(lines):
    """(name, text) of each option or subcommand of a help text, whose descriptions begin at the 31st character."""
    out = []
    for line in lines:
        name, text = (line[:30], line[30:]) if line[29:30] in ("", " ") else (line, "")
        if name.strip():
            out.append((name.strip(), text.strip()))
        else:
            out[-1] = out[-1][0], f"{out[-1][1]} {text.strip()}".strip()
    return out


def agent_page(ask, about):
    """patchbay-agent(8)."""
    version, when = about
    text = ask("patchbay-agent", "--help")
    options, commands = (described(section_after(heading, text).splitlines()) for heading in ("Options", "Subcommands"))
    purpose = text.partition("\n")[0]
    page = title("patchbay-agent", version, when)
    page += f".SH NAME\npatchbay\\-agent \\- {roff(purpose.rstrip('.')[:1].lower() + purpose.rstrip('.')[1:])}\n.SH SYNOPSIS\n"
    page += rf"\fB{roff('patchbay-agent')}\fR" + roff(" [OPTION...]") + "\n"
    page += "".join(f".br\n\\fB{roff(f'patchbay-agent {name}')}\\fR" + roff(" [OPTION...]") + "\n" for name, _ in commands)
    page += f".SH DESCRIPTION\n{roff(purpose)}\nThe CNI plugin devices attaches them. The unit patchbay\\-agent.service starts it.\n"
    page += listed((f"`{name}`", sentence(words)) for name, words in commands)
    page += ".SH OPTIONS\n" + listed((f"`{name}`", sentence(words)) for name, words in options)
    page += ".SH KEYS\nOf the config:\n" + listed(table_of(ask("patchbay-agent", "--keys")))
    status = [("0", "It was ended by a signal, or the command has succeeded."),
              ("1", "It cannot start, or the command has failed. stderr says why."), ("2", "The option does not exist.")]
    files = [("/etc/patchbay/devices.json", "the config"), *STATE["devices"],
             ("/var/lib/kubelet", "the kubelet, with its folders device-plugins, plugins_registry and pod-resources"),
             ("/var/run/cdi", "CDI specs of pools with the key cdi"),
             ("/var/run/k8s.cni.cncf.io/devinfo/dp", "device-info files of PCI devices")]
    return page + endings([], status, files, [("cni-devices", 8), ("cnitool", 1)])


def tool_page(page, when):
    """cnitool's own page, which has no date."""
    day = datetime.datetime.fromtimestamp(when, datetime.timezone.utc).strftime("%Y-%m-%d")
    return page.replace('.TH CNITOOL 1 ""', f".TH CNITOOL 1 {day}", 1)
