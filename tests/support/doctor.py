"""A node with two pods of a bridge network, what `cnitool doctor` finds on it, and its remedies carried out."""

import json
import os
import re
import shutil
import subprocess

from support import suite
from support.cnitool import CONF_DIR, cnitool, environment, use
from support.plugin import OURS
from support.world import Pod, run, wait_for

BIN = "/run/bin"
NETWORKS = "/var/lib/cni/networks"
BRIDGE = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True,
          "hairpinMode": True,
          "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/28"}],
                                                    [{"subnet": "fd00:1:2::/64"}]],
                   "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}
PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
BANDWIDTH = {"type": "bandwidth", "capabilities": {"bandwidth": True}}
FILE = f"{CONF_DIR}/10-test.conflist"
def chain(*plugins, **more):
    return {"cniVersion": "1.1.0", "name": "net", **more,
            "plugins": list(plugins or (BRIDGE, PORTMAP, BANDWIDTH))}


SETTING = re.compile(r'in (?P<file>\S+) set "(?P<key>\w+)": (?P<value>\S+)'
                     r'(?: in the plugin "(?P<plugin>\w+)")?')


def shell(command):
    """What a person would do with a remedy."""
    if setting := SETTING.fullmatch(command):
        with open(setting["file"], encoding="utf-8") as file:
            conf = json.load(file)
        place = conf if setting["plugin"] is None else next(
            one for one in conf["plugins"] if one["type"] == setting["plugin"])
        place[setting["key"]] = json.loads(setting["value"])
        return write(setting["file"], json.dumps(conf))
    env = environment(CNI_PATH=BIN)
    env["PATH"] = f"{env['PATH']}:/usr/sbin:/sbin:{OURS}"  # a plugin is called bridge, too
    done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return None


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.chmod(path, mode)


class DoctorTest(suite.NodeTest):
    def setUp(self):
        super().setUp()
        os.makedirs(BIN)
        for name in ("bridge", "host-local", "portmap", "bandwidth", "firewall"):
            shutil.copy(os.path.join(OURS, name), BIN)
        outside = Pod("outside")
        run("ip", "link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", "outside")
        run("ip", "addr", "add", "192.0.2.1/24", "dev", "up0")
        run("ip", "-6", "addr", "add", "2001:db8::1/64", "dev", "up0", "nodad")
        outside.run("ip", "addr", "add", "192.0.2.2/24", "dev", "eth0")
        outside.run("ip", "link", "set", "eth0", "up")
        run("ip", "link", "set", "up0", "up")
        run("ip", "route", "add", "default", "via", "192.0.2.2")
        run("ip", "-6", "route", "add", "default", "via", "2001:db8::2")
        wait_for(lambda: json.loads(run("ip", "-j", "link", "show", "up0"))[0]["operstate"] == "UP")
        use(chain())
        self.pods = [Pod(name) for name in ("a", "b")]
        for n, pod in enumerate(self.pods):
            self.add(pod, 8080 + n)

    def add(self, pod, port, *more):
        self.assert_ok(cnitool("add", "net", pod.path, *more, CNI_PATH=BIN, CAP_ARGS={
            "portMappings": [{"hostPort": port, "containerPort": 80, "protocol": "tcp"}]}))

    def doctor(self):
        """Exit status, and what is more than a note."""
        outcome = cnitool("doctor", "--json", CNI_PATH=BIN)
        self.assertEqual(outcome.stderr, "")
        answer = outcome.json
        found = [one for one in answer["findings"] if one["level"] not in ("ok", "note")]
        errors = [one for one in found if one["level"] == "error"]
        self.assertEqual(outcome.status, 1 if errors else 0, str(outcome))
        self.assertEqual(answer["ok"], not errors)
        return outcome.status, found

    def assert_healthy(self):
        self.assertEqual(self.doctor(), (0, []))

    def assert_finds(self, level, check, *words, besides=()):
        """One finding of the check, at least; the others are of the checks in besides."""
        _, found = self.doctor()
        mine = [one for one in found if one["check"] == check]
        self.assertTrue(mine, f"nothing of {check}: {found}")
        text = "\n".join([mine[0]["what"], *mine[0].get("lines", ())])
        self.assertEqual(mine[0]["level"], level, str(mine))
        for word in words:
            self.assertIn(word, text)
        self.assertTrue(mine[0]["why"] and mine[0]["remedy"], str(mine))
        others = {one["check"] for one in found} - {check}
        self.assertEqual(others - set(besides), set(), str(found))
        return mine[0]["remedy"]

    def cured(self, remedy):
        shell(remedy)
        self.assert_healthy()
