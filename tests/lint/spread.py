#!/usr/bin/env python3
"""A method with @suite.cases is run only in a class with @suite.spread, which makes a test of each case."""

import ast
import sys

from sources import Complaints, files, text


def marks(node, name):
    """The uses of suite.NAME in a tree."""
    return [one for one in ast.walk(node) if isinstance(one, ast.Attribute) and one.attr == name
            and isinstance(one.value, ast.Name) and one.value.id == "suite"]


def unspread(source):
    """[(line, class)] of the cases that nothing runs."""
    classes = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.ClassDef)]
    return [(mark.lineno, one.name) for one in classes
            if not any(marks(decorator, "spread") for decorator in one.decorator_list)
            for part in one.body if not isinstance(part, ast.ClassDef) for mark in marks(part, "cases")]


def main():
    complaints = Complaints()
    example = "class A:\n    @suite.cases([])\n    def a(self, row): pass\n"
    assert unspread(example) == [(2, "A")] and not unspread("@suite.spread\n" + example)
    for path in files(".py", folders=["tests"]):
        for line, name in unspread(text(path)):
            complaints.add(path, line, f"cases that are not run: class {name} lacks @suite.spread")
    return complaints.code()


if __name__ == "__main__":
    sys.exit(main())
