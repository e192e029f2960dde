#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seed corpus of fuzz_weights: right files and wrong ones of each
kind, the first byte saying which. Argument: a directory."""
import hashlib
import json
import os
import random
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tools"))
from make_tiny_model import Vocabulary  # noqa: E402 (found by the line above)

MODEL, CONFIG, VOCABULARY_JSON, VOCABULARY_TXT, TEXT = range(5)
F32, I8, I16, I32, F16, BF16 = range(6)


def string(text):
    data = text.encode("latin-1") + b"\0"
    return struct.pack("<H", len(data)) + data


def variable(name, dims, type_id, data, rank=None, n_bytes=None):
    return (string(name) + struct.pack("<B", len(dims) if rank is None
                                       else rank)
            + b"".join(struct.pack("<I", dim) for dim in dims)
            + struct.pack("<BI", type_id,
                          len(data) if n_bytes is None else n_bytes) + data)


def model(variables, aliases=(), version=6, spec="WhisperSpec", revision=3,
          n_variables=None, n_aliases=None):
    data = struct.pack("<I", version) + string(spec)
    data += struct.pack("<II", revision, len(variables)
                        if n_variables is None else n_variables)
    data += b"".join(variables)
    if version >= 3:
        data += struct.pack("<I", len(aliases)
                            if n_aliases is None else n_aliases)
        data += b"".join(string(a) + string(b) for a, b in aliases)
    return data


def good_model():
    return model(
        [variable("decoder/embeddings/weight", [4, 2], F16, bytes(16)),
         variable("encoder/conv1/weight", [2, 1, 3], F32, bytes(24)),
         variable("encoder/num_heads", [], I16, b"\x01\0"),
         variable("q", [2, 3], I8, bytes(range(6))),
         variable("q_scale", [2], F32, struct.pack("<2f", 2.0, 3.0)),
         variable("r", [2], I16, bytes(4)),
         variable("r_scale", [], F32, struct.pack("<f", 1024.0)),
         variable("s", [1], BF16, bytes(2)),
         variable("t", [1, 1, 1, 1], I32, bytes(4))],
        [("decoder/projection/weight", "decoder/embeddings/weight"),
         ("p", "q")])


def bad_models():
    big = 0xffffffff
    x = variable("x", [], I8, b"\0")
    yield b""
    yield model([], version=5)
    yield model([], version=7)
    yield model([], version=2)
    yield model([], spec="TransformerSpec", revision=7)
    yield model([], revision=2)
    yield model([], n_variables=big)
    yield model([], n_aliases=big)
    yield model([], n_variables=65536)
    yield model([variable("x" * 512, [], I8, b"\0")])
    yield model([variable("x" * 60000, [], I8, b"\0")])
    yield model([variable("", [], I8, b"\0")])
    yield model([variable("x\0y", [], I8, b"\0")])
    yield model([variable("\xff", [], I8, b"\0")])
    yield model([x, x])
    yield model([variable("x", [1] * 5, I8, b"\0")])
    yield model([variable("x", [], I8, b"\0", rank=255)])
    yield model([variable("x", [0], F32, b"")])
    yield model([variable("x", [big] * 4, I8, b"\0")])
    yield model([variable("x", [0x10000] * 4, I8, b"")])
    yield model([variable("x", [0x10000] * 2, I8, b"")])
    yield model([variable("x", [0x80000000, 2], F32, b"", n_bytes=big)])
    yield model([variable("x", [2], F32, bytes(7))])
    yield model([variable("x", [2], F32, bytes(8), n_bytes=big)])
    for type_id in (6, 7, 128, 255):
        yield model([variable("x", [], type_id, bytes(4))])
    yield model([variable("x", [2], I8, b"\1\2"),
                 variable("x_scale", [3], F32, bytes(12))])
    yield model([variable("x", [2], I8, b"\1\2"),
                 variable("x_scale", [2], F32, bytes(8))])
    yield model([variable("x", [2], I8, b"\1\2"),
                 variable("x_scale", [2], F16, bytes(4))])
    yield model([x], [("a", "b"), ("b", "a")])
    yield model([x], [("a", "a")])
    yield model([x], [("x", "x")])
    yield model([x], [("a", "x"), ("a", "x")])
    yield model([x], [("a", "x"), ("b", "a"), ("c", "b")])
    yield model([x]) + b"\0"
    yield (struct.pack("<I", 3) + string("WhisperSpec")
           + struct.pack("<II", 3, 2) + string("x")
           + struct.pack("<BIBI", 1, 2, 4, 2) + bytes(8) + string("y")
           + struct.pack("<BBI", 0, 1, 1) + b"\3" + struct.pack("<I", 0))


def safetensors(tensors, data=bytes(64), n_header=None):
    header = json.dumps(tensors).encode() if tensors is not None else b""
    return struct.pack("<Q", len(header) if n_header is None
                       else n_header) + header + data


def entry(dtype="F32", shape=(2, 3), begin=0, end=24):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def good_safetensors():
    return safetensors({
        "__metadata__": {"format": "pt"}, "a.weight": entry(),
        "b": entry("F16", [2], 24, 28), "c": entry("BF16", [], 29, 31),
        "d": entry("I8", [1, 1, 1], 28, 29), "e": entry("I32", [8], 32, 64)})


def bad_safetensors():
    yield safetensors({})
    yield safetensors(None)
    for n_header in (0, 1, 1 << 24, (1 << 24) + 1, (1 << 40) - 1):
        yield safetensors({"a": entry()}, n_header=n_header)
    for wrong in (entry("F64"), entry(8), entry(None), entry(shape=[0]),
                  entry(shape=[1 << 32, 1 << 32]), entry(shape=[-1]),
                  entry(shape=[1 << 31, 1 << 31, 4]), entry(shape=6),
                  entry(shape=[1] * 9), entry(begin=41, end=65),
                  entry(begin=24, end=0), entry(end=23), entry(begin=-1),
                  entry(end=1 << 59), entry(end="24"), [], None, 1, {}):
        yield safetensors({"a": wrong})
    yield safetensors({"a": entry(), "b": entry(begin=23, end=47)})
    yield safetensors({"a": entry(), "b": entry()})
    yield safetensors({"": entry()})
    yield safetensors({"\u65e5" * 40: entry("F64")})
    yield safetensors({"x" * 513: entry()})


def cut(data, source, n):
    for _ in range(n):
        yield data[:source.randrange(len(data))]


def changed(data, source, n):
    for _ in range(n):
        other = bytearray(data)
        for _ in range(source.randint(1, 4)):
            other[source.randrange(len(other))] = source.randrange(256)
        yield bytes(other)


def configs():
    good = {"alignment_heads": [[3, 1], [4, 2]], "lang_ids": [50259],
            "suppress_ids": [1, 2, 7], "suppress_ids_begin": [220, 50257]}
    yield json.dumps(good)
    for value in (5, None, {}, [1.5], ["1"], [[1]], [[1, 2, 3]], [True],
                  [1 << 31], [-1], [1 << 62], [1 << 80]):
        yield json.dumps({"suppress_ids": value})
        yield json.dumps({"alignment_heads": value})
    yield from ("", "[]", "null", "{", "{\"a\": ", "/**/{}", "{}{}", "\\",
                "[" * 100, "{\"a\":" * 100, "\"\\", "\"\\u12", "1e999", "-")


def vocabularies():
    special = (["<|endoftext|>", "<|startoftranscript|>", "<|en|>"]
               + ["<|notimestamps|>", "<|0.00|>"])
    tokens = ["!", "\u0120the", "", "\u010a", "\u0100", "\u65e5"] + special
    yield tokens
    yield []
    yield [""]
    yield ["a"] * 3
    yield [chr(c) for c in range(0x20, 0x180)]
    whole = Vocabulary().spellings()
    eot = whole.index("<|endoftext|>")
    yield whole
    yield whole[eot:]
    yield whole[:-1]
    yield whole + whole
    yield whole[:eot + 40] + whole[eot + 41:]
    yield whole[:eot + 103] + whole[eot + 104:] + ["x"]


def inputs():
    source = random.Random(1)
    good = good_model()
    for data in [good, *bad_models(), *cut(good, source, 40),
                 *changed(good, source, 40)]:
        yield MODEL, data
    good = good_safetensors()
    for data in [good, *bad_safetensors(), *cut(good, source, 40),
                 *changed(good, source, 80)]:
        yield MODEL, data
    for text in configs():
        yield CONFIG, text.encode()
    for tokens in vocabularies():
        yield VOCABULARY_JSON, json.dumps(tokens).encode()
        yield VOCABULARY_TXT, "\n".join(tokens).encode()
    for data in (b"[1]", b"{}", b"[\"\xff\"]", b"[\"a\",[]]"):
        yield VOCABULARY_JSON, data
    for data in (b"", b"\n", b"a\n\xff", b"a\0b", b"\n" * 50):
        yield VOCABULARY_TXT, data
    for text in ("", " the quick", "it's 12 'll", " \n\t\u00a0\u3000 x",
                 "\u00e9\u65e5\u0301\U0001f600", "a" * 3000):
        yield TEXT, text.encode()
    for _ in range(20):
        yield source.randrange(5), source.randbytes(source.randint(1, 200))


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    for kind, data in inputs():
        data = bytes([kind]) + data
        name = hashlib.sha1(data).hexdigest()
        with open(os.path.join(directory, name), "wb") as file:
            file.write(data)
    if len(sys.argv) > 2:
        open(sys.argv[2], "w", encoding="utf-8").close()


if __name__ == "__main__":
    main()
