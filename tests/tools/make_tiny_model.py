#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a complete Whisper model of two layers in CTranslate2's format, for
tests that need the whole way of the data but not what was said: sanitizers,
fuzzing, hours of audio. Needs nothing but Python.

The weights are random, but the decoder's position table pulls towards one
fixed script, so that every window of 30 s is decoded into the same few
phrases and ends by itself.
"""
import argparse
import json
import os
import random
import struct

HEAD = 64
N_AUDIO_CTX = 1500
N_TEXT_CTX = 448
N_MELS = 80
N_LAYERS = 2
N_TIMESTAMPS = 1501
F32, I8, I16, F16 = 0, 1, 2, 4

LANGUAGES = """
en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro
da hu ta no th ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu
is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am yi lo
uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su""".split()

WORDS = """ the| quick| brown| fox| jumps| over| lazy| dog| hello| world| this|
 is| a| test| of| and| it| was| in| water| café""".replace("\n", "").split("|")

# What each window says; the é comes as two tokens of one byte each.
SCRIPT = [0.0, " hello", " world", ",", 4.0, 4.0, " the", " quick", " brown",
          " fox", ".", 9.0, 9.0, " a", " test", " of", " caf", b"\xc3",
          b"\xa9", ".", 14.0]


def byte_characters():
    """GPT-2's printable character for each byte, in token order."""
    plain = [b for b in range(256)
             if 0x21 <= b <= 0x7e or 0xa1 <= b <= 0xac or b >= 0xae]
    other = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {
        b: chr(0x100 + i) for i, b in enumerate(other)}


def make_text_tokens():
    """Raw bytes by id: all single bytes, then each word's prefixes."""
    tokens = [bytes([b]) for b in byte_characters()]
    for word in WORDS:
        data = word.encode()
        for n in range(2, len(data) + 1):
            if data[:n] not in tokens:
                tokens.append(data[:n])
    return tokens


class Vocabulary:
    def __init__(self, least=0):
        self.text = make_text_tokens()
        self.n_said = len(self.text)
        self._add_special()
        # words that are never said, where size itself tells something
        n_more = least - len(self)
        if n_more > 0:
            self.text += [b" unsaid%d" % i for i in range(n_more)]
            self._add_special()

    def _add_special(self):
        self.eot = len(self.text)
        self.special = (
            ["<|endoftext|>", "<|startoftranscript|>"]
            + ["<|%s|>" % code for code in LANGUAGES]
            + ["<|translate|>", "<|transcribe|>", "<|startoflm|>",
               "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
            + ["<|%.2f|>" % (i * 0.02) for i in range(N_TIMESTAMPS)])

    def __len__(self):
        return self.eot + len(self.special)

    def find(self, token):
        if isinstance(token, float):
            return self.find_special("<|%.2f|>" % token)
        if isinstance(token, str):
            token = token.encode()
        return self.text.index(token)

    def find_special(self, spelling):
        return self.eot + self.special.index(spelling)

    def spellings(self):
        table = byte_characters()
        return ["".join(table[b] for b in t) for t in self.text] + self.special


class Weights:
    """Random tensors by name: (dims, values)."""

    def __init__(self, d, seed):
        self.random = random.Random(seed)
        self.tensors = {}
        self.d = d

    def uniform(self, name, dims, limit):
        n = 1
        for dim in dims:
            n *= dim
        self.tensors[name] = (dims, [
            (2.0 * self.random.random() - 1.0) * limit for _ in range(n)])

    def fill(self, name, dims, value):
        self.tensors[name] = (dims, [value] * dims[0])

    def norm(self, name):
        self.fill(name + "/gamma", [self.d], 1.0)
        self.fill(name + "/beta", [self.d], 0.0)

    def linear(self, name, n_out, n_in):
        self.uniform(name + "/weight", [n_out, n_in], 0.5 / n_in ** 0.5)
        self.uniform(name + "/bias", [n_out], 0.05)

    def layer(self, name, cross):
        d = self.d
        self.norm(name + "/self_attention/layer_norm")
        self.linear(name + "/self_attention/linear_0", 3 * d, d)
        self.linear(name + "/self_attention/linear_1", d, d)
        if cross:
            self.norm(name + "/attention/layer_norm")
            self.linear(name + "/attention/linear_0", d, d)
            self.linear(name + "/attention/linear_1", 2 * d, d)
            self.linear(name + "/attention/linear_2", d, d)
        self.norm(name + "/ffn/layer_norm")
        self.linear(name + "/ffn/linear_0", 4 * d, d)
        self.linear(name + "/ffn/linear_1", d, 4 * d)

    def conv(self, name, n_in):
        self.uniform(name + "/weight", [self.d, n_in, 3],
                     (3.0 / (3 * n_in)) ** 0.5)
        self.uniform(name + "/bias", [self.d], 0.05)


def script_ids(vocabulary):
    return [vocabulary.find(token) for token in SCRIPT]


def make_positions(weights, vocabulary):
    """Each position's row points at the embedding of what comes next."""
    d = weights.d
    embeddings = weights.tensors["decoder/embeddings/weight"][1]
    script = [vocabulary.find_special("<|en|>"),
              vocabulary.find_special("<|transcribe|>")]
    script += script_ids(vocabulary)
    script += [vocabulary.eot] * (N_TEXT_CTX - len(script))
    values = []
    for token in script:
        values += [4.0 * v for v in embeddings[token * d:(token + 1) * d]]
    weights.tensors["decoder/position_encodings/encodings"] = (
        [N_TEXT_CTX, d], values)


def make_weights(d, seed, vocabulary):
    weights = Weights(d, seed)
    weights.conv("encoder/conv1", N_MELS)
    weights.conv("encoder/conv2", d)
    weights.uniform("encoder/position_encodings/encodings", [N_AUDIO_CTX, d],
                    1.0)
    weights.norm("encoder/layer_norm")
    weights.norm("decoder/layer_norm")
    for i in range(N_LAYERS):
        weights.layer("encoder/layer_%d" % i, False)
        weights.layer("decoder/layer_%d" % i, True)
    n_unsaid = vocabulary.eot - vocabulary.n_said
    name = "decoder/embeddings/weight"
    weights.uniform(name, [len(vocabulary) - n_unsaid, d], 5.2 / d ** 0.5)
    values = weights.tensors[name][1]
    at = vocabulary.n_said * d
    values[at:at] = [0.0] * (n_unsaid * d)
    weights.tensors[name] = ([len(vocabulary), d], values)
    make_positions(weights, vocabulary)
    return weights.tensors


def pack_string(text):
    data = text.encode() + b"\0"
    return struct.pack("<H", len(data)) + data


def pack_variable(name, dims, type_id, data):
    return (pack_string(name) + struct.pack("<B", len(dims))
            + b"".join(struct.pack("<I", dim) for dim in dims)
            + struct.pack("<BI", type_id, len(data)) + data)


def pack_float(name, dims, values, type_id):
    code = "e" if type_id == F16 else "f"
    return {name: pack_variable(name, dims, type_id,
                                struct.pack("<%d%s" % (len(values), code),
                                            *values))}


def pack_int8(name, dims, values):
    n = len(values) // dims[0]
    scales, data = [], bytearray()
    for row in range(dims[0]):
        part = values[row * n:(row + 1) * n]
        scale = 127.0 / (max(abs(v) for v in part) or 127.0)
        scales.append(scale)
        data += struct.pack("<%db" % n, *(round(v * scale) for v in part))
    packed = pack_float(name + "_scale", [dims[0]], scales, F32)
    packed[name] = pack_variable(name, dims, I8, bytes(data))
    return packed


def pack_model(tensors, d, compute):
    scalars = {
        "decoder/activation": (I8, "<b", 3),
        "decoder/alibi": (I8, "<b", 0),
        "decoder/alignment_heads": (I16, "<h", 1),
        "decoder/alignment_layer": (I16, "<h", -1),
        "decoder/num_heads": (I16, "<h", d // HEAD),
        "decoder/pre_norm": (I8, "<b", 1),
        "decoder/scale_embeddings": (I8, "<b", 0),
        "decoder/start_from_zero_embedding": (I8, "<b", 0),
        "encoder/num_heads": (I16, "<h", d // HEAD),
    }
    packed = {name: pack_variable(name, [], type_id,
                                  struct.pack(code, value))
              for name, (type_id, code, value) in scalars.items()}
    for name, (dims, values) in tensors.items():
        if compute == "int8" and name.endswith("/weight"):
            packed |= pack_int8(name, dims, values)
        else:
            packed |= pack_float(name, dims, values,
                                 F16 if compute == "f16" else F32)
    aliases = [("decoder/projection/weight", "decoder/embeddings/weight")]
    return (struct.pack("<I", 6) + pack_string("WhisperSpec")
            + struct.pack("<II", 3, len(packed))
            + b"".join(packed[name] for name in sorted(packed))
            + struct.pack("<I", len(aliases))
            + b"".join(pack_string(a) + pack_string(b) for a, b in aliases))


def make_config(vocabulary, d):
    signs = [vocabulary.find(c) for c in '"#()*+/:;<=>@[\\]^_`{|}~']
    special = [vocabulary.find_special(s) for s in (
        "<|startoftranscript|>", "<|translate|>", "<|transcribe|>",
        "<|startoflm|>", "<|startofprev|>", "<|nospeech|>")]
    return {
        "alignment_heads": [[1, head] for head in range(d // HEAD)],
        "lang_ids": [vocabulary.eot + 2 + i for i in range(len(LANGUAGES))],
        "suppress_ids": sorted(signs) + sorted(special),
        "suppress_ids_begin": [vocabulary.find(" "), vocabulary.eot],
    }


def write(directory, name, data):
    with open(os.path.join(directory, name), "wb") as file:
        file.write(data)


def write_script(path, vocabulary):
    ids = script_ids(vocabulary)
    said = b"".join(vocabulary.text[i] for i in ids if i < vocabulary.eot)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"text": said.decode(), "ids": ids}, file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("directory")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--d", type=int, default=64, choices=(64, 128))
    parser.add_argument("--compute", default="f16",
                        choices=("f32", "f16", "int8"))
    parser.add_argument("--vocabulary", default="json",
                        choices=("json", "txt"))
    parser.add_argument("--min-vocabulary", type=int, default=0, metavar="N",
                        help="from 51865 tokens on a model counts as "
                        "multilingual")
    parser.add_argument("--script", metavar="FILE",
                        help="what is said, as JSON: text and token ids")
    args = parser.parse_args()
    vocabulary = Vocabulary(args.min_vocabulary)
    tensors = make_weights(args.d, args.seed, vocabulary)
    os.makedirs(args.directory, exist_ok=True)
    write(args.directory, "model.bin",
          pack_model(tensors, args.d, args.compute))
    write(args.directory, "config.json",
          json.dumps(make_config(vocabulary, args.d), indent=1).encode())
    spellings = vocabulary.spellings()
    if args.vocabulary == "json":
        text = json.dumps(spellings, ensure_ascii=False)
    else:
        text = "\n".join(spellings) + "\n"
    write(args.directory, "vocabulary." + args.vocabulary, text.encode())
    if args.script:
        write_script(args.script, vocabulary)


if __name__ == "__main__":
    main()
