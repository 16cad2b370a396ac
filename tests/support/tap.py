"""A program that attaches to a tap as QEMU does, and behaves like a virtual machine behind it."""

import array
import errno
import fcntl
import ipaddress
import os
import select
import socket
import struct
import threading

TUNSETIFF, TUNSETOWNER, TUNSETVNETHDRSZ = 0x400454ca, 0x400454cc, 0x400454d8
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, IFF_MULTI_QUEUE = 0x0002, 0x1000, 0x4000, 0x0100
#: What QEMU asks for with vnet_hdr=on: tap_open() in its net/tap-linux.c.
OF_QEMU = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR
HEADER = 12  # struct virtio_net_hdr_mrg_rxbuf
ARP, IPV4, IPV6 = 0x0806, 0x0800, 0x86dd
ICMP, ICMPV6 = 1, 58


def _ioctl_of(name, flags):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)  # while it is root
    return fd, struct.pack("16sH22x", name.encode(), flags)


def _attach_and_send(receiver, name, uid, gid, flags):
    """Of a process that ends with it: sends the descriptor, or the number of the error."""
    try:
        fd, request = _ioctl_of(name, flags)
        if (uid, gid) != (0, 0):
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        fcntl.ioctl(fd, TUNSETIFF, request)
        if flags & IFF_VNET_HDR:
            fcntl.ioctl(fd, TUNSETVNETHDRSZ, struct.pack("i", HEADER))
        socket.send_fds(receiver, [b"0"], [fd])
    except OSError as error:
        receiver.send(str(error.errno).encode())
    finally:
        os._exit(0)


def attach(pod, name="eth0", uid=0, gid=0, flags=OF_QEMU):
    """The descriptor of a queue of the pod's tap, opened by a process with that uid and gid. An OSError if the
    kernel refuses."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with pod.inside():
        child = os.fork()
        if child == 0:
            _attach_and_send(theirs, name, uid, gid, flags)
    theirs.close()
    with ours:
        data, fds, _, _ = socket.recv_fds(ours, 16, 1)
        os.waitpid(child, 0)
    if not fds:
        raise OSError(int(data), os.strerror(int(data)))
    return fds[0]


def set_owner(fd, uid):
    """TUNSETOWNER."""
    fcntl.ioctl(fd, TUNSETOWNER, uid)


def _checksum(data):
    data += b"\0" * (len(data) % 2)
    words = array.array("H", data)
    total = sum(words)
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("=H", ~total & 0xffff)


def _icmpv6(source, target, kind, rest):
    """An IPv6 packet with an ICMPv6 message: type, code, two bytes of checksum, rest."""
    message = struct.pack("!BBH", kind, 0, 0) + rest
    pseudo = source + target + struct.pack("!II", len(message), ICMPV6)
    message = message[:2] + _checksum(pseudo + message) + message[4:]
    return struct.pack("!IHBB", 6 << 28, len(message), ICMPV6, 255) + source + target + message


def _icmp(source, target, kind, rest):
    message = struct.pack("!BBH", kind, 0, 0) + rest
    message = message[:2] + _checksum(message) + message[4:]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(message), 1, 0, 64, ICMP, 0) + source + target
    return head[:10] + _checksum(head) + head[12:] + message


class Guest:
    """A virtual machine with an IPv4 and an IPv6 address on the queues of a tap: it answers ARP, neighbour
    solicitations and echo requests. heard counts the requests that each queue got."""

    def __init__(self, queues, v4="10.1.2.9", v6="fd00:1::9", mac="02:00:5e:00:00:09"):
        self.queues = queues
        self.v4, self.v6 = ipaddress.ip_address(v4).packed, ipaddress.ip_address(v6).packed
        self.mac = bytes.fromhex(mac.replace(":", ""))
        self.heard = [0] * len(queues)
        self.replies = []  # addresses that answered an echo request of the guest's
        self.changed = threading.Condition()
        self.stopped, self._stop = os.pipe()
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        os.close(self._stop)
        self.thread.join()
        for fd in (self.stopped, *self.queues):
            os.close(fd)

    def ping(self, address, mac, seconds=5):
        """Whether an address behind a MAC address answers the guest."""
        target = ipaddress.ip_address(address).packed
        mac = bytes.fromhex(mac.replace(":", ""))
        rest = struct.pack("!HH", 7, 1) + b"patchbay"
        if len(target) == 4:
            frame = mac + self.mac + struct.pack("!H", IPV4) + _icmp(self.v4, target, 8, rest)
        else:
            frame = mac + self.mac + struct.pack("!H", IPV6) + _icmpv6(self.v6, target, 128, rest)
        self._send(self.queues[0], frame)
        with self.changed:
            return self.changed.wait_for(lambda: address in self.replies, seconds)

    @staticmethod
    def _send(fd, frame):
        os.write(fd, b"\0" * HEADER + frame)

    def _serve(self):
        while True:
            ready, _, _ = select.select([self.stopped, *self.queues], [], [])
            if self.stopped in ready:
                return
            for fd in ready:
                try:
                    frame = os.read(fd, 70000)[HEADER:]
                    answer = self._answer(frame)
                    if answer is not None:
                        self.heard[self.queues.index(fd)] += 1
                        self._send(fd, frame[6:12] + self.mac + frame[12:14] + answer)
                except BlockingIOError:
                    pass
                except OSError as error:
                    if error.errno != errno.EBADFD:
                        raise
                    return  # the tap was removed

    def _answer(self, frame):
        """What follows the Ethernet header, or None."""
        kind, packet = struct.unpack("!H", frame[12:14])[0], frame[14:]
        if kind == ARP:
            if packet[6:8] != b"\0\1" or packet[24:28] != self.v4:
                return None
            return packet[:6] + b"\0\2" + self.mac + self.v4 + packet[8:18]
        if kind == IPV4 and packet[9] == ICMP and packet[16:20] == self.v4:
            return self._echo(packet[12:16], packet[20:], 0, 8, lambda to, rest: _icmp(self.v4, to, 0, rest))
        if kind != IPV6 or packet[6] != ICMPV6:
            return None
        source, message = packet[8:24], packet[40:]
        if message[0] == 135 and message[8:24] == self.v6:  # who has it?
            return _icmpv6(self.v6, source, 136, struct.pack("!I", 0x60000000) + self.v6 + b"\2\1" + self.mac)
        if packet[24:40] != self.v6:
            return None
        return self._echo(source, message, 129, 128, lambda to, rest: _icmpv6(self.v6, to, 129, rest))

    def _echo(self, source, message, reply, request, answer):
        if message[0] == reply:
            with self.changed:
                self.replies.append(str(ipaddress.ip_address(source)))
                self.changed.notify_all()
        return answer(source, message[4:]) if message[0] == request else None
