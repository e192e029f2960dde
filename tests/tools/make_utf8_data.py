#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/utf8.tsv: random and chosen bytes, and what Python's
incremental decoder makes of them.

A line is the bytes in hexadecimal, how many are valid at the front, how many
at the end are kept back because more could follow, the text with U+FFFD when more could follow, and the text when nothing
follows, both in hexadecimal of UTF-8. NUL counts as invalid in the texts.
"""
import codecs
import random

CHOSEN = [
    "", "61", "00", "6100", "c3a9", "c3", "c328", "c0af", "c1bf", "e0a080",
    "e09f80", "e0", "e0a0", "eda080", "ed9fbf", "edbfbf", "ed", "eda0",
    "ee8080", "efbfbd", "efbfbf", "f0908080", "f08f8080", "f0", "f090",
    "f09080", "f0908028", "f48fbfbf", "f4908080", "f4", "f490", "f5808080",
    "f8888080", "fe", "ff", "80", "bf", "8080", "e282", "e28228", "e282ac",
    "f09f98", "f09f9880", "61f09f", "f09f61", "e3818261e381", "c3c3a9",
    "e3e38182", "f0f09f9880", "c3a900", "efbbbf61",
]


def make_random(seed, n):
    source = random.Random(seed)
    leads = [0x00, 0x41, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf,
             0xe0, 0xe3, 0xed, 0xef, 0xf0, 0xf3, 0xf4, 0xf5, 0xff]
    for _ in range(n):
        data = bytearray()
        for _ in range(source.randint(1, 6)):
            kind = source.randint(0, 3)
            if kind == 0:
                data.append(source.randint(0, 255))
            elif kind == 1:
                data.append(source.choice(leads))
            else:
                whole = chr(source.choice(
                    [0x41, 0xe9, 0x3042, 0x1f600, 0xd7ff, 0x10ffff])).encode()
                data += whole[:source.randint(1, len(whole))]
        yield bytes(data)


def count_valid(data):
    try:
        data.decode()
        return len(data)
    except UnicodeDecodeError as error:
        return error.start


def show(text):
    return text.replace("\0", "\ufffd").encode().hex()


def main():
    for data in [bytes.fromhex(c) for c in CHOSEN] + list(make_random(4, 400)):
        n_valid = count_valid(data)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        more = decoder.decode(data)
        kept = len(decoder.getstate()[0])
        if kept and data[-kept:].decode("utf-8", "replace") != "\ufffd":
            # Half a surrogate, which Python keeps for its surrogatepass
            # handler; no byte can make it valid.
            kept, more = 0, data.decode("utf-8", "replace")
        print(data.hex(), n_valid, kept, show(more),
              show(data.decode("utf-8", "replace")), sep="\t")


if __name__ == "__main__":
    main()
