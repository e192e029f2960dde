#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/words.json: tokens with frames, and the words and times
that faster-whisper's own functions make of them (its tokenizer's splitting,
find_alignment and add_word_timestamps, with an alignment that is made here
instead of by a model). Needs faster-whisper, tokenizers and the tokenizer.json
of a multilingual Whisper model; the tests only read the file.

Cases in which its functions lose tokens (bytes that are no text confuse its
count of characters) are written without expected words.
"""
import argparse
import copy
import json
import os
import random
import types

import numpy
import tokenizers
from faster_whisper.tokenizer import Tokenizer
from faster_whisper.transcribe import WhisperModel

PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"

TEXTS = {
    "en": [
        " He was not an ill-disposed young man.",
        " \"Well,\" she said, \"that's it...\" And (then) she left!",
        " It cost $5.99 - or 10% off - didn't it?", " rock 'n' roll",
        " Mr. Smith's e-mail: a_b@example.com; see [1], {2}.",
        " Wait... what?! No -- never; \"yes\"", ".", " ...", " -", " \" ' (",
        " So… he said “hello” and ‘bye’.", " 3.14 1,000,000 12:30", "word",
        " one  two   three ", " (a) [b] {c} 'd' \"e\" -f -- g",
        " 🎉 party 🎊🎊 time 👩‍👩‍👧‍👦 family", " Hello,world!Bye", " a.b.c",
        " naïve café Œuvre ﬁne", " you're I'll we've o'clock 'tis",
    ],
    "es": [" ¿Qué tal? ¡Muy bien, señor Muñoz!", " -¿Sí? -No... -¡Ay!",
           " El niño comió piñas, \"dijo\" (ella)."],
    "de": [" Straße, „Äpfel“ und Öl über den Weg – ja!"],
    "ru": [" Привет, как дела? Всё хорошо... «Да», сказал он."],
    "fr": [" C'est l'été : « bonjour », dit-il ! Qu'est-ce que c'est ?"],
    "hi": [" नमस्ते दुनिया। यह हिन्दी है।"],
    "ko": [" 안녕하세요, 세계! \"좋아요.\""],
    "ar": [" مرحبا بالعالم، كيف حالك؟"],
    "ja": ["日本語の文章です。", "東京は、日本の首都です、と彼は言った。「はい！」", "𠮷野家で🍣を食べた？"],
    "zh": ["今天天气很好，我们去公园吧。", "“你好”（他说）：“再见！”"],
    "th": ["สวัสดีชาวโลก ฉันชื่อนิด", "ไปไหนมา?"],
    "yue": ["你食咗飯未呀？我食咗喇。"], "my": ["မင်္ဂလာပါ။ ကျေးဇူးတင်ပါတယ်"],
    "lo": ["ສະບາຍດີ ຂອບໃຈ"],
}


def get_byte_table():
    """GPT-2's printable stand-ins for bytes, by character."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(b): b for b in plain}
    others = [b for b in range(256) if b not in plain]
    table.update({chr(256 + i): b for i, b in enumerate(others)})
    return table


class Model:
    """What WhisperModel's functions need of their object."""
    frames_per_second = 100
    tokens_per_second = 50

    def __init__(self, frames, probabilities):
        self.result = types.SimpleNamespace(
            text_token_probs=probabilities, alignments=list(enumerate(frames)))
        self.model = types.SimpleNamespace(
            align=lambda *args, **kwargs: [self.result])
        self.kept = self.raw = None

    def find_alignment(self, *args):
        self.kept = WhisperModel.find_alignment(self, *args)
        self.raw = copy.deepcopy(self.kept[0])
        return self.kept


def make_frames(source, n):
    """First frames of n tokens, and the end."""
    kind, at, frames = source.randint(0, 3), source.randint(0, 200), []
    for _ in range(n + 1):
        frames.append(at)
        if kind == 0:
            at += source.randint(0, 12)
        elif source.random() < 0.15:
            at += source.randint(30, 200)
        else:
            at += source.choice([0, 0, 1, 5, 10, 17])
    return [min(f, 1500) for f in frames]


def make_segments(source, ids, frames, offset):
    """Cuts the tokens into segments with time marks near their words."""
    cuts = sorted(source.sample(range(len(ids) + 1),
                                min(source.randint(0, 3), len(ids))))
    segments = []
    for a, b in zip([0] + cuts, cuts + [len(ids)]):
        start = frames[a] / 50 + source.choice([0, 0, -1, -0.3, 0.4, 1.2, 3])
        end = frames[b] / 50 + source.choice([0, 0, 1, -0.3, 0.4, -1.2, -3])
        segments.append({"seek": round(offset * 100), "tokens": ids[a:b],
                         "start": round(offset + max(0, start), 2),
                         "end": round(offset + max(0, end), 2)})
    return segments


def get_words(alignment):
    first, words = 0, []
    for word in alignment:
        if word["word"]:
            words.append([word["word"], first, len(word["tokens"]),
                          round(float(word["start"]), 6),
                          round(float(word["end"]), 6),
                          round(float(word["probability"]), 6)])
        first += len(word["tokens"])
    return words, first


def get_typical(alignment):
    lengths = numpy.array([w["end"] - w["start"] for w in alignment])
    lengths = lengths[lengths.nonzero()]
    return min(0.7, float(numpy.median(lengths))) if len(lengths) else 0.0


def make_case(source, tokenizer, language, ids):
    frames = make_frames(source, len(ids))
    probabilities = [round(source.random(), 3) for _ in ids]
    offset = source.choice([0, 0, 7.53, 600.02])
    last_speech = source.choice([0, offset, max(0, offset - 20)])
    segments = make_segments(source, ids, frames, offset)
    case = {"language": language, "ids": ids, "frames": frames,
            "probabilities": probabilities, "offset": offset,
            "last_speech": last_speech,
            "segments": [[s["start"], s["end"], len(s["tokens"])]
                         for s in segments]}
    wrapped = Tokenizer(tokenizer, True, task="transcribe", language=language)
    model = Model(frames, probabilities)
    try:
        last = WhisperModel.add_word_timestamps(
            model, [segments], wrapped, None, 3000, PREPENDED, APPENDED,
            last_speech)
    except IndexError:
        return case
    words, n_used = get_words(model.kept[0])
    if n_used != len(ids) or any(not w[2] for w in words):
        return case
    case.update(
        words=words, typical=round(get_typical(model.raw), 6),
        fitted=[[round(s["start"], 6), round(s["end"], 6),
                 [[round(w["start"], 6), round(w["end"], 6)]
                  for w in s["words"]]] for s in segments],
        last_after=round(last, 6))
    return case


def make_ids(source, tokenizer, language):
    """Real text, cut and disturbed in a part of the cases."""
    texts = source.choices(TEXTS[language], k=source.randint(1, 3))
    ids = tokenizer.encode("".join(texts), add_special_tokens=False).ids
    kind = source.randint(0, 4)
    if kind == 1:
        begin = source.randint(0, len(ids) - 1)
        ids = ids[begin:begin + source.randint(1, 30)]
    elif kind == 2:
        for _ in range(source.randint(1, 4)):
            ids.insert(source.randint(0, len(ids)), source.choice(
                [220, 12, 1, 6, 13, 11, 7, 8, 366, 526, 532, 553, 1399]))
    elif kind == 3 and source.random() < 0.5:
        for _ in range(source.randint(1, 3)):
            ids.insert(source.randint(0, len(ids)),
                       source.choice([source.randint(0, 50255),
                                      source.randint(94, 255)]))
    return ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tokenizer", help="tokenizer.json")
    args = parser.parse_args()
    tokenizer = tokenizers.Tokenizer.from_file(args.tokenizer)
    source = random.Random(8)
    cases = [make_case(source, tokenizer, language,
                       tokenizer.encode(text, add_special_tokens=False).ids)
             for language, texts in TEXTS.items() for text in texts]
    cases += [make_case(source, tokenizer, language,
                        make_ids(source, tokenizer, language))
              for _ in range(240)
              for language in [source.choice(list(TEXTS))]]
    table = get_byte_table()
    names = {i: name for name, i in tokenizer.get_vocab().items()}
    used = sorted({i for case in cases for i in case["ids"]})
    tokens = {str(i): bytes(table[c] for c in names[i]).hex() for i in used}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..",
                        "data", "words.json")
    with open(path, "w") as file:
        file.write('{"tokens": %s,\n"cases": [\n%s\n]}\n' % (
            json.dumps(tokens), ",\n".join(
                json.dumps(case, ensure_ascii=False, separators=(",", ":"))
                for case in cases)))
    print(len(cases), "cases,", sum("words" in c for c in cases),
          "with words")


if __name__ == "__main__":
    main()
