"""A runtime built on the reference's library (Debian's golang-github-appc-cni-dev), for comparison."""

import json
import os
import shutil
import subprocess

from support.plugin import OURS, Outcome
from support.world import RUN

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference_runtime.go")
LIBRARY = "/usr/share/gocode/src/github.com/containernetworking/cni/libcni"
PROGRAM = os.path.join(os.path.dirname(OURS), "reference", "runtime")


def why_impossible():
    """Why there is no such runtime, or None. Builds it where it is not there."""
    if not os.path.isdir(LIBRARY):
        return f"needs the reference's library in {LIBRARY}"
    if os.path.exists(PROGRAM) and os.path.getmtime(PROGRAM) > os.path.getmtime(SOURCE):
        return None
    if not shutil.which("go"):
        return "needs the program go"
    env = os.environ | {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": "",
                        "GOCACHE": os.path.join(os.path.dirname(PROGRAM), "cache")}
    aside = f"{PROGRAM}.{RUN}"
    done = subprocess.run(["go", "build", "-o", aside, SOURCE], env=env, capture_output=True,
                          text=True)
    if done.returncode != 0:
        return f"go does not build it: {done.stderr.strip()}"
    os.rename(aside, PROGRAM)
    return None


def reference(verb, file, **request):
    """Runs a verb of the network in a file: see the keys in the source."""
    request = {"Verb": verb, "File": file, "CacheDir": "/var/lib/cni", **request}
    done = subprocess.run([PROGRAM], input=json.dumps(request), capture_output=True, text=True,
                          timeout=120)
    return Outcome(done.returncode, done.stdout, done.stderr)
