"""Debian's firewalld with a system bus of its own, in the namespaces of a test."""

import os
import subprocess

from support.world import run, wait_for

ETC = "/run/firewalld/etc"


class Firewalld:
    """Runs until the test ends: the calling program must be the first process of its PID namespace
    (suite.main(daemons=True))."""

    def __init__(self, test, backend="nftables"):
        for path in ("/run/dbus", f"{ETC}/zones", "/run/firewalld/log"):
            os.makedirs(path, exist_ok=True)
        with open(f"{ETC}/firewalld.conf", "w", encoding="ascii") as file:
            file.write(f"DefaultZone=public\nFirewallBackend={backend}\n")
        self._start(test, "dbus-daemon", "--system", "--nofork", "--nopidfile")
        assert wait_for(lambda: os.path.exists("/run/dbus/system_bus_socket"), 20)
        self._start(test, "/usr/sbin/firewalld", "--nofork", "--nopid", f"--system-config={ETC}",
                    "--log-file=/run/firewalld/log/log")
        assert wait_for(self.is_running, 60)

    @staticmethod
    def _start(test, *command):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def stop():
            process.kill()
            process.wait()

        test.addCleanup(stop)

    @staticmethod
    def is_running():
        return run("firewall-cmd", "--state", check=False).strip() == "running"

    @staticmethod
    def sources(zone="trusted"):
        return sorted(run("firewall-cmd", f"--zone={zone}", "--list-sources").split())

    @staticmethod
    def reload():
        """firewall-cmd --reload, without that program's start."""
        run("dbus-send", "--system", "--print-reply", "--dest=org.fedoraproject.FirewallD1",
            "/org/fedoraproject/FirewallD1", "org.fedoraproject.FirewallD1.reload")
