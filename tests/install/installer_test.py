#!/usr/bin/env python3
"""`patchbay install`, `uninstall` and `verify`: a folder of plugins has old or new files whole, at every moment."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.plugin import OURS, REFERENCE, has_reference  # noqa: E402
from support.world import MS_RDONLY, MS_REMOUNT, mount, umount, wait_for  # noqa: E402

DIR = "/run/plugins"
MS_NOEXEC = 8
TIMES = 1000 if rows.STEP == 1 else 20  # installed over itself
FEW = ("bridge", "host-local", "patchbay", "portmap")  # enough where all names are treated alike
PATCHBAY = os.path.join(OURS, "patchbay")
NAMES = sorted(subprocess.run([PATCHBAY, "--list"], capture_output=True, text=True, check=True).stdout.split() + ["patchbay"])
LIST = {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge"}]}


def call(command, *arguments, program=PATCHBAY, folder=DIR):
    return subprocess.run([program, command, folder, *arguments], capture_output=True, text=True, timeout=60)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def script(name, text, folder=DIR):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def answers(name, folder=DIR):
    """Whether the name answers VERSION."""
    done = subprocess.run([os.path.join(folder, name)], env={"CNI_COMMAND": "VERSION"}, capture_output=True, timeout=60)
    return done.returncode == 0 and "supportedVersions" in json.loads(done.stdout)


def state(folder=DIR):
    """{path: (inode, content)} of all below it."""
    out = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            out[path] = (os.lstat(path).st_ino, os.readlink(path) if os.path.islink(path) else content(path))
    return out


class Installer(suite.NodeTest):
    def beside(self, function, ended):
        """Runs it in a thread until the event, which is set when the test ends, too: the next test could not enter its
        namespaces beside a thread."""
        thread = threading.Thread(target=function)
        thread.start()

        def end():
            ended.set()
            thread.join()
        self.addCleanup(end)
        return end

    def installed(self, *arguments, program=PATCHBAY):
        done = call("install", *arguments, program=program)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_new_folder_has_all_names_and_uninstall_leaves_nothing(self):
        said = self.installed()
        self.assertIn(f"{len(NAMES)} of {len(NAMES)} names changed", said)
        self.assertEqual(sorted(os.listdir(DIR)), sorted([".patchbay", *NAMES]))
        self.assertEqual({os.stat(f"{DIR}/{name}").st_nlink for name in NAMES}, {1})
        for name in NAMES:
            self.assertEqual((content(f"{DIR}/{name}") == content(PATCHBAY), os.lstat(f"{DIR}/{name}").st_mode & 0o7777), (True, 0o755))
        self.assertEqual(call("verify").returncode, 0)
        self.assertEqual(call("uninstall").returncode, 0)
        self.assertFalse(os.path.exists(DIR))

    def test_what_was_cut_off_is_nothing_to_restore(self):
        self.installed()
        for name, size in (("bridge", 100000), ("vlan", 0)):
            os.truncate(f"{DIR}/{name}", size)
        said = self.installed()
        for name in ("bridge", "vlan"):
            self.assertIn(f"replaced  {name} (cut off)", said)
        self.assertEqual(call("uninstall").returncode, 0)
        self.assertFalse(os.path.exists(DIR))

    def test_what_is_equal_stays(self):
        self.installed()
        before = state()
        self.assertIn(f"0 of {len(NAMES)} names changed", self.installed())
        self.assertEqual(state(), before)

    def test_uninstall_restores_what_the_names_were(self):
        if not has_reference():
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        shutil.copytree(REFERENCE, DIR)
        os.remove(f"{DIR}/portmap")
        os.symlink("/usr/bin/true", f"{DIR}/portmap")
        shutil.copy(PATCHBAY, "/run/elsewhere")
        os.symlink("/run/elsewhere", f"{DIR}/tap")
        script("tuning", "exit 1")
        before = {path: text for path, (_, text) in state().items()}
        said = self.installed()
        self.assertIn("which uninstall restores", said)
        self.assertEqual(call("verify").returncode, 0)
        self.installed()  # keeps what was before the first one
        self.assertEqual(call("uninstall").returncode, 0)
        self.assertEqual({path: text for path, (_, text) in state().items()}, before)

    def test_only_some_names(self):
        self.installed("--only", "bridge,host-local,portmap", "--skip", "portmap")
        only = ("--only", "bridge,host-local")
        self.assertEqual(subprocess.run([PATCHBAY, "verify", *only, "--", DIR], stdout=subprocess.DEVNULL).returncode, 0)
        self.assertEqual(sorted(os.listdir(DIR)), [".patchbay", "bridge", "host-local"])
        for arguments in ((DIR, "--only", "brigde"), (DIR, "--onyl", "bridge"), (DIR, DIR), (DIR, "--skip", ",".join(NAMES)), (), ("",)):
            done = subprocess.run([PATCHBAY, "install", *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, arguments)
        self.assertIn("did you mean bridge?", call("install", "--only", "brigde").stderr)

    def test_a_new_folder_is_named_with_the_one_that_may_be_meant(self):
        os.makedirs("/run/opt/cni/bin")
        for folder, said in (("/run/opt/cni/bim", "a new folder (did you mean /run/opt/cni/bin?); `cnitool runtimes` prints "),
                             ("/run/opt/cnii/bin/", "a new folder (did you mean /run/opt/cni/bin?)"),
                             ("/run/lib/cni", "a new folder; `cnitool"), ("/run/opt/cni/bin", None)):
            with self.subTest(folder):
                done = subprocess.run([PATCHBAY, "install", folder, "--only", "bridge"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"made      {folder}, {said}" if said else "installed bridge", done.stdout)
                self.assertEqual("made" in done.stdout, said is not None)

    def test_links_of_a_build_become_files(self):
        os.mkdir(DIR)
        shutil.copy(PATCHBAY, DIR)
        for name in NAMES:
            if name != "patchbay":
                os.symlink("patchbay", f"{DIR}/{name}")
        self.installed()
        self.assertFalse(any(os.path.islink(f"{DIR}/{name}") for name in NAMES))

    def test_a_newer_version_stays(self):
        os.mkdir(DIR)
        script("bridge", "echo 'CNI bridge plugin patchbay 9.10.0 (commit 0123456789ab)'\n")
        before = state()
        done = call("install")
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("/bridge' is patchbay 9.10.0, newer than this", done.stderr)
        self.assertEqual({path: one for path, one in state().items() if "/.patchbay/" not in path}, before)
        self.installed("--downgrade")
        script("vlan", "echo CNI vlan plugin patchbay 0.0.9\n")
        self.assertIn("replaced  vlan (CNI vlan plugin patchbay 0.0.9)", self.installed())

    def linked(self):
        """The names are hard links to another build, as earlier packages had them."""
        os.mkdir(DIR)
        shutil.copy(PATCHBAY, f"{DIR}/patchbay")
        with open(f"{DIR}/patchbay", "ab") as file:
            file.write(b"\0")
        for name in set(NAMES) - {"patchbay"}:
            os.link(f"{DIR}/patchbay", f"{DIR}/{name}")

    def test_hard_links_become_files_and_cp_over_a_name_changes_that_name_alone(self):
        self.linked()
        self.assertIn(f"{len(NAMES)} of {len(NAMES)} names changed", self.installed())
        other = script("other", "echo CNI other plugin v1", "/run")
        for name in ("bridge", "patchbay"):
            subprocess.run(["cp", "-f", other, f"{DIR}/{name}"], check=True)
            wrong = [one for one in NAMES if content(f"{DIR}/{one}") != content(PATCHBAY)]
            self.assertEqual(wrong, [name])
            self.assertIn("1 of ", self.installed())

    def test_hard_links_that_somebody_wrote_over_are_not_kept(self):
        if not has_reference():
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        self.linked()
        subprocess.run(["cp", f"{REFERENCE}/bridge", f"{DIR}/bridge"], check=True)
        done = call("verify")
        self.assertEqual(done.returncode, 1)
        for name in set(NAMES) - {"bridge", "patchbay"}:
            self.assertIn(f"{DIR}/{name}: it is CNI bridge plugin", done.stdout)
            self.assertIn(f"so that calls of {name} run bridge", done.stdout)
        self.installed()
        self.assertEqual(call("verify").returncode, 0)
        self.assertEqual(os.listdir(f"{DIR}/.patchbay/previous"), ["bridge"])

    def test_a_folder_that_cannot_take_it_stays_as_it_was(self):
        os.mkdir(DIR)
        for options, flags, status, said in (("size=1m", 0, 1, "no space left"), ("", MS_NOEXEC, 3, "is mounted noexec"),
                                             ("", MS_RDONLY, 1, "read-only")):
            with self.subTest(said):
                mount("tmpfs", DIR, "tmpfs", 0, options)
                script("bridge", "echo old")
                if flags:
                    mount("tmpfs", DIR, "tmpfs", MS_REMOUNT | flags, options)
                done = call("install")
                self.assertEqual(done.returncode, status, done.stdout)
                self.assertIn(said, done.stderr)
                self.assertIn(DIR, done.stderr)
                self.assertEqual([name for name in os.listdir(DIR) if name != ".patchbay"], ["bridge"])
                self.assertEqual(content(f"{DIR}/bridge"), b"#!/bin/sh\necho old")
                umount(DIR)

    def test_a_directory_in_the_place_of_a_plugin_is_named_before_anything_changes(self):
        os.makedirs(f"{DIR}/ptp")
        script("bridge", "echo old")
        done = call("install")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"'{DIR}/ptp' is a directory", done.stderr)
        self.assertEqual(sorted(name for name in os.listdir(DIR) if name != ".patchbay"), ["bridge", "ptp"])

    def test_the_network_file_comes_last_and_goes_first(self):
        conf, there = "/run/10-pods.conflist", "/etc/cni/net.d"
        with open(conf, "w") as file:
            json.dump(LIST, file)
        os.makedirs(there, exist_ok=True)
        others = (("05-other.conflist", "comes before"), ("10-pods.conflist", "exists, with network 'other'"))
        for name, said in others:
            with open(f"{there}/{name}", "w") as file:
                json.dump(LIST | {"name": "other"}, file)
            done = call("install", "--conf", conf)
            self.assertEqual((done.returncode, os.path.exists(DIR)), (3, False), done.stderr)
            self.assertIn(f"{there}/{name}", done.stderr)
            self.assertIn(said, done.stderr)
            os.remove(f"{there}/{name}")
        self.installed("--conf", conf)
        self.assertEqual((content(f"{there}/10-pods.conflist"), os.listdir(there)), (content(conf), ["10-pods.conflist"]))
        self.assertEqual(call("uninstall", "--conf", conf).returncode, 0)
        self.assertEqual((os.listdir(there), os.path.exists(DIR)), ([], False))

    def test_a_label_of_SELinux_is_kept(self):
        os.mkdir(DIR)
        label = b"system_u:object_r:container_file_t:s0\0"
        script("bridge", "echo old")
        try:
            os.setxattr(f"{DIR}/bridge", "security.selinux", label)
        except OSError as error:
            self.skipTest(f"no label here: {error}")
        self.installed()
        self.assertEqual(os.getxattr(f"{DIR}/bridge", "security.selinux"), label)

    def variant(self):
        """The same executable with another content."""
        shutil.copy(PATCHBAY, "/run/variant")
        with open("/run/variant", "ab") as file:
            file.write(b"\0")
        return "/run/variant"

    def test_names_answer_at_every_moment(self):
        programs, only = (PATCHBAY, self.variant()), ("--only", ",".join(FEW))
        self.installed(*only)
        plugins = [name for name in FEW if name != "patchbay"]
        ended, failures, calls = threading.Event(), [], 0

        def runtime():
            nonlocal calls
            while not ended.is_set():
                try:
                    if not answers(plugins[calls % len(plugins)]):
                        failures.append("wrong answer")
                except OSError as error:
                    failures.append(str(error))
                calls += 1
        end = self.beside(runtime, ended)
        for number in range(TIMES):
            self.assertIn(f"{len(FEW)} of {len(FEW)} names changed", self.installed(*only, program=programs[(number + 1) % 2]))
        end()
        print(f"     {TIMES} times installed, {calls} calls, {len(failures)} failed")
        self.assertEqual(failures, [])

    def test_cp_in_its_place_fails_calls(self):
        """The figure beside the one above: what a runtime sees while `cp -f` installs."""
        self.installed()
        ended, failures, calls = threading.Event(), 0, 0

        def runtime():
            nonlocal calls, failures
            while not ended.is_set():
                try:
                    failures += not answers("bridge")
                except (OSError, ValueError):
                    failures += 1
                calls += 1
        os.remove(f"{DIR}/bridge")
        shutil.copy(PATCHBAY, f"{DIR}/bridge")
        end = self.beside(runtime, ended)
        for _ in range(TIMES):
            subprocess.run(["cp", "-f", PATCHBAY, f"{DIR}/bridge"], check=True)
        end()
        print(f"     {TIMES} times copied, {calls} calls, {failures} failed")
        if TIMES == 1000:
            self.assertGreater(failures, 0)

    def test_killed_at_any_system_call(self):
        """strace(1) counts each system call apart: those that change something are tried one by one, all others together."""
        programs, only = (PATCHBAY, self.variant()), ("--only", ",".join(FEW))
        whole = {content(program) for program in programs}
        self.installed(*only)
        kills, turn = 0, 0
        for calls in ("%file,%desc", "openat", "write", "fchmod", "fsync", "renameat", "unlinkat"):
            step = 7 if calls in ("%file,%desc", "openat") and TIMES != 1000 else 1
            number = 1 + rows.OFFSET % step
            while True:
                turn = 1 - turn  # always something to change
                done = subprocess.run(["strace", "-o", "/dev/null", "-e", "signal=none", "-e", f"trace={calls}", "-e",
                                       f"inject={calls}:signal=KILL:when={number}", programs[turn], "install", DIR, *only],
                                      capture_output=True, timeout=60)
                for name in FEW:
                    self.assertIn(content(f"{DIR}/{name}"), whole, f"{calls} {number}: {name}")
                if done.returncode == 0:
                    break
                self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
                number, kills = number + step, kills + 1
        self.installed(*only)
        self.assertEqual(sorted(os.listdir(DIR)), sorted([".patchbay", *FEW]))
        print(f"     {kills} times killed")
        self.assertGreater(kills, 10)

    def test_watch_puts_back_what_another_installer_changed(self):
        with subprocess.Popen([PATCHBAY, "install", DIR, "--watch"], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as process:
            self.assertTrue(wait_for(lambda: os.path.exists(f"{DIR}/vrf") and call("verify").returncode == 0))
            time.sleep(0.2)
            script("other", "echo CNI bridge plugin v1.9.1")
            os.rename(f"{DIR}/other", f"{DIR}/bridge")
            os.remove(f"{DIR}/vlan")
            self.assertTrue(wait_for(lambda: call("verify").returncode == 0, 20))
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(10), 0)
            self.assertIn("another program changed " + DIR, process.stderr.read())
        self.assertEqual(content(f"{DIR}/.patchbay/previous/bridge"), b"#!/bin/sh\necho CNI bridge plugin v1.9.1")

    def test_watch_stops_where_two_installers_undo_each_other(self):
        process = subprocess.Popen([PATCHBAY, "install", DIR, "--watch", "--only", "bridge"], stderr=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, text=True)
        self.addCleanup(process.kill)
        there = f"{DIR}/bridge"
        self.assertTrue(wait_for(lambda: os.path.exists(there)))
        time.sleep(0.5)  # until it watches
        for number in range(11):
            os.remove(there)
            self.assertEqual(wait_for(lambda: os.path.exists(there), 20 if number < 10 else 2), number < 10, number)
            time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=10)[1]
        self.assertEqual(process.returncode, 0)
        self.assertEqual(said.count("another program changed"), 10)
        self.assertEqual(said.count(f"{DIR} was changed 10 times within an hour"), 1)


if __name__ == "__main__":
    suite.main(needs=("strace",))
