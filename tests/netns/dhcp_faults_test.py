#!/usr/bin/env python3
"""The kernel refuses the daemon of dhcp one call or all of a kind: others keep their leases and get new ones,
the daemon lives on, and nothing is left of what failed.
"""

import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, rows, suite  # noqa: E402
from support.plugin import finish_all, start  # noqa: E402
from support.world import wait_for  # noqa: E402

#: System calls of the daemon while it serves an ADD and a DEL, and what the kernel may say. fstat(3) is one or the
#: other, by the release of glibc.
CALLS = {"openat": "EMFILE", "socket": "EMFILE", "setns": "EPERM", "bind": "ENOMEM", "setsockopt": "ENOMEM",
         "ioctl": "EINTR", "sendto": "ENOBUFS", "sendmsg": "ENOBUFS", "recvmsg": "ENOMEM", "recvfrom": "ENOMEM",
         "accept4": "EMFILE", "epoll_ctl": "ENOSPC", "inotify_add_watch": "ENOSPC", "fstat,newfstatat": "ENOMEM",
         "getsockopt": "ENOMEM", "linkat": "ENOSPC", "unlinkat": "EROFS", "write": "ENOSPC"}
#: The first of these calls, the second, ...; 0 is all of them.
WHICH = (0, 1, 2, 3, 5, 8)
#: From a pod to the node: a daemon that cannot go back ends, before it does anything in the pod.
WAYS_BACK = (("setns", 2), ("setns", 8))
POINTS = [(f"{call}, {f'call {number}' if number else 'all calls'}: {error}", (call, error, number))
          for call, error in CALLS.items() for number in WHICH if (call, number) not in WAYS_BACK]


@suite.spread
class Faults(suite.NodeTest):
    def setUp(self):
        super().setUp()
        dhcp.segment()
        server = dhcp.dnsmasq()
        self.addCleanup(server.stop)
        self.daemon = dhcp.Daemon("-timeout", "500ms", "-resendmax", "1s")
        self.addCleanup(self.daemon.process.wait)
        self.addCleanup(lambda: self.daemon.process.kill())
        self.conf = dhcp.config(ipam={"timeout": 3})
        self.keeper = self.pod("keeper")
        self.kept = self.assert_ok(dhcp.attach("ADD", self.keeper, self.conf))
        self.idle = self.daemon.descriptors()

    def disturb(self, call, error, number):
        """strace(1) at the daemon; whoever it disturbed is in its log."""
        when = f":when={number}" if number else ""
        with open("/run/strace.err", "w") as log:
            process = subprocess.Popen(["strace", "-f", "-o", "/run/strace.log", "-e", f"trace={call}",
                                        "-e", f"inject={call}:error={error}{when}",
                                        "-p", str(self.daemon.process.pid)], stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertTrue(wait_for(lambda: "attached" in open("/run/strace.err").read(), 10))
        return process

    def both(self, verb, pods):
        calls = [start("bridge", verb, self.conf, netns=pod.path, container=pod.name) for pod in pods]
        return finish_all(calls)

    @suite.cases(rows.sampled(POINTS))
    def others_are_served_despite(self, point):
        call, error, number = point
        pods = self.pod(), self.pod()
        strace = self.disturb(call, error, number)
        outcomes = self.both("ADD", pods)
        self.both("DEL", pods)
        strace.terminate()
        strace.wait()
        for outcome in outcomes:
            self.assertIn(outcome.status, (0, 1), outcome)
            json.loads(outcome.stdout)
        if number:  # one call is one pod's, or nobody's
            self.assertTrue(any(outcome.ok for outcome in outcomes), outcomes)
        self.assertIsNone(self.daemon.process.poll(), self.daemon.log)
        after = self.pod("after")
        result = self.assert_ok(dhcp.attach("ADD", after, self.conf))
        self.assert_ok(dhcp.attach("CHECK", after, self.conf | {"prevResult": result}))
        self.assert_ok(dhcp.attach("CHECK", self.keeper, self.conf | {"prevResult": self.kept}))
        self.assertEqual(dhcp.addresses(self.keeper), [self.kept["ips"][0]["address"]])
        for pod in (*pods, after):  # as a runtime repeats it
            self.assert_ok(dhcp.attach("DEL", pod, self.conf))
        self.assertEqual(list(self.daemon.leases()), ["keeper"])
        self.assertTrue(dhcp.released(1), dhcp.dnsmasq_leases())
        self.assertTrue(wait_for(lambda: self.daemon.descriptors() <= self.idle + 1), self.daemon.open_files())
        self.assertEqual(len(os.listdir(dhcp.STATES)), 1, os.listdir(dhcp.STATES))
        injected = re.findall(r"INJECTED", open("/run/strace.log").read())
        if number in (0, 1):
            self.assertTrue(injected, "no such call was made")


if __name__ == "__main__":
    suite.main(needs=("dnsmasq", "strace"))
