"""unittest, with a world per test and output that says what was proved."""

import os
import sys
import time
import traceback
import unittest

from support import plugin, rows
from support.parallel import parallel
from support.snapshot import diff, snapshot
from support.world import Pod, World, own_processes, why_impossible

SKIPPED = 77  # what ctest and automake take for "skipped"


class NodeTest(unittest.TestCase):
    """A test that has a node to itself."""

    maxDiff = None

    def setUp(self):
        self.node = World()
        self.pods = 0

    def pod(self, name=None):
        """A new pod on the node."""
        self.pods += 1
        return Pod(name or f"pod{self.pods}")

    def assert_ok(self, outcome):
        """The plugin succeeded, and its stdout is empty or one JSON document: which is returned."""
        self.assertEqual(outcome.status, 0, str(outcome))
        return outcome.json if outcome.stdout else None

    def assert_error(self, outcome, code=None, msg=None):
        """The plugin failed as the spec says: exit 1 and one error object on stdout, returned."""
        self.assertEqual(outcome.status, 1, str(outcome))
        try:
            error = outcome.json
        except ValueError as reason:
            self.fail(f"stdout is not one JSON document ({reason}): {outcome}")
        self.assertIsInstance(error, dict, str(outcome))
        self.assertIsInstance(error.get("cniVersion"), str, str(outcome))
        self.assertIsInstance(error.get("code"), int, str(outcome))
        self.assertTrue(isinstance(error.get("msg"), str) and error["msg"], str(outcome))
        if code is not None:
            self.assertEqual(error["code"], code, str(outcome))
        if msg is not None:
            self.assertIn(msg, error["msg"] + " " + error.get("details", ""), str(outcome))
        return error

    def assert_same(self, before, after=None, ignore=lambda place: False, what=""):
        """Nothing but what ignore() names differs between two snapshots."""
        difference = diff(before, snapshot() if after is None else after, ignore)
        if difference:
            lines = [line[:300] for line in difference.splitlines()]
            more = [f"... and {len(lines) - 30} more"] if len(lines) > 30 else []
            self.fail("\n       ".join([what or "the state differs:", *lines[:30], *more]))


def cases(table):
    """Decorates a test method that is run once per row of table, a list of (name, row)."""
    def decorate(function):
        function.cases = table
        return function
    return decorate


def spread(cls):
    """Class decorator: makes a test of its own of every case of the methods marked by cases()."""
    for name, function in list(vars(cls).items()):
        if not hasattr(function, "cases"):
            continue
        delattr(cls, name)
        for label, row in function.cases:
            def test(self, function=function, row=row):
                return function(self, row)
            test.sentence = label
            key = "test_" + name + " " + label
            assert not hasattr(cls, key), f"two cases are called {key}"
            setattr(cls, key, test)
    return cls


def _say(text):
    """A line of its own, also where processes print beside each other: print() may write its end apart."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class _Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed, self.failed, self.skips = [], [], []

    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()

    def _line(self, word, test, more=""):
        took = time.monotonic() - getattr(self, "begin", time.monotonic())
        _say(f"{word:4} {_name(test)} ({took:.2f} s){more}")

    def addSuccess(self, test):
        self.passed.append(_name(test))
        self._line("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.skips.append(_name(test))
        self._line("skip", test, f": {reason}")

    def _failure(self, test, error):
        self.failed.append(_name(test))
        kind, value, trace = error
        if issubclass(kind, AssertionError):
            frame = [f for f in traceback.extract_tb(trace) if "/unittest/" not in f.filename][-1]
            self._line("FAIL", test, f"\n     {frame.filename}:{frame.lineno}: {value}")
        else:
            self._line("FAIL", test, "\n" + "".join(traceback.format_exception(kind, value, trace)))

    def addSubTest(self, test, subtest, err):
        if err:
            self._failure(subtest, err)

    def addFailure(self, test, err):
        self._failure(test, err)

    def addError(self, test, err):
        self._failure(test, err)


def _name(test):
    test = getattr(test, "test_case", test)  # of a subtest
    method = getattr(test, "_testMethodName", str(test))
    name = method.removeprefix("test_")
    return name if " " in name else name.replace("_", " ")


def _each(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _each(item)
        else:
            yield item


def _selects(word, name):
    """Whether an argument of main() selects a test."""
    if word.startswith("="):
        return word[1:] == name
    return (word.removeprefix("!") in name) != word.startswith("!")


def _run(tests, per_processor):
    """What became of the tests. Where more than one runs at once, each process plays a node of its own."""
    result = _Result()
    if per_processor == 0 or len(tests) < 2 or os.environ.get("PATCHBAY_GUEST"):
        for test in tests:
            test(result)
        return result

    def run(test):
        World()  # as in main()
        one = _Result()
        test(one)
        return one.passed, one.failed, one.skips

    for test, found in zip(tests, parallel(run, tests, per_processor, is_node=True)):
        if found is None:
            _say(f"FAIL {_name(test)}: its process ended")
        passed, failed, skips = found or ([], [_name(test)], [])
        result.passed += passed
        result.failed += failed
        result.skips += skips
    return result


def main(needs=(), needs_plugins=True, summary=lambda: None, sampled_in_guest=False, per_processor=0):
    """Runs the tests of the calling file; arguments are words that a test's name must contain, or with
    a "!" in front must not, or with a "=" be. summary() is called before the closing line. sampled_in_guest: of what a
    virtual machine makes slow sampled() runs a part. per_processor: so many tests run at once, for a file whose tests wait
    for the pauses of a daemon and share nothing; 0: one after the other."""
    words = [a for a in sys.argv[1:] if not a.startswith("-")]
    reason = why_impossible()
    missing = plugin.have("ip", "nft", "tc", *needs)
    if missing:
        reason = f"needs the program {missing}"
    if needs_plugins and not os.path.isdir(plugin.OURS):
        reason = f"no plugins in {plugin.OURS}: build them, or set PATCHBAY_BIN"
    if reason:
        print(f"skip everything: {reason}\n0 passed, 0 failed, 1 skipped", flush=True)
        sys.exit(SKIPPED)
    own_processes()
    World()  # a test that makes none of its own sees nothing of the machine's /etc/cni, /run and /var/lib, either
    tests = list(_each(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))
    if sampled_in_guest and os.environ.get("PATCHBAY_GUEST"):
        tests = rows.sampled(tests)
    result = _run([test for test in tests if all(_selects(word, _name(test)) for word in words)], per_processor)
    of_other_days = rows.remember(result.passed, result.failed) if not any(word.startswith("=") for word in words) else 0
    summary()
    print(f"{len(result.passed)} passed, {len(result.failed) + of_other_days} failed, {len(result.skips)} skipped",
          flush=True)
    if result.failed or of_other_days:
        sys.exit(1)
    sys.exit(0 if result.passed else SKIPPED)
