#!/usr/bin/env python3
"""ADD of an attachment that lives is refused, and takes nothing from it, whoever gives the addresses: the lease, the
rules and the interface stay, and DEL removes them."""

import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from interface_test import EACH, Stage, rename_interface, with_each  # noqa: E402
from support import suite  # noqa: E402
from support.configs import CONFIGS, give_device, own_of  # noqa: E402
from support.plugin import OURS, finish_all, start  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot  # noqa: E402

#: Who gives the addresses, and whether it is another file than the plugin, and so a process of its own.
IPAM = [("with host-local", "host-local", False), ("with host-local as a process", "host-local", True),
        ("with static", "static", False), ("with static as a process", "static", True)]
STATIC = {"type": "static", "addresses": [{"address": "10.1.2.2/24", "gateway": "10.1.2.1"}],
          "routes": [{"dst": "0.0.0.0/0"}]}
#: What an attachment has on the node besides.
MORE = {"bridge": {"macspoofchk": True, "ipMasq": True}, "ptp": {"ipMasq": True}}


@suite.spread
class SecondAdd(Stage):
    def prepare_with(self, plugin, ipam, apart):
        """What calls lay over the config, and their options."""
        self.prepare(plugin)
        give_device(plugin, "dev-pod1")
        more = MORE.get(plugin, {}) | ({"ipam": STATIC} if ipam == "static" else {})
        if not apart:
            return {"more": more}
        path = tempfile.mkdtemp()  # of a copy, which is not the file that is called
        self.addCleanup(shutil.rmtree, path)
        shutil.copy(os.path.join(OURS, ipam), path)
        if plugin == "flannel":
            os.symlink(os.path.join(OURS, "bridge"), os.path.join(path, "bridge"))
        return {"more": more, "path": path}

    def add_at_once(self, count, more, **options):
        own = {"device": "dev-pod1"} if CONFIGS[self.plugin].device else own_of(self.plugin, 1)
        return finish_all([start(self.plugin, "ADD", self.conf | own | more, netns=self.one.path,
                                 container=self.one.name, **options) for _ in range(count)])

    def assert_refused(self, options, ignore=lambda place: False):
        """Alone, again, and several at once."""
        before = self.node_state(), pod_snapshot(self.one)
        for count in (1, 1, 4):
            for refused in self.add_at_once(count, **options):
                self.assert_error(refused)
            self.assert_same(before[0], self.node_state(), ignore)
            self.assert_same(before[1], pod_snapshot(self.one))

    def assert_works_and_goes(self, result, options):
        options["more"] = options["more"] | {"prevResult": result}
        self.assert_ok(self.call("CHECK", **options))
        self.assert_ok(self.call("DEL", **options))
        self.assertEqual(self.links().keys(), {"lo"})
        self.assert_left_nothing()

    @suite.cases(with_each(IPAM))
    def takes_nothing_from(self, case):
        plugin, how = case
        options = self.prepare_with(plugin, *how)
        result = self.assert_ok(self.call("ADD", **options))
        self.assert_refused(options)
        self.assert_works_and_goes(result, options)

    @suite.cases(with_each(IPAM))
    def of_ADDs_at_once_one_succeeds_for(self, case):
        plugin, how = case
        options = self.prepare_with(plugin, *how)
        done = self.add_at_once(4, **options)
        result, = (one.json for one in done if one.ok)
        for one in done:
            if not one.ok:
                self.assert_error(one)
        self.assert_works_and_goes(result, options)

    @suite.cases(with_each(IPAM[:2]))
    def takes_nothing_from_a_pod_that_renamed_the_interface_of(self, case):
        plugin, how = case
        options = self.prepare_with(plugin, *how)
        self.assert_ok(self.call("ADD", **options))
        rename_interface(self)
        self.assert_refused(options, left_by_design)
        self.assert_ok(self.call("DEL", **options))
        self.assertEqual(self.links().keys(), {"lo"})
        self.assert_left_nothing()


if __name__ == "__main__":
    suite.main(per_processor=2)
