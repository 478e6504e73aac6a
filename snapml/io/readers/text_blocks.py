"""Text files in blocks of whole lines: plain, compressed or open already, all or a range."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from snapml.io.readers.arrow_package import pyarrow_for

__all__ = ["LinesOfRange", "is_compressed", "name_of", "opened", "refuse", "text_blocks"]

# Long enough for all threads of a parser, short enough for Ctrl-C.
BLOCK_BYTES = 16 * 2**20
# What is read at a time behind the end of a range, for the last line's end.
_PAST_BYTES = 2**16
# Bytes of what a message shows.
_SHOWN = 40


def name_of(source: Any) -> str:
    """Return what messages call a path or an open file."""
    if isinstance(source, str | bytes | os.PathLike):
        return os.fsdecode(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else f"<{type(source).__name__}>"


def is_compressed(path: Path) -> bool:
    """Return whether `opened` would decompress a file.

    Parameters
    ----------
    path : pathlib.Path
        The file.

    Returns
    -------
    bool
        By its first bytes.
    """
    return _opener_of(path) is not None


def _opener_of(path: Path) -> Any:
    with path.open("rb") as stream:
        first = stream.read(_LONGEST_MAGIC)
    return next((opener for magic, opener in _OPENERS.items() if first.startswith(magic)), None)


@contextlib.contextmanager
def opened(source: Any, on_read: Callable[[int], Any] | None = None) -> Iterator[BinaryIO]:
    """Open a path, or take an open file as it is; what is compressed comes out as text.

    Parameters
    ----------
    source : str, path-like or binary file
        gzip, bzip2, xz and zstd are known by their first bytes, whatever the name; zstd needs
        pyarrow.
    on_read : callable or None, default=None
        Called with the number of bytes of each read from a path, before they are decompressed.

    Yields
    ------
    binary file
        A file that was opened here is closed at the end.
    """
    if not isinstance(source, str | bytes | os.PathLike):
        if not hasattr(source, "readinto"):
            raise TypeError(f"expected a path or a binary file, got {type(source).__name__}")
        yield source
        return
    path = Path(os.fsdecode(source))
    opener = _opener_of(path)
    with io.BufferedReader(_WatchedFile(path, on_read)) as plain:
        if opener is None:
            yield plain
            return
        with _told_damage(str(path)), opener(plain, "rb") as text:
            yield cast(BinaryIO, text)


def text_blocks(stream: BinaryIO, name: str, offset: int, length: int) -> Iterator[memoryview]:
    """Read lines in blocks, the next one while the caller works on this one.

    Parameters
    ----------
    stream : binary file
        What to read from.
    name : str
        For messages.
    offset : int
        Lines that begin at most here do not belong, unless it is 0.
    length : int
        Lines that begin at most at ``offset + length`` do; -1 means to the end.

    Yields
    ------
    memoryview
        Whole lines, until the next step: two buffers serve all blocks. The last line of the file
        may lack its newline.

    Raises
    ------
    ValueError
        If compressed data are damaged or end early.
    """
    reader = _Reader(stream, offset, length)
    with _told_damage(name), ThreadPoolExecutor(1, "snapml-reader") as ahead:
        block = reader.next_block()
        while len(block) > 0:
            following = ahead.submit(reader.next_block)
            yield block
            block = following.result()


class LinesOfRange(io.RawIOBase):
    """A range of text as a file of its own.

    Parameters
    ----------
    head : bytes
        What comes first.
    blocks : iterator of memoryview
        What `text_blocks` yields.
    """

    def __init__(self, head: bytes, blocks: Iterator[memoryview]) -> None:
        self._blocks = blocks
        self._rest = memoryview(head)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, memory: Any) -> int:
        """Hand out what is left of a block, or begin the next."""
        if not len(self._rest):
            self._rest = next(self._blocks, memoryview(b""))
        n_read = min(len(memory), len(self._rest))
        memory[:n_read] = self._rest[:n_read]
        self._rest = self._rest[n_read:]
        return n_read


def refuse(
    name: str, block: memoryview, n_lines: int, position: int, expected: str, offset: int
) -> NoReturn:
    """Say what stands where something else was expected.

    Parameters
    ----------
    name : str
        Of the file.
    block : memoryview
        The text that holds the error.
    n_lines : int
        Lines before that of the error, from `offset` on.
    position : int
        Where in the block.
    expected : str
        What should have stood there.
    offset : int
        Where reading began.

    Raises
    ------
    ValueError
        Always.
    """
    text = bytes(block[position : position + _SHOWN])
    got = text.splitlines()[0].split()[:1] if text.strip() else []
    where = f"line {n_lines + 1}" + (f" behind byte {offset}" if offset else "")
    shown = repr(got[0] if got else b"")[1:]
    raise ValueError(f"{name}, {where}: expected {expected}, got {shown}")


@contextlib.contextmanager
def _told_damage(name: str) -> Iterator[None]:
    """Name the file in errors of decompression."""
    try:
        yield
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, _ZstdError) as error:
        raise ValueError(
            f"{name}: the compressed data are damaged or end early: {error}"
        ) from error


class _ZstdError(Exception):
    """Compressed data that pyarrow refuses."""


class _ZstdFile(io.RawIOBase):
    """The text of a file that zstd compressed."""

    def __init__(self, plain: BinaryIO) -> None:
        pa = pyarrow_for(f"{name_of(plain)}: zstd")
        self._text = pa.CompressedInputStream(pa.PythonFile(plain, mode="r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, memory: Any) -> int:
        try:
            n_read: int = self._text.readinto(memory)
        except OSError as error:
            raise _ZstdError(str(error)) from error
        return n_read


def _open_zstd(plain: BinaryIO, _mode: str) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_ZstdFile(plain)))


_OPENERS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
    b"\x28\xb5\x2f\xfd": _open_zstd,
}
_LONGEST_MAGIC = max(map(len, _OPENERS))


class _WatchedFile(io.FileIO):
    """A file that tells how much is read of it."""

    def __init__(self, path: Path, on_read: Callable[[int], Any] | None) -> None:
        super().__init__(path)
        self._on_read = on_read

    def readinto(self, memory: Any) -> int:
        """Read, and tell."""
        n_read = super().readinto(memory) or 0
        if self._on_read is not None:
            self._on_read(n_read)
        return n_read


class _Reader:
    """Cuts what it reads after the last newline; the rest begins the next block."""

    def __init__(self, stream: BinaryIO, offset: int, length: int) -> None:
        self._stream = stream
        self._rest = b""
        # Kept from block to block: fresh memory costs zeros, and a page fault for every 4 KB.
        self._buffers = [bytearray(), bytearray()]
        self._begin = 0  # where the next block's first line stands
        self._limit: float = float("inf") if length < 0 else offset + length
        if offset > 0:
            stream.seek(offset)
            self._begin = offset
            self._skip_line()

    def _skip_line(self) -> None:
        """Go to the next line, but not far behind the end: a line may be longer than memory."""
        while self._begin <= self._limit:
            text = self._stream.readline(BLOCK_BYTES)
            self._begin += len(text)
            if not text or text.endswith(b"\n"):
                return

    def next_block(self) -> memoryview:
        """Return the next whole lines, or nothing at the end."""
        if self._begin > self._limit:
            return memoryview(b"")
        text, n_filled, is_end = self._filled()
        end = n_filled if is_end else text.rfind(b"\n", 0, n_filled) + 1
        if self._begin + n_filled > self._limit:
            newline = text.find(b"\n", max(0, int(self._limit) - self._begin), n_filled)
            if newline >= 0:
                end = newline + 1
                self._limit = -1  # the last block
        self._rest = bytes(memoryview(text)[end:n_filled])
        self._begin += end
        return memoryview(text)[:end]

    def _filled(self) -> tuple[bytearray, int, bool]:
        """Return a buffer with the rest and what follows, how much of it, and if the file ends."""
        text, n_filled = self._buffers.pop(0), len(self._rest)
        if len(text) < n_filled + BLOCK_BYTES:
            text = bytearray(2 * n_filled + BLOCK_BYTES)
        text[:n_filled] = self._rest
        while True:
            n_left = max(0.0, self._limit - self._begin - n_filled) + _PAST_BYTES
            n_asked = int(min(n_left, len(text) - n_filled))
            with memoryview(text) as free:
                n_read = self._read_into(free[n_filled : n_filled + n_asked])
            is_new_line = text.find(b"\n", n_filled, n_filled + n_read) >= 0
            n_filled += n_read
            if n_read < n_asked or is_new_line:
                self._buffers.append(text)
                return text, n_filled, n_read < n_asked
            if n_filled == len(text):
                text = text + bytes(len(text))

    def _read_into(self, free: memoryview) -> int:
        """Fill `free` as far as the file goes."""
        n_read = 0
        while n_read < len(free):
            n_more = self._stream.readinto(free[n_read:])  # type: ignore[attr-defined]
            if not n_more:
                break
            n_read += n_more
        return n_read
