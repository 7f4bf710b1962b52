"""Protocol-buffer wire format, as far as the container needs it: fields one level deep, without a schema."""

from __future__ import annotations

from collections.abc import Iterator

from infer_forge.base.errors import InputUnusable

_FIXED = {1: 8, 5: 4}


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at` and the position after it.

    Raises:
        InputUnusable: the bytes end inside it, or it is longer than 64 bits.
    """
    result = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise InputUnusable("a number in the container is cut or too long")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and values (numbers, or the raw bytes of everything with a length) of one message.

    Raises:
        InputUnusable: the message is cut or no protocol-buffer message.
    """
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = varint(data, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise InputUnusable(f"wire type {kind} stands where a message should be")
        if number == 0 or at + size > len(data):
            raise InputUnusable("a message in the container is cut")
        yield number, data[at : at + size]
        at += size


def encode_varint(number: int) -> bytes:
    """The wire form of a number (used to find one metric in a payload without decoding the others)."""
    out = bytearray()
    while number > 0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
