"""Masks whose PNG has a palette, as PASCAL VOC's have: the classes are the numbers of colours, not their brightness.

TensorFlow decodes such a file to colours. With another type in its header and without the palette, the same file is a
gray image of the numbers.
"""

import struct
import zlib

SIGNATURE_BYTES = 8
GRAY, PALETTE = 0, 3  # colour types, as the PNG specification numbers them
COLOURS = [b"PLTE", b"tRNS"]  # chunks that a gray image may not have, or has another meaning for


def as_gray(data):
    """A PNG of gray values, and how much brighter its decoder makes each next one."""
    chunks = list(split(data))
    if not chunks or chunks[0][0] != b"IHDR" or len(chunks[0][1]) != 13:
        raise ValueError("no PNG, or a broken one")
    header = bytearray(chunks[0][1])
    depth, colour = header[8], header[9]
    if colour not in [GRAY, PALETTE]:
        raise ValueError("a PNG in colours, expected gray values or a palette: one number a pixel")
    if depth > 8:
        raise ValueError(f"a PNG of {depth} bits a pixel, expected at most 8")
    header[9] = GRAY
    kept = [(kind, body) for kind, body in chunks[1:] if kind not in COLOURS]
    gray = data[:SIGNATURE_BYTES] + b"".join(packed(kind, body) for kind, body in [(b"IHDR", bytes(header)), *kept])
    return gray, 255 // (2**depth - 1)  # decoders spread fewer bits over 0…255


def split(data):
    """The chunks of a PNG: type and content."""
    at = SIGNATURE_BYTES
    while at + 12 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def packed(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
