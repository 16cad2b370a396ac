"""Debian's firewalld with a system bus of its own, in the namespaces of a test."""

import atexit
import os
import shutil
import subprocess
import tempfile

from support import daemons
from support.plugin import have
from support.world import run, wait_for

ETC = "/run/firewalld/etc"
#: A bus on which all is allowed and nothing is activated: Debian's starts polkit's daemon for firewalld.
BUS = """<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*" eavesdrop="true"/>
<allow eavesdrop="true"/></policy></busconfig>
"""


def call(method, *arguments):
    """One of firewalld's methods, without the start of firewall-cmd; what it answers."""
    return run("dbus-send", "--system", "--print-reply", "--dest=org.fedoraproject.FirewallD1",
               "/org/fedoraproject/FirewallD1", f"org.fedoraproject.FirewallD1.{method}", *arguments)


class Firewalld:
    """Runs until stop(), which the end of a test calls. Of a test the calling program is the first process
    of its PID namespace (suite.main())."""

    def __init__(self, test=None, backend="nftables", log="/run/firewalld/log", bus="--system"):
        for path in ("/run/dbus", f"{ETC}/zones", log):
            os.makedirs(path, exist_ok=True)
        with open(f"{ETC}/firewalld.conf", "w", encoding="ascii") as file:
            file.write(f"DefaultZone=public\nFirewallBackend={backend}\n")
        self._processes = []
        if test:
            test.addCleanup(self.stop)
        try:
            self._start("dbus-daemon", bus, "--nofork", "--nopidfile")
            assert wait_for(lambda: os.path.exists("/run/dbus/system_bus_socket"), 20)
            self._start("/usr/sbin/firewalld", "--nofork", "--nopid", f"--system-config={ETC}", f"--log-file={log}/log")
            # Emulated, and beside others: each look is a program, too.
            assert wait_for(self.is_running, 240, 0.5)
        except BaseException:
            self.stop()
            raise

    def _start(self, *command):
        self._processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def stop(self):
        while self._processes:
            process = self._processes.pop()
            process.kill()
            process.wait()

    @property
    def pids(self):
        return {process.pid for process in self._processes}

    @staticmethod
    def is_running():
        return "RUNNING" in run("dbus-send", "--system", "--print-reply", "--dest=org.fedoraproject.FirewallD1",
                                "/org/fedoraproject/FirewallD1", "org.freedesktop.DBus.Properties.Get",
                                "string:org.fedoraproject.FirewallD1", "string:state", check=False)

    @staticmethod
    def sources(zone="trusted"):
        return sorted(run("firewall-cmd", f"--zone={zone}", "--list-sources").split())

    @staticmethod
    def reload():
        call("reload")


def play():
    """For a stage: its log is in no world, since it is no state. The zone has been used before: firewalld makes the
    chains of a zone when it is used first."""
    folder = tempfile.mkdtemp(prefix="firewalld-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with open(f"{folder}/bus.conf", "w", encoding="ascii") as file:
        file.write(BUS)
    daemons.play(lambda: Firewalld(log=folder, bus=f"--config-file={folder}/bus.conf"))
    for address in ("192.0.2.1", "2001:db8::1"):
        for method in ("addSource", "removeSource"):
            call(f"zone.{method}", "string:trusted", f"string:{address}")


def lack():
    """Why none can be played, or None."""
    missing = have("/usr/sbin/firewalld", "dbus-daemon", "dbus-send")
    return f"needs {missing}" if missing else None
