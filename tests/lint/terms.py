#!/usr/bin/env python3
"""Documents, help and error texts use the field's terms: none of the words below, which man pages, the
CNI spec and Kubernetes do not use for these things. Of documents the prose is read, without code
blocks and backticks, of the sources the string literals: errors, help and descriptions of keys."""

import re
import sys

from sources import ROOT, Complaints, files, text

# (pattern, what to write). Each matches a phrase that has no other meaning here.
TERMS = [
    (r"hardware address(?:es)?", "MAC address"),
    (r"whole numbers?", "integer"),
    (r"true or false values?", "boolean"),
    (r"tak(?:e|es|en|ing) back|took back", "roll back, undo"),
    (r"tak(?:e|es|en|ing) down|took down", "detach, remove"),
    (r"(?:node|pod|host)'s ends?|(?:outer|inner) ends?", "host veth, container interface"),
    (r"short way|usual cases?", "fast path"),
    (r"guests?", "virtual machine, User-Mode-Linux"),
    (r"(?<![/_.-])floor(?![.(_-])", "baseline"),
    (r"(?:is|are|was|were) (?:gone|told)", "does not exist, was removed; gets, reads"),
    (r"(?:is|are|was|were) there(?= (?:already|before|alone|too)|[.,;:)])", "exists"),
    (r"what (?:was|is|were) left", "leftovers, stale lease"),
    (r"heal(?:s|ed|ing)?", "reclaim, repair"),
    (r"looked through", "listed, dumped"),
    (r"(?:is|are|was|were) asked for by name", "queried by name"),
    (r"h[oe]ld(?:s|ing)? back|waits there", "queue, shape, rate limit"),
    (r"(?:is|are) refused with code", "fails with code"),
    (r"beats?", "overrides"),
    (r"somebody else(?:'s)?", "another program's, another attachment's"),
    (r"kept in mind|keeps? in mind", "stored in"),
]
# In documents alone: the first mention names containernetworking/plugins, the others the plugins.
REFERENCE = (r"[Tt]he reference(?:'s)?(?! (?:plugins?|library|runtime|implementation|`?cnitool))",
             "the reference plugins")
CODE = re.compile(r"```.*?```|`[^`\n]*`|^ {4}.*$|<!--.*?-->", re.DOTALL | re.MULTILINE)
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def compiled(terms):
    # A phrase may go on in the next line, or in the next literal.
    return [(re.compile(rf"(?<!\w)(?:{pattern})(?!\w)".replace(" ", r"\s+")), instead)
            for pattern, instead in terms]


IN_DOCUMENTS = compiled(TERMS + [REFERENCE])
IN_SOURCES = compiled(TERMS)


def blanked(text, first=" "):
    return first + re.sub(r"[^\n]", " ", text)[1:] if text else ""


def literals(content):
    """The string literals at their places, with blanks between those that the compiler joins."""
    out, end = [], 0
    for match in LITERAL.finditer(content):
        gap = content[end:match.start()]
        out += [blanked(gap, "|" if gap.strip() else " "), " ", match.group(0)[1:-1], " "]
        end = match.end()
    return "".join(out)


def complaints_of(path, content):
    is_document = path.suffix == ".md"
    prose = CODE.sub(lambda match: blanked(match.group(0)), content) if is_document else literals(content)
    for pattern, instead in IN_DOCUMENTS if is_document else IN_SOURCES:
        for match in pattern.finditer(prose):
            found = re.sub(r"\s+", " ", match.group(0))
            yield prose.count("\n", 0, match.start()) + 1, f"'{found}': write {instead}"


def main():
    complaints = Complaints()
    documents = [path.relative_to(ROOT) for path in sorted(ROOT.glob("*.md"))] + files(".md")
    for path in documents + files(".cc", ".h", folders=["cnitool", "installer", "kubernetes", "libcni", "netlink", "plugins"]):
        for line, complaint in sorted(complaints_of(path, text(path))):
            complaints.add(path, line, complaint)
    return complaints.code()


if __name__ == "__main__":
    sys.exit(main())
