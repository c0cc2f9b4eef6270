"""CRC checksums of objects; without optional libraries, moto 5.2.5 returns CRC32 in place of CRC32C and CRC64NVME.

A CRC is the remainder of a polynomial over the field of two elements. Python has no such arithmetic, but shifting and
XOR of large integers are fast, so a body is folded in half until the rest is short: x**k is replaced by its remainder.
"""

import base64
from functools import cache
from typing import TYPE_CHECKING

from moto.s3 import models, responses
from moto.s3.utils import compute_checksum

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_CRC = {"CRC32C": (32, 0x11EDC6F41), "CRC64NVME": (64, 0x1AD93D23594C93659)}
"""Width in bits and polynomial (https://reveng.sourceforge.io/crc-catalogue/all.htm: CRC-32/ISCSI and CRC-64/NVME,
which S3 names CRC32C and CRC64NVME). Both reflect bits, and both start from ones and invert the result."""
_REFLECTED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def install(cloud: "LocalCloud") -> None:
    """Replace moto's function where it is used."""
    cloud.replace(models, compute_checksum=checksum)
    cloud.replace(responses, compute_checksum=checksum)


def checksum(body: bytes, algorithm: str, encode_base64: bool = True) -> bytes:
    """Return the checksum of a body in the form of S3's headers, or its bytes."""
    if algorithm not in _CRC:
        return bytes(compute_checksum(body, algorithm, encode_base64))
    width, polynomial = _CRC[algorithm]
    all_ones = (1 << width) - 1
    message = int.from_bytes(bytes(body).translate(_REFLECTED), "big")
    remainder = _remainder(message << width ^ all_ones << 8 * len(body), polynomial) ^ all_ones
    plain = remainder.to_bytes(width // 8, "big").translate(_REFLECTED)[::-1]
    return base64.b64encode(plain) if encode_base64 else plain


def _remainder(value: int, polynomial: int) -> int:
    width = polynomial.bit_length() - 1
    while value.bit_length() > 4 * width:
        exponent = (value.bit_length() - 1).bit_length() - 1
        power = 1 << exponent
        value = value & ((1 << power) - 1) ^ _product(value >> power, _x_to_power_of_two(exponent, polynomial))
    while (excess := value.bit_length() - 1 - width) >= 0:
        value ^= polynomial << excess
    return value


def _product(large: int, small: int) -> int:
    result = 0
    while small:
        lowest = small & -small
        result ^= large << (lowest.bit_length() - 1)
        small ^= lowest
    return result


@cache
def _x_to_power_of_two(exponent: int, polynomial: int) -> int:
    """Return the remainder of x ** (2 ** exponent)."""
    if exponent == 0:
        return 2
    root = _x_to_power_of_two(exponent - 1, polynomial)
    return _remainder(_product(root, root), polynomial)
