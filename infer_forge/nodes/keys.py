"""A collector's key: Ed25519 (RFC 8032). The private half never leaves the collector's state folder."""

from __future__ import annotations

import os
from pathlib import Path

from infer_forge.base.jsonio import write_atomic


def private_key(file: Path) -> bytes:
    """The collector's private key, made at first use and readable by its user alone."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        return bytes.fromhex(file.read_text().strip())
    except FileNotFoundError:
        made = Ed25519PrivateKey.generate().private_bytes_raw()
        file.parent.mkdir(parents=True, exist_ok=True)
        old = os.umask(0o077)
        try:
            write_atomic(file, made.hex())
        finally:
            os.umask(old)
        return made


def public_key(private: bytes) -> str:
    """The public half, hex."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw().hex()


def sign(private: bytes, sha: str) -> str:
    """Signature of a sample's hash, hex."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(private).sign(bytes.fromhex(sha)).hex()


def verified(public: str, sha: str, sig: str | None) -> bool:
    """Whether the signature is of this hash by this key; anything malformed is not."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not sig:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(sig), bytes.fromhex(sha))
    except (InvalidSignature, ValueError):
        return False
    return True
