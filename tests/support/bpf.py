"""Programs that drop or pass all packets, attached to a link as those of AF_XDP and eBPF applications, by bpf(2)
alone: neither bpftool nor a compiler is needed."""

import ctypes
import os
import platform
import socket
import struct

from support.world import mount, run

_CALL = {"x86_64": 321, "aarch64": 280}.get(platform.machine())
_LIBC = ctypes.CDLL(None, use_errno=True)
_LOAD, _PIN, _ATTACH, _DETACH, _FD_OF_PROGRAM, _FD_OF_MAP, _QUERY, _LINK = 5, 6, 8, 9, 13, 14, 16, 28
XDP_DROP, XDP_PASS, XDP_TX, TCX_DROP, TCX_PASS, CGROUP_DROP, CGROUP_PASS = 1, 2, 3, 2, 0, 0, 1
_INGRESS, _XDP = 46, 37
_MULTI = 2  # BPF_F_ALLOW_MULTI
# (BPF_PROG_TYPE_*, BPF_*: where it is attached)
_KINDS = {"xdp": (6, _XDP), "tcx": (3, _INGRESS), "cgroup ingress": (8, 0), "cgroup egress": (8, 1)}


def _bpf(command, attributes):
    """What bpf(2) returns. Raises OSError."""
    if _CALL is None:
        raise OSError("no number of bpf(2) for this processor")
    content = ctypes.create_string_buffer(attributes, 128)
    done = _LIBC.syscall(_CALL, command, content, 128)
    if done < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return done, content.raw


def load(kind, verdict):
    """The descriptor of a program that returns the verdict, of kind "xdp", "tcx", "cgroup ingress" or "cgroup egress"."""
    code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xb7, 0, 0, verdict, 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"GPL")
    return _bpf(_LOAD, struct.pack("<IIQQIIQII16sII", _KINDS[kind][0], 2, ctypes.addressof(code),
                                   ctypes.addressof(licence), 0, 0, 0, 0, 0, b"test", 0,
                                   _KINDS[kind][1]))[0]


def attach_tcx(program, link):
    """Attaches it to the link of this namespace, at its ingress."""
    _bpf(_ATTACH, struct.pack("<IIII", socket.if_nametoindex(link), program, _INGRESS, 0))


def _at_cgroup(command, kind, program, path):
    group = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _bpf(command, struct.pack("<IIII", group, program, _KINDS[kind][1], _MULTI if command == _ATTACH else 0))
    finally:
        os.close(group)


def attach_to_cgroup(kind, program, path):
    """Attaches it to the control group, beside others."""
    _at_cgroup(_ATTACH, kind, program, path)


def detach_from_cgroup(kind, program, path):
    """Detaches it there."""
    _at_cgroup(_DETACH, kind, program, path)


def attach_by_link(kind, program, link):
    """The same by a BPF link, which lasts as long as the descriptor that this returns."""
    return _bpf(_LINK, struct.pack("<IIII", program, socket.if_nametoindex(link), _KINDS[kind][1], 0))[0]


def tcx_programs(link):
    """The numbers of the programs at the ingress of the link."""
    found = (ctypes.c_uint32 * 8)()
    _, answer = _bpf(_QUERY, struct.pack("<IIIIQII", socket.if_nametoindex(link), _INGRESS, 0, 0,
                                         ctypes.addressof(found), 8, 0))
    return list(found)[:struct.unpack_from("<I", answer, 24)[0]]


def attach_xdp(program, link, mode="xdp"):
    """Attaches it as ip-link(8) does: by netlink, in driver or generic mode ("xdpdrv", "xdpgeneric")."""
    os.mkdir("/run/bpf")
    mount("bpf", "/run/bpf", "bpf")
    path = ctypes.create_string_buffer(b"/run/bpf/program")
    _bpf(_PIN, struct.pack("<QII", ctypes.addressof(path), program, 0))
    run("ip", "link", "set", "dev", link, mode, "pinned", path.value.decode())
    _LIBC.umount2(b"/run/bpf", 0)  # umount(8) leaves a file
    os.rmdir("/run/bpf")


def programs_and_maps_of(process):
    """The numbers of the programs and of the maps that its descriptors hold."""
    programs, maps = set(), set()
    folder = f"/proc/{process}/fdinfo"
    try:
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="ascii") as file:
                for line in file:
                    key, _, value = line.partition(":")
                    if key in ("prog_id", "map_id"):
                        (programs if key == "prog_id" else maps).add(int(value))
    except OSError:  # it has ended, or closed one
        pass
    return programs, maps


def exists(number, is_map=False):
    """Whether the kernel has a program, or a map, of that number."""
    try:
        os.close(_bpf(_FD_OF_MAP if is_map else _FD_OF_PROGRAM, struct.pack("<I", number))[0])
    except FileNotFoundError:
        return False
    return True
