"""Which pages of which libraries are released: the read-only ones of all, but of none whose text the loader patched."""

import _ctypes
import ctypes
import mmap
import os
import platform
import struct

import pytest

from mpbroker import _native

PAGE = 4096
MACHINE, RELATIVE = {"x86_64": (62, 8), "aarch64": (183, 1027)}.get(platform.machine(), (0, 0))
LOAD, DYNAMIC, NOTE = 1, 2, 4
READ, WRITE, EXECUTE = 4, 2, 1
#: Tags of a dynamic section.
HASH, STRINGS, SYMBOLS, RELA, RELA_BYTES, RELA_ENTRY, STRINGS_BYTES, SYMBOL_ENTRY = 4, 5, 6, 7, 8, 9, 10, 11
TEXTREL, FLAGS, SYMBOLIC_FLAG, TEXTREL_FLAG = 22, 30, 2, 4
PATCHED, UNALIGNED = 0x800, 0x1841  # no segment has to begin at an even place
TEXT_BYTES, MORE_BYTES = 0x900, 0x70

pytestmark = [
    pytest.mark.skipif(MACHINE == 0, reason="a library is written by hand for x86_64 and aarch64"),
    pytest.mark.skipif(mmap.PAGESIZE != PAGE, reason="and for pages of 4 KiB"),
]


def header(kind, flags, vaddr, size, align=PAGE):
    return struct.pack("<IIQQQQQQ", kind, flags, vaddr, vaddr, vaddr, size, size, align)


def a_library(tags=(), *, patched=False, first=True, behind=b""):
    """A shared library whose one symbol, `patched`, is in its text: 0, unless the loader is to put a number there.

    `tags` are more entries of its dynamic section. `first`: its header stands before the others, else behind them.
    `behind`: what follows the last header.
    """
    dynamic_at, symbols, strings, hashed, rela = 0x2100, 0x2000, 0x2040, 0x2060, 0x2080
    entries = [
        (HASH, hashed), (STRINGS, strings), (SYMBOLS, symbols), (STRINGS_BYTES, 16), (SYMBOL_ENTRY, 24)
    ]  # fmt: skip
    if patched:
        entries += [(RELA, rela), (RELA_BYTES, 24), (RELA_ENTRY, 24)]
    entries = [*tags, *entries, (0, 0)]
    dynamic = header(DYNAMIC, READ | WRITE, dynamic_at, 16 * len(entries), 8)
    headers = [
        header(LOAD, READ | EXECUTE, 0, TEXT_BYTES),
        header(LOAD, READ, UNALIGNED, MORE_BYTES),
        header(LOAD, READ | WRITE, symbols, 0x400),
        header(NOTE, READ, UNALIGNED, MORE_BYTES),
    ]
    headers = [dynamic, *headers] if first else [*headers, dynamic]
    image = bytearray(0x2400)
    image[:64] = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 3, MACHINE, 1, 0, 64, 0, 0, 64, 56, len(headers), 64, 0, 0
    )
    table = b"".join(headers) + behind
    image[64 : 64 + len(table)] = table
    image[symbols + 24 : symbols + 48] = struct.pack("<IBBHQQ", 1, 0x11, 0, 1, PATCHED, 8)
    image[strings : strings + 9] = b"\0patched\0"
    image[hashed : hashed + 20] = struct.pack("<IIIII", 1, 2, 1, 0, 0)
    image[rela : rela + 24] = struct.pack("<QQQ", PATCHED, RELATIVE, PATCHED)
    for number, entry in enumerate(entries):
        struct.pack_into("<QQ", image, dynamic_at + 16 * number, *entry)
    return bytes(image)


def read_only_bytes(path):
    """Of a library's file: the pages of its segments that nobody writes to; 0: it has text relocations, or is none."""
    with open(path, "rb") as file:
        head = file.read(64)
        if head[:4] != b"\x7fELF":
            return 0
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(*struct.unpack_from("<Q", head, 32))
        table = file.read(size * count)
    found = 0
    for number in range(count):
        kind, flags, _, vaddr, _, _, memory, _ = struct.unpack_from("<IIQQQQQQ", table, number * size)
        if kind == LOAD and not flags & WRITE:
            found += vaddr % PAGE + memory
    return found


def libraries():
    """Whatever this process has mapped to execute it, but for the program itself."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        lines = [line.split(maxsplit=5) for line in maps]
    paths = {words[5].strip() for words in lines if len(words) == 6 and "x" in words[1] and words[5].startswith("/")}
    paths = {path for path in paths if not path.endswith(" (deleted)")}  # a function that was made at run time, say
    return {path for path in paths if not os.path.samefile(path, "/proc/self/exe")}


@pytest.fixture
def loaded(tmp_path):
    """Loads a library; all are gone after the test."""
    libraries = []

    def load(image):
        path = tmp_path / f"library{len(libraries)}.so"
        path.write_bytes(image)
        libraries.append(ctypes.CDLL(str(path)))
        return libraries[-1]

    yield load
    for library in libraries:
        _ctypes.dlclose(library._handle)


def test_what_nobody_writes_to_is_released():
    """Of every library that there is, to the byte; and again, for it comes back by itself."""
    expected = sum(map(read_only_bytes, libraries()))
    assert expected > 1 << 20
    assert [_native.release_library_pages() for _ in range(2)] == [expected] * 2


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "tags",
    [[], [(FLAGS, SYMBOLIC_FLAG)], [(FLAGS, TEXTREL_FLAG)], [(FLAGS, 6)], [(TEXTREL, 0)], [(FLAGS, 2), (TEXTREL, 0)]],
)
def test_text_that_was_patched_stays(loaded, tags, first):
    """A released page is read from the file again, where the number is not."""
    is_patched = any(tag == TEXTREL or value & TEXTREL_FLAG for tag, value in tags)
    before = _native.release_library_pages()
    library = loaded(a_library(tags, patched=is_patched, first=first))
    patched = ctypes.c_uint64.in_dll(library, "patched")
    told = patched.value
    assert (told != 0) is is_patched
    released = _native.release_library_pages() - before
    assert patched.value == told
    assert released == (0 if is_patched else TEXT_BYTES + UNALIGNED % PAGE + MORE_BYTES)


def test_what_stands_behind_the_headers_is_none(loaded):
    """It looks like a dynamic section of patched text, and like a segment."""
    more = 0x2200
    for behind in (header(DYNAMIC, READ | WRITE, more, 32, 8), header(LOAD, READ, 0, TEXT_BYTES)):
        image = bytearray(a_library(behind=behind))
        struct.pack_into("<QQQQ", image, more, TEXTREL, 0, 0, 0)
        before = _native.release_library_pages()
        loaded(bytes(image))
        assert _native.release_library_pages() - before == TEXT_BYTES + UNALIGNED % PAGE + MORE_BYTES
