#!/usr/bin/env python3
"""The library is installed, and programs of others are built on what is there alone: with
find_package and with pkg-config; or the sources are a folder of their project. A runtime of theirs
then calls a plugin of theirs, and another plugin adds an address to a link."""

import glob
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.environ["PATCHBAY_BIN"])
EXAMPLES = os.path.join(ROOT, "tests/unit/example")
SKIPPED = 77


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n"
                             f"{done.stdout}{done.stderr}")
    return done.stdout


def sanitized():
    """A sanitizer wants to be in the whole program, and the user's flags are not ours."""
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        return "address" in next(line for line in file if line.startswith("CNI_SANITIZE"))


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="patchbay-install-")
        cls.addClassCleanup(shutil.rmtree, cls.work)
        # Installed in one place and moved to another: nothing may depend on where that was.
        before = os.path.join(cls.work, "before")
        run("cmake", "--install", BUILD, "--prefix", before, "--component", "library")
        cls.prefix = os.path.join(cls.work, "usr")
        os.rename(before, cls.prefix)

    def use(self, programs):
        """Attaches, looks and detaches, with an example's plugin in an example's runtime."""
        work = tempfile.mkdtemp(dir=self.work)
        for name in ("net.d", "bin", "addresses"):
            os.mkdir(os.path.join(work, name))
        shutil.copy(os.path.join(programs, "address_file"), f"{work}/bin/address-file")
        first = f"{work}/bin/first"
        result = {"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.3/24"}]}
        with open(first, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n[ $CNI_COMMAND != ADD ] || echo '{json.dumps(result)}'\n")
        os.chmod(first, stat.S_IRWXU)
        with open(f"{work}/net.d/10.conflist", "w", encoding="ascii") as file:
            json.dump({"cniVersion": "1.0.0", "name": "net", "plugins": [
                {"type": "first"}, {"type": "address-file", "dir": f"{work}/addresses"}]}, file)

        def attach(verb):
            return run(os.path.join(programs, "attach"), verb, "net", "/run/netns/none",
                       f"{work}/net.d", f"{work}/bin", f"{work}/state")

        self.assertEqual(attach("add"), "10.1.2.3/24\n")
        with open(f"{work}/addresses/example-eth0", encoding="ascii") as file:
            self.assertEqual(file.read(), "10.1.2.3/24\n")
        self.assertEqual(os.listdir(f"{work}/state/results"), ["net-example-eth0"])
        self.assertEqual(attach("del"), "")
        self.assertEqual(os.listdir(f"{work}/addresses"), [])
        self.assertEqual(os.listdir(f"{work}/state/results"), [])

    def add_address(self, programs):
        """The plugin over rtnetlink: the address is on the link after ADD, and is not after DEL."""
        if os.geteuid() != 0:
            self.skipTest("needs root for a network namespace")
        config = json.dumps({"cniVersion": "1.0.0", "name": "net", "type": "add-address", "address": "10.9.8.7/24"})
        # The plugin refuses the namespace that it runs in: the pod is the one inside.
        script = """
            set -e
            unshare --net sleep 60 & pod=$!
            trap 'kill $pod' EXIT
            until ! [ /proc/$pod/ns/net -ef /proc/self/ns/net ]; do sleep 0.01; done
            inside() { nsenter --net=/proc/$pod/ns/net "$@"; }
            inside ip link set lo up
            export CNI_CONTAINERID=c1 CNI_NETNS=/proc/$pod/ns/net CNI_IFNAME=lo CNI_PATH=/
            echo "$1" | CNI_COMMAND=ADD "$0" >/dev/null
            inside ip -4 -o addr show dev lo
            echo "$1" | CNI_COMMAND=DEL "$0"
            echo after DEL
            inside ip -4 -o addr show dev lo"""
        before, after = run("unshare", "--net", "bash", "-c", script, f"{programs}/add_address",
                            config).split("after DEL")
        self.assertIn(" 10.9.8.7/24 ", before)
        self.assertNotIn(" 10.9.8.7/24 ", after)

    def test_find_package(self):
        build = os.path.join(self.work, "consumer")
        run("cmake", "-G", "Ninja", "-S", os.path.join(ROOT, "tests/install"), "-B", build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DEXAMPLES={EXAMPLES}")
        run("cmake", "--build", build)
        with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
            self.assertNotIn(f"-I{ROOT} ", file.read(), "the sources are not to be looked at")
        self.use(build)
        self.add_address(build)

    def test_headers_are_closed(self):
        """They include nothing of this project that is not installed."""
        folder = os.path.join(self.prefix, "include/patchbay")
        headers = sorted(os.path.relpath(path, folder) for path in glob.glob(f"{folder}/**/*.h", recursive=True))
        self.assertTrue({"libcni/plugin/plugin.h", "netlink/route/link.h"} <= set(headers), headers)
        command = ["c++", "-std=c++20", "-fsyntax-only", "-I", folder, "-x", "c++", "-"]
        text = "".join(f'#include "{header}"\n' for header in headers)
        self.assertEqual(subprocess.run(command, input=text, capture_output=True, text=True).stderr, "")

    def test_add_subdirectory(self):
        build = os.path.join(self.work, "parent")
        run("cmake", "-G", "Ninja", "-S", os.path.join(ROOT, "tests/install"), "-B", build, f"-DPATCHBAY={ROOT}",
            f"-DEXAMPLES={EXAMPLES}", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=10")
        run("cmake", "--build", build)
        with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
            own = file.read().split("build CMakeFiles/add_address.dir/")[1].split("\n\n")[0]
        self.assertNotIn("-Wconversion", own, "the warnings of this project are not those of another")
        self.add_address(build)
        prefix = os.path.join(self.work, "parent-usr")
        run("cmake", "--install", build, "--prefix", prefix)
        self.assertEqual(os.listdir(prefix), ["bin"], "what is a part of another project is not installed with it")

    def test_pkg_config(self):
        folders = [os.path.join(folder, "pkgconfig") for folder, names, _ in os.walk(self.prefix)
                   if "pkgconfig" in names]
        env = os.environ | {"PKG_CONFIG_PATH": ":".join(folders)}
        flags = run("pkg-config", "--cflags", "libcni", env=env).split()
        libraries = run("pkg-config", "--libs", "libcni", env=env).split()
        programs = os.path.join(self.work, "by-hand")
        os.mkdir(programs)
        self.assertIn("-std=c++20", flags)
        own = os.path.join(ROOT, "tests/install/add_address.cc")
        for source in (*(os.path.join(EXAMPLES, f"{name}.cc") for name in ("attach", "address_file")), own):
            name = os.path.splitext(os.path.basename(source))[0]
            run("c++", "-fno-lto", *flags, source, "-o", os.path.join(programs, name), *libraries)
        self.use(programs)
        self.add_address(programs)

    def test_plugins_and_tool(self):
        """The unit has the path of the installed plugin, and cnitool finds the plugins there without a variable."""
        prefix = os.path.join(self.work, "all")
        for component in ("plugins", "tool"):
            run("cmake", "--install", BUILD, "--prefix", prefix, "--component", component)
        units = os.path.join(prefix, "lib/systemd/system")
        self.assertEqual(sorted(os.listdir(units)), ["cni-dhcp.service", "cni-dhcp.socket"])
        with open(os.path.join(units, "cni-dhcp.service"), encoding="utf-8") as file:
            program = next(line for line in file if line.startswith("ExecStart=")).split("=")[1].split()[0]
        self.assertTrue(program.startswith(prefix), program)
        self.assertIn("dhcp", run(program, "--help"))
        with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
            cache = dict(line.rstrip("\n").split("=", 1) for line in file if re.match(r"\w+:\w+=", line))
        configured = os.path.join(cache["CMAKE_INSTALL_PREFIX:PATH"], cache["CNI_PLUGIN_DIR:STRING"])
        with open(f"{prefix}/share/man/man1/cnitool.1", encoding="utf-8") as page:
            self.assertIn(configured, page.read().replace("\\", ""))
        pages = {"patchbay.8", *(f"cni-{plugin}.8" for plugin in run(os.path.join(os.path.dirname(program), "patchbay"), "--list").split())}
        self.assertEqual(set(os.listdir(f"{prefix}/share/man/man8")), pages)


if __name__ == "__main__":
    if sanitized():
        print("skip everything: this build is for the sanitizers")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
