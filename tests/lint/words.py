#!/usr/bin/env python3
"""Texts say what is so for every reader: no plans without an issue, no place that only the writer
has, no file that is not there, no name that says nothing."""

import pathlib
import re
import sys

from sources import ROOT, Complaints, files, text

PATTERNS = [
    (re.compile(r"\b(?:TODO|FIXME|XXX)\b(?!\(?#\d+)"), "a plan belongs into an issue: TODO(#1)"),
    (re.compile(r"(?<![\w.$}])/(?:work|home|Users)/\w"), "a path that only one machine has"),
    (re.compile(r"\b(?!Network|fieldManager)\w*[a-z](?:Manager|Helper|Util)\b"), "name it after what it does"),
]
MENTIONED = re.compile(r"(?<![\w/.-])([\w./-]*[\w-]+\.md)\b")
URL = re.compile(r"https?://([\w.-]+)")
# Documents of others that ours cite.
CITED = {"SPEC.md", "CONVENTIONS.md", "network-binding-plugin.md"}
HOSTS = re.compile(
    r"(?:.*\.)?(?:github\.com|apache\.org|kernel\.org|rfc-editor\.org|cni\.dev|netfilter\.org|w3\.org|man7\.org"
    r"|kubernetes\.io|json-schema\.org|example\.(?:com|net|org)|localhost|127\.0\.0\.1|192\.0\.2\.\d+)$")


def complaints_of(path, content, names):
    """(line, complaint) for each thing in a text that should not be there."""
    for number, line in enumerate(content.split("\n"), 1):
        for pattern, complaint in PATTERNS:
            if match := pattern.search(line):
                yield number, f"'{match.group(0)}': {complaint}"
        for name in MENTIONED.findall(line):
            if pathlib.PurePath(name).name not in names | CITED:
                yield number, f"'{name}': no such file in this repository"
        for host in URL.findall(line):
            if not HOSTS.match(host):
                yield number, f"'{host}': not a host that documentation is cited from"


def main():
    complaints = Complaints()
    here = pathlib.Path(__file__).resolve().relative_to(ROOT)
    paths = files() + [p.relative_to(ROOT) for p in sorted(ROOT.iterdir())
                       if p.is_file() and p.name != ".git"]  # a file in a linked work tree
    names = {path.name for path in paths}
    for path in paths:
        if path == here or path.name == "LICENSE":
            continue
        for line, complaint in complaints_of(path, text(path), names):
            complaints.add(path, line, complaint)
    return complaints.code()


if __name__ == "__main__":
    sys.exit(main())
