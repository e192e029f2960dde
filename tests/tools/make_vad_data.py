#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what the tests of voice detector and gate expect.

tests/data/speech.s16: three seconds of speech (public domain, LibriVox)
tests/data/vad.tsv: probability of each frame of the signal that make_signal
  describes, from Silero's own network run by ONNX Runtime
tests/data/gate.tsv: a line is threshold, end threshold, least speech, least
  silence, pad, samples in the last frame, probabilities in thousandths, and
  the spans that Silero's own get_speech_timestamps_from_probs makes of them

Needs onnxruntime, numpy, the unpacked silero-vad 6.2.3 package, the clip of
Debian's pocketsphinx-testdata, and a longer recording for real probabilities.
"""
import argparse
import ast
import os
import random
import wave

import numpy
import onnxruntime

FRAME = 512
CONTEXT = 64


def read_wav(path, n=-1):
    with wave.open(path) as file:
        assert (file.getframerate(), file.getnchannels()) == (16000, 1)
        data = file.readframes(file.getnframes() if n < 0 else n)
    return numpy.frombuffer(data, "<i2")


def make_noise(n):
    """As test_vad.c makes it: a linear congruential generator's top bits."""
    state, out = 1, []
    for _ in range(n):
        state = (state * 1664525 + 1013904223) % 2 ** 32
        out.append((state >> 20) - 2048)
    return numpy.array(out, "<i2")


def make_signal(speech):
    """Speech, loud noise, nothing, faint speech, full-scale clicks, speech on
    noise; int16 values."""
    noise = make_noise(60 * FRAME)
    clicks = numpy.zeros(20 * FRAME, "<i2")
    clicks[::1000] = 32767
    clicks[500::1000] = -32768
    return numpy.concatenate([
        speech, noise, numpy.zeros(40 * FRAME, "<i2"), speech // 32, clicks,
        speech[:60 * FRAME] // 4 + noise // 8])


def get_probabilities(package, samples):
    session = onnxruntime.InferenceSession(
        os.path.join(package, "data", "silero_vad.onnx"),
        providers=["CPUExecutionProvider"])
    samples = samples.astype(numpy.float32) / 32768
    state = numpy.zeros((2, 1, 128), numpy.float32)
    context = numpy.zeros(CONTEXT, numpy.float32)
    out = []
    for i in range(0, len(samples) - FRAME + 1, FRAME):
        frame = samples[i:i + FRAME]
        p, state = session.run(None, {
            "input": numpy.concatenate([context, frame])[None],
            "state": state, "sr": numpy.array(16000, numpy.int64)})
        context = frame[-CONTEXT:]
        out.append(float(p[0, 0]))
    return out


def load_function(package, name):
    """One function of utils_vad.py, without the torch that the file needs."""
    with open(os.path.join(package, "utils_vad.py")) as file:
        tree = ast.parse(file.read())
    found = [node for node in tree.body
             if isinstance(node, ast.FunctionDef) and node.name == name]
    space = {"List": list}
    exec(compile(ast.Module(found, []), name, "exec"), space)
    return space[name]


def make_gate_cases(real):
    source = random.Random(11)
    defaults = (0.5, 0.35, 4000, 4800, 1600)
    yield defaults, 512, real
    yield (0.5, 0.35, 4000, 1600, 480), 300, real
    yield (0.6, 0.2, 16000, 512, 4096), 1, real
    for text in ["", "9", "0", "99999999", "999999990", "9999999990",
                 "0999999999900000000009999999999", "3999999993333333333333",
                 "99999999930000000000", "9999999994444444444444444444444",
                 "9999999990000000009", "99999999900000000000999999999"]:
        yield defaults, 512, [int(c) / 10 for c in text]
    for _ in range(300):
        probabilities = []
        while len(probabilities) < source.randint(1, 90):
            level = source.choice([0, 0.2, 0.34, 0.35, 0.45, 0.5, 0.51, 0.9])
            probabilities += [level] * source.randint(1, 14)
        threshold = source.choice([0.5, 0.5, 0.9, 0.45])
        yield ((threshold, source.choice([threshold - 0.1, 0.35]),
                source.choice([0, 512, 4000, 8000]),
                source.choice([0, 512, 1600, 4800, 9600]),
                source.choice([0, 96, 512, 1600, 4800])),
               source.choice([512, 1, 200]), probabilities)


def write_gate(path, function, real):
    with open(path, "w") as file:
        for params, n_last, probabilities in make_gate_cases(real):
            thousandths = [round(p * 1000) for p in probabilities]
            n = max(0, len(thousandths) - 1) * FRAME + (
                n_last if thousandths else 0)
            threshold, end, speech, silence, pad = params
            threshold, end = round(threshold, 3), round(end, 3)
            spans = function(
                [p / 1000 for p in thousandths], threshold=threshold,
                neg_threshold=end, min_speech_duration_ms=speech / 16,
                min_silence_duration_ms=silence / 16, speech_pad_ms=pad / 16,
                audio_length_samples=n)
            print(threshold, end, speech, silence, pad, n_last,
                  " ".join(map(str, thousandths)),
                  " ".join("%d-%d" % (s["start"], s["end"]) for s in spans),
                  sep="\t", file=file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--silero", required=True, help="silero_vad folder")
    parser.add_argument("--clip", default="/usr/share/pocketsphinx/test/data/"
                        "librivox/sense_and_sensibility_01_austen_64kb-0880"
                        ".wav")
    parser.add_argument("--recording", required=True,
                        help="16 kHz mono WAV of minutes, for the gate")
    args = parser.parse_args()
    data = os.path.join(os.path.dirname(__file__), "..", "data")

    speech = read_wav(args.clip)
    speech.tofile(os.path.join(data, "speech.s16"))
    with open(os.path.join(data, "vad.tsv"), "w") as file:
        for p in get_probabilities(args.silero, make_signal(speech)):
            print("%.6f" % p, file=file)
    real = get_probabilities(args.silero,
                             read_wav(args.recording, 120 * 16000))
    write_gate(os.path.join(data, "gate.tsv"), load_function(
        args.silero, "get_speech_timestamps_from_probs"), real)


if __name__ == "__main__":
    main()
