"""As much of SCTP (RFC 9260) as it takes to see where an association would go.

Kernels are built without SCTP sockets more often than with them, while translating addresses of
SCTP packets takes none: so both ends are raw sockets here, and the handshake ends after its first
two packets, INIT and INIT ACK. The state cookie of the INIT ACK carries the answer's text.
"""

import socket
import struct

PROTOCOL = 132
INIT, INIT_ACK = 1, 2
STATE_COOKIE = 7

_POLYNOMIAL = 0x82F63B78  # CRC32c, reflected: RFC 9260, appendix A


def _table():
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        yield value


_TABLE = tuple(_table())


def crc32c(data):
    """The checksum of RFC 9260, section 6.8."""
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def _packet(ports, tag, kind, parameters=b""):
    # Initiate tag, window, streams out and in, initial TSN: RFC 9260, section 3.3.2.
    body = struct.pack("!IIHHI", 0x12345678, 65535, 1, 1, 1) + parameters
    chunk = struct.pack("!BBH", kind, 0, 4 + len(body)) + body + bytes(-len(body) % 4)
    # The checksum is the one field that is not in network order.
    whole = struct.pack("!HHI", *ports, tag) + bytes(4) + chunk
    return whole[:8] + struct.pack("<I", crc32c(whole)) + whole[12:]


def init(source_port, port):
    """The packet that asks for an association."""
    return _packet((source_port, port), 0, INIT)


def init_ack(packet, text):
    """The answer to an INIT, with text in its cookie."""
    source_port, port = struct.unpack_from("!HH", packet)
    tag, = struct.unpack_from("!I", packet, 16)
    cookie = text.encode()
    parameter = struct.pack("!HH", STATE_COOKIE, 4 + len(cookie)) + cookie
    return _packet((port, source_port), tag, INIT_ACK, parameter)


def parse(packet):
    """(source port, port, chunk kind, the cookie's text) of a packet whose checksum is right;
    None for any other."""
    if len(packet) < 32 or struct.unpack_from("<I", packet, 8)[0] != crc32c(
            packet[:8] + bytes(4) + packet[12:]):
        return None
    text = ""
    if packet[12] == INIT_ACK and len(packet) > 36:
        length, = struct.unpack_from("!H", packet, 34)
        text = packet[36:32 + length].decode(errors="replace")
    return (*struct.unpack_from("!HH", packet), packet[12], text)


def raw_socket(family):
    """A socket that sends and gets SCTP packets of everyone in the namespace."""
    return socket.socket(family, socket.SOCK_RAW | socket.SOCK_NONBLOCK, PROTOCOL)


def receive(raw):
    """(packet without IP header, the sender's address)."""
    packet, sender = raw.recvfrom(2048)
    if raw.family == socket.AF_INET:
        packet = packet[(packet[0] & 15) * 4:]
    return packet, sender[0]
