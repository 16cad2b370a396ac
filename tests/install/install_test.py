#!/usr/bin/env python3
"""The library is installed, and programs of others are built on what is there alone: with
find_package and with pkg-config. A runtime of theirs then calls a plugin of theirs."""

import json
import os
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
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

    def test_find_package(self):
        build = os.path.join(self.work, "consumer")
        run("cmake", "-G", "Ninja", "-S", os.path.join(ROOT, "tests/install"), "-B", build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DEXAMPLES={EXAMPLES}")
        run("cmake", "--build", build)
        with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
            self.assertNotIn(f"-I{ROOT} ", file.read(), "the sources are not to be looked at")
        self.use(build)

    def test_pkg_config(self):
        folders = [os.path.join(folder, "pkgconfig") for folder, names, _ in os.walk(self.prefix)
                   if "pkgconfig" in names]
        env = os.environ | {"PKG_CONFIG_PATH": ":".join(folders)}
        flags = run("pkg-config", "--cflags", "libcni", env=env).split()
        libraries = run("pkg-config", "--libs", "libcni", env=env).split()
        programs = os.path.join(self.work, "by-hand")
        os.mkdir(programs)
        for name in ("attach", "address_file"):
            run("c++", "-std=c++20", "-fno-lto", *flags, os.path.join(EXAMPLES, f"{name}.cc"),
                "-o", os.path.join(programs, name), *libraries)
        self.use(programs)


if __name__ == "__main__":
    if sanitized():
        print("skip everything: this build is for the sanitizers")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
