"""The initial ramdisk of a small virtual machine: a static busybox, modules of its kernel, and a script."""

import os
import shutil
import subprocess

from support.world import run


def release_of(folder):
    """Of an unpacked kernel package."""
    release, = os.listdir(f"{folder}/lib/modules")
    return release


def _modules(folder, names):
    """The files that these modules need, in order."""
    files = []
    for name in names:
        for line in run("modprobe", "-d", folder, "-S", release_of(folder), "--show-depends", name).splitlines():
            words = line.split()
            if words[0] == "insmod" and words[1] not in files:
                files.append(words[1])
    return files


def _unpack(module, to):
    if not module.endswith(".xz"):
        shutil.copy(module, to)
        return
    with open(to, "wb") as file:
        subprocess.run(["xz", "-dc", module], stdout=file, check=True)


def make(work, folder, modules, init, files=None):
    """Makes work/initrd and work/vmlinuz of the kernel package in the folder. init: the script. files: {path in the
    ramdisk: file}, where bin/busybox may be one for another processor."""
    disk = f"{work}/disk"
    for name in ("bin", "dev", "proc", "run", "sys", "modules"):
        os.makedirs(f"{disk}/{name}")
    for path, source in ({"bin/busybox": shutil.which("busybox")} | (files or {})).items():
        os.makedirs(os.path.dirname(f"{disk}/{path}"), exist_ok=True)
        shutil.copy(source, f"{disk}/{path}")
    for number, module in enumerate(_modules(folder, modules)):
        _unpack(module, f"{disk}/modules/{number:02}.ko")
    with open(f"{disk}/init", "w", encoding="ascii") as file:
        file.write(init)
    os.chmod(f"{disk}/init", 0o755)
    run("sh", "-ec", f"cd {disk}; busybox find . | busybox cpio -o -H newc >{work}/initrd 2>/dev/null")
    shutil.copy(f"{folder}/boot/vmlinuz-{release_of(folder)}", f"{work}/vmlinuz")
