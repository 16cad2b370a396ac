"""Gratuitous ARP and unsolicited neighbour advertisements, as frames that arrive."""

import socket
import time

ARP, IPV6, EVERYTHING = b"\x08\x06", b"\x86\xdd", 3
ICMPV6, ADVERTISEMENT, OVERRIDE, TARGET_MAC = 58, 136, 0x20, b"\x02\x01"
ALL_NODES = socket.inet_pton(socket.AF_INET6, "ff02::1")


def announcement(frame):
    """(address, MAC address) of a frame that announces one; None for others."""
    if frame[12:14] == ARP and frame[28:32] == frame[38:42]:  # from the address, for itself
        return socket.inet_ntoa(frame[28:32]), frame[22:28].hex(":")
    is_advertisement = frame[12:14] == IPV6 and len(frame) >= 86 and (frame[20], frame[54]) == (ICMPV6, ADVERTISEMENT)
    if is_advertisement and frame[38:54] == ALL_NODES and frame[58] & OVERRIDE and frame[78:80] == TARGET_MAC:
        return socket.inet_ntop(socket.AF_INET6, frame[62:78]), frame[80:86].hex(":")
    return None


class Listener:
    """Hears what arrives at the links of this network namespace, from now on."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERYTHING))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def lacks(self, mac, addresses, seconds=3):
        """Those of the addresses that nobody announced with the MAC address."""
        wanted, end = {(one, mac) for one in addresses}, time.monotonic() + seconds
        while wanted and (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                frame, where = self.socket.recvfrom(2048)
            except TimeoutError:
                break
            if where[2] != socket.PACKET_OUTGOING:
                wanted.discard(announcement(frame))
        return sorted(address for address, _ in wanted)
