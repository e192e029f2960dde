#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/encode.tsv: strings and the token ids that Hugging Face's
tokenizers gives them, for base and tiny.en. Needs that library and the two
models; the tests only read the file.

A line is model, string (bytes outside printable ASCII and the backslash as
\\ooo), ids. base's published list of merges lacks its first pair (space, t);
it is put back.
"""
import argparse
import json
import os
import random

from tokenizers import Tokenizer

STRINGS = [
    "", " ", "  ", "\n", "\t", "a", " a", "  a", "a ", "a  ", " \n a", "\r\n",
    "Hello, world!", " The quick brown fox jumps over the lazy dog.",
    "it's we're I'll they've I'm he'd don't", "'s 's's '' '", "IT'S WE'RE",
    "'sometimes 'there 'real", "rock 'n' roll", "1234567890 3.14 1,000,000",
    "2nd 3rd 10th a1b2c3", "12:30 p.m. $5.99 50% #1 @home",
    " ¿Qué tal? ¡Muy bien, señor Muñoz!", "El niño comió piñas en Cádiz.",
    "Привет, как дела? Всё хорошо.", "Съешь же ещё этих мягких булок",
    "日本語の文章です。", "東京は日本の首都です、と彼は言った。",
    "今天天气很好，我们去公园吧。", "안녕하세요 세계", "สวัสดีชาวโลก",
    "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "Γειά σου Κόσμε",
    "Straße Äpfel Öl über", "Œuvre naïve façade à côté", "Łódź żółw gęś",
    "İstanbul ığdır şeker", "Tiếng Việt đẹp lắm", "ﬁne ﬂow ǅungla",
    "🎉", " 🎉🎊", "👩‍👩‍👧‍👦 family", "a🙂b 🙂", "✈️ ❤️",
    "x² y³ ½ ¼ Ⅷ ⅷ ① ㊿", "１２３ ＡＢＣ ａｂｃ", "٣٤٥ ४५६",
    "e\u0301 n\u0303 a\u0300\u0301", "\u00a0", "a\u00a0b", " \u00a0 b",
    "\u3000全角\u3000空白", "a\u2028b\u2029c", "a\u0085b", "\u200bzero\u200d",
    "a\x0bb\x0cc", "\x1c\x1d\x1e\x1f", "\x01\x7f", "\ufeffbom", "\ufffd",
    "tabs\t\tand\n\nlines\n \n  end", "   leading", "trailing   ",
    "a   b    c", "...!!!???", " -- --- -( [[ ]] ((( )))", "♪♪ ♪♪♪ ♩ ♫ 「」『』",
    "http://example.org/path?x=1&y=2", "foo_bar fooBar FOO-BAR",
    "def f(x):\n    return x ** 2\n", "<|endoftext", "|>", "\\ \" / `",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "hahahahahahaha",
    "Pneumonoultramicroscopicsilicovolcanoconiosis", "ﷺ ﷽", "𝔘𝔫𝔦 𝟙𝟚𝟛",
    "Mr. Quilter is the apostle of the middle classes,",
]

ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCXYZ", "0123456789", "    ", " \t\n\r",
    "'", "'s't're've'm'll'd", ".,;:!?-()[]{}\"#$%&*+/<=>@\\^_`|~",
    "áéíóúñüçàèßæøåö", "абвгдежзийклмнопрстуфхцчшщьыэюя", "あいうえお漢字語",
    "😀🎵🚀", "²½Ⅳ٣", "\u00a0\u3000\u2003", "\u0301\u0303", "的一是不了",
]


def make_random(seed, n):
    source = random.Random(seed)
    strings = []
    for _ in range(n):
        text = ""
        for _ in range(source.randint(1, 8)):
            alphabet = source.choice(ALPHABETS)
            text += "".join(source.choice(alphabet)
                            for _ in range(source.randint(1, 5)))
        strings.append(text)
    return strings


def escape(text):
    return "".join(chr(b) if 0x20 <= b <= 0x7e and b != 0x5c else
                   "\\%03o" % b for b in text.encode())


def load(path):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    merges = data["model"]["merges"]
    if merges[0] != "Ġ t":
        merges.insert(0, "Ġ t")
    # Texts that look like special tokens are none here.
    data["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", help="directory with base and tiny.en")
    args = parser.parse_args()
    for model in ("base", "tiny.en"):
        tokenizer = load(os.path.join(args.models, model, "tokenizer.json"))
        for text in STRINGS + make_random(20, 120):
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            print(model, escape(text), " ".join(map(str, ids)), sep="\t")


if __name__ == "__main__":
    main()
