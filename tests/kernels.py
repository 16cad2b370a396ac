#!/usr/bin/env python3
"""Every plugin and feature on four kernels: ADD, CHECK and DEL of each row of netns/every_plugin_test.py and
netns/features_test.py. Exit status 1: a row failed, or a kernel was not run. A step of `scripts/test --full`.

    tests/kernels.py [--write] [--row WORD] [own] [6.1] [6.12] [unstable]

own: the machine's own kernel. The others are those of scripts/vm. Without a name all four run. Results are kept in
build/kernels/table.json. --write puts the table of all that were run into docs/kernels.md. --row: only rows that have
this word are run; the others stay as they were.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "kernels" / "table.json"
PAGE = ROOT / "docs" / "kernels.md"
KERNELS = {"own": "the machine's own", "6.1": "Debian 12", "6.12": "Debian 13", "unstable": "Debian unstable"}
TESTS = ("every_plugin", "features")
LINE = re.compile(r"^(ok|skip|FAIL) +comes_and_goes (.+?) \([\d.]+ s\)(?:: (.*))?$", re.M)


def run_on(kernel, word):
    """{row: what came out}, with the kernel's release; None where the kernel cannot be run."""
    tests = [f"{sys.executable} {ROOT}/tests/netns/{name}_test.py {word}" for name in TESTS]
    command = [str(ROOT / "tests/support/each"), "uname -r", *tests]
    env = os.environ | {"PATCHBAY_BIN": os.environ.get("PATCHBAY_BIN", str(ROOT / "build/ci/bin"))}
    if kernel != "own":
        command = [str(ROOT / "scripts/vm"), kernel, *command]
        env |= {"PATCHBAY_GUEST": "1", "VM_TIMEOUT": "3000"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=False)
    print(done.stdout, flush=True)
    rows = {name: cell(word, reason) for word, name, reason in LINE.findall(done.stdout)}
    release = re.search(r"^== uname -r.*\n(\S+)$", done.stdout, re.M)
    return {"release": release[1], "rows": rows} if release and rows else None


def cell(word, reason):
    """Of a skipped row, what lacks."""
    if word != "skip":
        return "works" if word == "ok" else "FAILS"
    lacks = re.match(r"this kernel has no (.+?)(?:;|$)", reason)
    return f"no {lacks[1].removeprefix('links of kind ')}" if lacks else f"not run: {reason}"


def table(found):
    kernels = [kernel for kernel in KERNELS if kernel in found]
    names = list(dict.fromkeys(name for kernel in kernels for name in found[kernel]["rows"]))
    heads = [f"{re.match('[0-9.]+', found[kernel]['release'])[0]}, {KERNELS[kernel]}" for kernel in kernels]
    lines = [f"| plugin, feature | {' | '.join(heads)} |",
             "|---|" + "---|" * len(kernels)]
    for name in sorted(names):
        cells = [found[kernel]["rows"].get(name, "not run") for kernel in kernels]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def publish(text):
    """Replaces what is between <!-- kernels --> and <!-- /kernels -->."""
    old = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(r"(<!-- kernels -->\n).*?(<!-- /kernels -->)", lambda found: f"{found[1]}{text}\n{found[2]}", old,
                           flags=re.S), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", nargs="*", metavar="KERNEL", help=", ".join(KERNELS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--row", default="", metavar="WORD")
    asked = parser.parse_args()
    found = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    missing = []
    for kernel in asked.kernel or KERNELS:
        one = run_on(kernel, asked.row)
        if one is None:
            missing.append(kernel)
            continue
        kept = found[kernel]["rows"] if asked.row and kernel in found else {}
        found[kernel] = one | {"rows": kept | one["rows"]}
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(table(found))
    if asked.write:
        publish(table(found))
    wrong = [f"{name} on {each['release']}" for each in found.values() for name, what in each["rows"].items() if what == "FAILS"]
    for one in [*wrong, *(f"not run: {kernel}" for kernel in missing)]:
        print(one)
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main())
