"""What a change reaches: for scripts/tidy and scripts/sanitized.

The change is what differs from a commit, in the working tree and in files that git does not track yet. Where git or the
commit is missing, as in a tarball or a shallow clone, all files changed.
"""

import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
PRODUCT = ("cnitool", "installer", "kubernetes", "libcni", "netlink", "plugins")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def _git(*arguments):
    """The lines that git prints; None where it fails or is not installed."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def since(commit):
    """The changed files, as paths from the root; None: all. Removed ones count, too."""
    if not commit or _git("merge-base", "--is-ancestor", commit, "HEAD") is None:
        return None
    return {pathlib.Path(line) for line in _git("diff", "--name-only", commit) + _git("ls-files", "-o", "--exclude-standard")}


def flags_changed(commit, files):
    """Whether a file changed that says how everything is compiled."""
    presets = pathlib.Path("CMakePresets.json")
    if presets in files:
        before = json.loads("\n".join(_git("show", f"{commit}:{presets}") or ["{}"]))
        now = json.loads((ROOT / presets).read_text(encoding="utf-8"))
        if before.get("configurePresets") != now["configurePresets"]:
            return True
    return any(file.parts[:2] == ("scripts", "cmake") or file == pathlib.Path("CMakeLists.txt") for file in files)


def including(files):
    """These files, and all C++ files that include one of them, directly or not."""
    users = {}  # {path: files that include it}
    for folder in (*PRODUCT, "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".cc", ".h", ".c"):
                for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
                    users.setdefault(pathlib.Path(name), set()).add(path.relative_to(ROOT))
    reached, left = set(), list(files)
    while left:
        path = left.pop()
        if path not in reached:
            reached.add(path)
            left += users.get(path, ())
    return reached
