#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/mel_values.tsv: frames of the log-mel that transformers'
WhisperFeatureExtractor makes of stretches of tests/data/speech.s16, repeated
up to the length. Needs transformers; the tests only read the file.

A line is n_mels, n_samples, frame, then n_mels values.
"""
import os

import numpy
from transformers import WhisperFeatureExtractor

LENGTHS = [0, 1, 200, 399, 16000, 47840, 480000]
FRAMES = [0, 1, 2, 3, 50, 98, 99, 100, 101, 102, 298, 299, 300, 301, 1500,
          2998, 2999]


def main():
    data = os.path.join(os.path.dirname(__file__), "..", "data")
    speech = numpy.fromfile(os.path.join(data, "speech.s16"), "<i2")
    speech = speech.astype(numpy.float32) / 32768
    with open(os.path.join(data, "mel_values.tsv"), "w") as file:
        for n_mels in 80, 128:
            extractor = WhisperFeatureExtractor(feature_size=n_mels)
            for n_samples in LENGTHS:
                samples = numpy.zeros(480000, numpy.float32)
                samples[:n_samples] = numpy.resize(speech, n_samples)
                mel = extractor(samples, sampling_rate=16000,
                                return_tensors="np").input_features[0]
                assert mel.shape == (n_mels, 3000)
                for frame in FRAMES:
                    if 5 < frame < 2998 and n_samples < 400:
                        continue
                    print(n_mels, n_samples, frame,
                          *("%.5f" % x for x in mel[:, frame]), sep="\t",
                          file=file)


if __name__ == "__main__":
    main()
