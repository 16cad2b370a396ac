"""Runs a program to which the kernel refuses system calls, by seccomp(2): as under lockdown, or where it was built without
something. `wrap=refused.wrap("bpf")` of support.cnitool goes in front of a command."""

import ctypes
import errno
import os
import platform
import struct
import sys

_NUMBERS = {"x86_64": {"bpf": 321, "socket": 41}, "aarch64": {"bpf": 280, "socket": 198}}
# (system call, errno, {argument: value})
KINDS = {"bpf": ("bpf", errno.EPERM, {}),  # without CAP_BPF, under lockdown
         "netfilter": ("socket", errno.EPROTONOSUPPORT, {0: 16, 2: 12})}  # a kernel without nfnetlink: AF_NETLINK, NETLINK_NETFILTER
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS; BPF_JMP | BPF_JEQ | BPF_K; BPF_RET | BPF_K
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


def wrap(kind):
    """What goes in front of a command."""
    return (sys.executable, os.path.abspath(__file__), kind)


def _program(kind):
    """cBPF over struct seccomp_data: the number is at 0, the arguments from 16 on, eight bytes each."""
    call, error, arguments = KINDS[kind]
    compared = [(0, _NUMBERS[platform.machine()][call]), *((16 + 8 * n, value) for n, value in arguments.items())]
    out = b""
    for index, (offset, value) in enumerate(compared):
        to_end = 2 * (len(compared) - index - 1) + 1  # instructions up to the one that allows
        out += struct.pack("=HBBI", _LOAD, 0, 0, offset) + struct.pack("=HBBI", _EQUAL, 0, to_end, value)
    return out + struct.pack("=HBBI", _RETURN, 0, 0, _ERRNO | error) + struct.pack("=HBBI", _RETURN, 0, 0, _ALLOW)


def main():
    """KIND COMMAND..."""
    code = _program(sys.argv[1])
    buffer = ctypes.create_string_buffer(code, len(code))
    filters = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filters)) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
