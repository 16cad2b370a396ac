"""The commands of a page of documentation: its indented blocks. Fenced blocks are code or output.

A comment at the end of a command, "# prints: WORDS", says what is in its output."""

import contextlib
import dataclasses
import glob
import os
import re
import shlex
import signal
import subprocess
import threading
import time

from support.plugin import ROOT
from support.world import wait_for

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# Lines that are indented by four spaces; empty lines stand between. Before it: an empty line, no list.
_BLOCK = re.compile(r"(?<=\n\n)(?:    .*\n|\n(?=    ))+")
_PRINTS = re.compile(r"\s# prints: (.+)$")
# What an interactive shell executes before each prompt, that is after each command.
STOP = 'status=$?; [ $status = 0 ] || { echo "walk: status $status"; exit $status; }'
BEGINS = "walk: begins "
PRINTS = "walk: has printed "
#: Of root on Debian. A version manager's wrappers, which may be before it, are nobody's but their owner's.
ROOTS_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def text_of(page):
    """A path from the repository's root."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def blocks(page):
    """[(line, commands)] of a page."""
    text = _FENCED.sub(lambda found: "\n" * found[0].count("\n"), text_of(page))
    return [(text.count("\n", 0, found.start()) + 1, re.sub("^    ", "", found[0], flags=re.MULTILINE))
            for found in _BLOCK.finditer(text)]


def typed(pages, without=()):
    """What is typed, and what is left out: the lines that begin with one of the words."""
    lines, left_out = [], []
    for page in pages:
        for line, commands in blocks(page):
            lines.append(f"echo '{BEGINS}{page}:{line}'\n")
            for number, command in enumerate(commands.splitlines(), line):
                if command.startswith(tuple(without)):
                    left_out.append(f"{page}:{number}: {command}")
                    continue
                lines.append(command + "\n")
                if words := _PRINTS.search(command):
                    lines.append(f"echo {shlex.quote(PRINTS + f'{page}:{number}: {words[1]}')}\n")
    return "".join([*lines, f"echo '{BEGINS}nothing more'\n", "exit\n"]), left_out


@dataclasses.dataclass
class Walk:
    """What came of typing pages."""

    status: int = -1
    times: dict = dataclasses.field(default_factory=dict)  # {block: seconds}
    last: str = ""                                         # the block that was typed last
    wrong: list = dataclasses.field(default_factory=list)  # words that a command did not print
    goes_on: bool = False                                  # whether a command in the background did, after the shell
    output: str = ""

    def failure(self, text):
        """Why it failed, or None."""
        if self.wrong:
            return "not printed: " + "; ".join(self.wrong)
        expected = text.count(f"echo '{BEGINS}") - 1
        if self.goes_on and self.status == 0:
            return "a command in the background goes on after the last one"
        whole = self.status == 0 and self.last == "nothing more" and len(self.times) == expected
        return None if whole else f"in {self.last}"


def _lives(group):
    """Whether a process group has a process that has not ended: proc_pid_stat(5)."""
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            state, _, its = file.read().rpartition(") ")[2].split()[:3]
            if int(its) == group and state != "Z":
                return True
    return False


def walk(text, tell=lambda line: None, env=None, seconds=None):
    """Types the text into one shell, in the repository's root, and kills it after some seconds. tell() gets each line of
    output."""
    env = (os.environ if env is None else env) | {"PROMPT_COMMAND": STOP, "PS1": "", "PS2": ""}
    shell = subprocess.Popen(["bash", "--norc", "-i"], cwd=ROOT, env=env, stdin=subprocess.PIPE, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", start_new_session=True)
    out, began, printed = Walk(), time.monotonic(), ""

    def end():  # a command in the background would keep its stdout open
        try:
            out.status = shell.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            out.status = shell.wait()
        out.goes_on = not wait_for(lambda: not _lives(shell.pid), 5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)

    ending = threading.Thread(target=end)
    ending.start()
    shell.stdin.write(text)
    shell.stdin.close()
    for line in shell.stdout:
        out.output += line
        if line.startswith(BEGINS):
            if out.last:
                out.times[out.last] = time.monotonic() - began
            out.last, began, printed = line.removeprefix(BEGINS).strip(), time.monotonic(), ""
        elif line.startswith(PRINTS):
            place, words = line.removeprefix(PRINTS).rstrip("\n").split(": ", 1)
            if words not in printed:
                out.wrong.append(f"{place}: {words}")
            printed = ""
        elif _PRINTS.search(line):  # the shell prints each command before it executes it
            printed = ""
        elif not line.startswith(f"echo '{PRINTS}"):
            printed += line
        tell(line)
    ending.join()
    return out
