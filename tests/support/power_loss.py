"""What a disk can hold after a power loss: a model of a folder, replayed from the system calls of a run.

A file's content is on the disk for certain after fsync(2) of the file, a name after fsync(2) of its folder. Without them the
kernel may have written the one, the other, both or none (fsync(2); a file system decides, and the model is of none).
"""

import os
import re

CALLS = ("openat,creat,write,pwrite64,ftruncate,fsync,fdatasync,sync,rename,renameat,renameat2,unlink,unlinkat,rmdir,"
         "mkdir,mkdirat,link,linkat,symlink,symlinkat,chdir")
_LINE = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) = (-?\d+|\?)(?:<([^>]*)>)?.*$")
_LINK = b"-> "  # before the target of a symbolic link, which has no content of its own
_DESCRIPTOR = re.compile(r"^(?:AT_FDCWD|-?\d+)(?:<(.*)>)?(?:\(deleted\))?$")


def strace(output):
    """The command to put in front of another, so that replay() can read what it does."""
    return ["strace", "-f", "-qq", "-y", "-s", "1000000", "-e", "signal=none", "-e", f"trace={CALLS}", "-o", output]


def _arguments(text):
    """The arguments of a call: texts as bytes, everything else as strace wrote it."""
    found, at = [], 0
    pattern = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\.\.\.)?|[^,"<{\[]+(?:<[^>]*>(?:\(deleted\))?)?|\{[^}]*\}|\[[^\]]*\]', re.S)
    while at < len(text):
        if text[at] in ", ":
            at += 1
            continue
        one = pattern.match(text, at)
        if one is None:
            raise ValueError(f"strace: {text[at:]}")
        found.append(one[1].encode("latin-1").decode("unicode_escape").encode("latin-1") if one[1] is not None else one[0].strip())
        at = one.end()
    return found


class Disk:
    """The files below a folder, and what of them is on the disk for certain."""

    def __init__(self, root, files):
        self.root = root.rstrip("/")
        self.content = {}   # {inode: bytes} as processes see it
        self.written = {}   # {inode: bytes} on the disk
        self.names = {}     # {path: inode, or None for a folder} as processes see them
        self.on_disk = {}   # the same on the disk
        self.nameless = {}  # {path: inode} of O_TMPFILE
        self.opened = {}    # {descriptor: path}
        for path, data in files.items():
            self.names[path] = None if data is None else self._inode(data)
        self.written = dict(self.content)
        self.on_disk = dict(self.names)

    def _inode(self, data):
        self.content[len(self.content)] = data
        return len(self.content) - 1

    def replace(self, path):
        """Another process has replaced a file by rename(2), without fsync(2)."""
        with open(os.path.join(self.root, path), "rb") as file:
            self.names[path] = self._inode(file.read())

    def _path(self, folder, name=None):
        """The path below the root, of a descriptor, or of a name at a descriptor; None for elsewhere."""
        at = _DESCRIPTOR.match(folder)
        path = (at[1] if at else None) or ""
        if name is not None:
            name = name.decode("utf-8", "surrogateescape")
            path = name if name.startswith("/") else os.path.join(path, name)
        path = os.path.normpath(path.removesuffix(" (deleted)")) if path else ""
        if path == self.root:
            return ""
        return path.removeprefix(self.root + "/") if path.startswith(self.root + "/") else None

    def _of(self, path):
        """The inode behind a descriptor."""
        return self.nameless[path] if path in self.nameless else self.names[path]

    def _linked(self, path, source):
        """The inode of linkat(2)'s source, which may be a descriptor."""
        if source.startswith(b"/proc/self/fd/"):
            return self._of(self._path("AT_FDCWD", self.opened[source.removeprefix(b"/proc/self/fd/").decode()].encode()))
        return self._of(path)  # AT_EMPTY_PATH

    def _move(self, old, new):
        self.names[new] = self.names.pop(old)
        for path in [path for path in self.names if path.startswith(old + "/")]:
            self.names[new + path.removeprefix(old)] = self.names.pop(path)

    def _sync(self, path):
        if path is None:
            return
        if path != "" and (path in self.nameless or self.names.get(path) is not None):
            inode = self._of(path)
            self.written[inode] = self.content[inode]
            return
        inside = lambda one: os.path.dirname(one) == path
        for one in [one for one in self.on_disk if inside(one) and one not in self.names]:
            del self.on_disk[one]
        self.on_disk |= {one: inode for one, inode in self.names.items() if inside(one)}

    def apply(self, call, arguments, result, opened):
        """Takes one successful system call into account; whether it changed anything below the root."""
        if opened is not None:
            self.opened[result] = opened
        if call in ("rename", "unlink", "mkdir", "rmdir", "link", "symlink", "creat"):  # those without a folder
            paths = [self._path("AT_FDCWD", one) for one in arguments if isinstance(one, bytes)]
        elif call in ("renameat", "renameat2", "linkat"):
            paths = [self._path(arguments[0], arguments[1]), self._path(arguments[2], arguments[3])]
        elif call == "symlinkat":
            paths = [None, self._path(arguments[1], arguments[2])]
        elif call in ("unlinkat", "mkdirat", "openat"):
            paths = [self._path(arguments[0], arguments[1])]
        else:
            paths = [self._path(arguments[0])]
        path = paths[-1]
        if path is None:
            return False
        if call in ("openat", "creat"):
            flags = arguments[2] if call == "openat" else "O_CREAT|O_TRUNC"
            if "O_TMPFILE" in flags:
                self.nameless[self._path("AT_FDCWD", opened.encode())] = self._inode(b"")
                return False
            if "O_CREAT" in flags and path not in self.names:
                self.names[path] = self._inode(b"")
            elif "O_TRUNC" in flags and self.content.get(self.names.get(path)):
                self.content[self.names[path]] = b""
            else:
                return False
        elif call in ("write", "pwrite64"):
            data, inode = arguments[1][:int(result)], self._of(path)
            before = self.content[inode]
            at = int(arguments[3]) if call == "pwrite64" else len(before)  # no writer here seeks
            self.content[inode] = before[:at] + data + before[at + len(data):]
        elif call == "ftruncate":
            self.content[self._of(path)] = self.content[self._of(path)][:int(arguments[1])]
        elif call in ("fsync", "fdatasync"):
            self._sync(path)
        elif call.startswith("rename"):
            self._move(paths[0], path)
        elif call in ("unlink", "unlinkat", "rmdir"):
            del self.names[path]
        elif call.startswith("mkdir"):
            self.names[path] = None
        elif call.startswith("link"):
            self.names[path] = self._linked(paths[0], arguments[1] if call == "linkat" else arguments[0])
        elif call.startswith("symlink"):
            self.names[path] = self._inode(_LINK + arguments[0])
            self.written[self.names[path]] = self.content[self.names[path]]  # the name and its target are one
        else:
            raise ValueError(f"{call} of '{path}' is not in the model")
        return True

    def after_a_loss(self):
        """The folders that the disk may hold, {path: content, None for a folder}, by what reached it."""
        gone = set(self.on_disk) - set(self.names)
        halves = {inode: data[:len(data) // 2] for inode, data in self.content.items()
                  if data != self.written.get(inode)}
        for what, names, data in (
                ("everything", self.names, self.content), ("what was synced alone", self.on_disk, self.written),
                ("names alone", self.names, self.written), ("names and half of the content", self.names, self.written | halves),
                ("content alone", self.on_disk, self.content),
                ("removals alone", {one: of for one, of in self.on_disk.items() if one not in gone}, self.written),
                ("new names alone", self.on_disk | self.names, self.written)):
            whole = {path: None if inode is None else data.get(inode, b"") for path, inode in names.items()}
            yield what, {path: of for path, of in sorted(whole.items())
                         if not os.path.dirname(path) or os.path.dirname(path) in whole}


def read(root):
    """The files below a folder, {path: content, None for a folder}."""
    found = {}
    for at, folders, files in os.walk(root):
        for name in folders:
            found[os.path.relpath(os.path.join(at, name), root)] = None
        for name in files:
            if os.path.islink(os.path.join(at, name)):
                found[os.path.relpath(os.path.join(at, name), root)] = _LINK + os.readlink(os.path.join(at, name)).encode()
                continue
            with open(os.path.join(at, name), "rb") as file:
                found[os.path.relpath(os.path.join(at, name), root)] = file.read()
    return found


def write(root, files):
    """Makes a folder hold these files and no others."""
    for at, folders, names in os.walk(root, topdown=False):
        for name in names:
            os.unlink(os.path.join(at, name))
        for name in folders:
            os.rmdir(os.path.join(at, name))
    for path, data in sorted(files.items()):
        if data is None:
            os.makedirs(os.path.join(root, path), exist_ok=True)
            continue
        if data.startswith(_LINK):
            os.symlink(data.removeprefix(_LINK).decode(), os.path.join(root, path))
            continue
        with open(os.path.join(root, path), "wb") as file:
            file.write(data)


def replay(output, disk):
    """All different folders that the disk may hold if the power fails during the run that strace wrote down: (after
    which call, what reached the disk, the files)."""
    seen, found = set(), []

    def collect(after):
        for what, files in disk.after_a_loss():
            key = tuple(files.items())
            if key not in seen:
                seen.add(key)
                found.append((after, what, files))

    collect("nothing")
    with open(output, encoding="latin-1") as file:
        for line in file:
            if "unfinished ..." in line or "resumed>" in line:
                if disk.root in line:
                    raise ValueError(f"two processes at once: {line}")
                continue
            one = _LINE.match(line.rstrip("\n"))
            if one is None or one[3] in ("?",) or int(one[3]) < 0:
                continue
            arguments = _arguments(one[2])
            if disk.apply(one[1], arguments, one[3], one[4]):
                collect(line.strip()[:160])
    return found
