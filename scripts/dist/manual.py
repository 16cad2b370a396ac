"""Manual pages, from what the executables print of themselves. The build calls it.

    manual.py EXECUTABLE OUT VERSION PLUGINS [RUNNER...]    EXECUTABLE: cnitool, patchbay or patchbay-agent. PLUGINS: where the
                                                            plugins are installed. RUNNER: what executes it, if this machine cannot
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

CONFIG = ("/etc/cni/net.d", "the networks, for all runtimes: *.conflist")
RESULTS = ("/var/lib/cni/results", "the results cache of the runtime, which GC and host-local read")
#: What a plugin keeps, as plugins/names/state.h has it.
STATE = {
    "cluster-pool": [("/var/lib/cni/blocks", "the blocks of each network that this node has, and wants"),
                     ("/var/lib/cni/networks", "a folder for each network, with a file for each leased address"), RESULTS],
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


def title(name, version, section=8):
    """With the day of the sources, if SOURCE_DATE_EPOCH has it."""
    when = os.environ.get("SOURCE_DATE_EPOCH")
    day = datetime.datetime.fromtimestamp(int(when), datetime.timezone.utc).strftime("%Y-%m-%d") if when else ""
    return f'.TH {roff(name.upper())} {section} "{day}" "patchbay {version}" "CNI plugins"\n'


def also(names):
    return ".SH SEE ALSO\n" + " ,\n".join(rf".BR {roff(name)} ({number})" for name, number in names) + "\n"


def section_after(heading, text):
    """The paragraph of a help text below the heading; empty if there is none."""
    found = re.search(rf"(?ms)^{heading}[^\n]*:\n(.*?)(?:\n\n|\Z)", text)
    return found[1] if found else ""


def plugin_page(plugin, ask, about):
    """ask(plugin, option): what it prints. about: (version of patchbay, folder of the plugins)."""
    version, folder = about
    text = ask(plugin, "--help")
    purpose, called = (" ".join(part.split()) for part in text.split("\n\n")[1:3])
    called = re.sub(r"\.? (Verbs|Capabilities):", r".\n.PP\n\1:", called) + "."
    purpose = purpose.removeprefix(plugin).strip()
    keys = table_of(ask(plugin, "--keys"))
    commands = [line.split(None, 1) for line in section_after("Subcommands", text).splitlines()]
    options = [line.split(None, 1) for line in section_after("Options", text).splitlines()]
    page = title(f"cni-{plugin}", version)
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
    version, folder = about
    installer = ask("patchbay", "install", "--help")
    calls, options, status = installer.strip().split("\n\n")
    plugins = ask("patchbay", "--list").split()
    page = title("patchbay", version)
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


def agent_page(ask, version):
    """patchbay-agent(8)."""
    text = ask("patchbay-agent", "--help")
    options, commands = (described(section_after(heading, text).splitlines()) for heading in ("Options", "Subcommands"))
    purpose = text.partition("\n")[0]
    page = title("patchbay-agent", version)
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


def argument(one):
    """How an option or a positional argument of cnitool is written."""
    if not one["names"][0].startswith("-"):
        return rf"\fI{roff(one['names'][0].upper())}\fR"
    names = ", ".join(rf"\fB{roff(name)}\fR" for name in one["names"])
    return names + (rf" \fI{roff(one['value'])}\fR" if one["value"] else "")


def arguments(every):
    out = ""
    for one in every:
        out += f".TP\n{argument(one)}\n{roff(sentence(one['what']))}\n"
        out += rf"The default is \fB{roff(one['default'])}\fR." + "\n" if one["default"] else ""
    return out


def command(program, one):
    """The section of a command of cnitool."""
    options = [each for each in one["options"] if each["names"][0] != "--help"]
    usage = [rf"\fB{program}\fR \fB{roff(one['name'])}\fR"]
    for each in one["positionals"]:
        name = argument(each) + ("..." if each["many"] else "")
        usage.append(name if each["required"] else f"[{name}]")
    usage += [f"[{argument(each)}]" for each in options]
    text = f".SS {roff(one['name'])}\n{' '.join(usage)}\n.PP\n{roff(sentence(one['what']))}\n"
    return text + arguments(one["positionals"]) + arguments(options)


def tool_page(ask, about):
    """cnitool(1), of the table of its commands."""
    version, folder = about
    table = json.loads(ask("cnitool", "complete", "--table"))
    environment, _, footer = table["footer"].partition("\n\n")
    name = table["name"]
    page = title(name, version, section=1)
    page += f".SH NAME\n{name} \\- {roff(table['what'].rstrip('.'))}\n.SH SYNOPSIS\n"
    page += rf"\fB{name}\fR [\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]" + f"\n.SH DESCRIPTION\n{roff(footer)}\n"
    page += ".SH COMMANDS\n" + "".join(command(name, one) for one in table["commands"])
    page += ".SH OPTIONS\nOptions can precede or follow the command.\n" + arguments(table["options"])
    page += f".SH ENVIRONMENT\n.nf\n{roff(environment.partition(chr(10))[2])}\n.fi\n"
    status = [("0", "Success."), ("1", "A failure: of a plugin, or with `validate` an error in a network."),
              ("2", "The command line is wrong.")]
    files = [(CONFIG[0], "the networks: *.conflist are lists of plugins, *.conf and *.json are one"),
             (folder, "the plugins"), ("/var/lib/cni/results", "the results cache: parameters and result of every add")]
    return page + endings([], status, files, [("ip-netns", 8), ("patchbay", 8)])


def main(executable, out, version, folder, *runner):
    executable, out = pathlib.Path(executable), pathlib.Path(out)

    def ask(program, *options):
        words = [executable] if executable.name == program else [executable, program]  # a plugin: "patchbay bridge --keys"
        return subprocess.run([*runner, *words, *options], check=True, stdout=subprocess.PIPE, text=True).stdout

    about = version, folder
    if executable.name == "cnitool":
        pages = {"cnitool.1": tool_page(ask, about)}
    elif executable.name == "patchbay-agent":
        pages = {"patchbay-agent.8": agent_page(ask, version)}
    else:
        pages = {f"cni-{plugin}.8": plugin_page(plugin, ask, about) for plugin in ask("patchbay", "--list").split()}
        pages["patchbay.8"] = suite_page(ask, about)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (out / name).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
