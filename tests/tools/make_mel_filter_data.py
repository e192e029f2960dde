#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/mel_filters.tsv: the weights of the mel filter bank that
are not 0, as transformers makes it for Whisper, with 80 and 128 bands. Needs
transformers; the tests only read the file."""
import os

from transformers.audio_utils import mel_filter_bank


def main():
    path = os.path.join(os.path.dirname(__file__), "..", "data",
                        "mel_filters.tsv")
    with open(path, "w") as file:
        for n_mels in 80, 128:
            bank = mel_filter_bank(
                num_frequency_bins=201, num_mel_filters=n_mels,
                min_frequency=0.0, max_frequency=8000.0, sampling_rate=16000,
                norm="slaney", mel_scale="slaney")
            for band in range(n_mels):
                for bin in range(201):
                    if bank[bin, band] > 0:
                        print(n_mels, band, bin, "%.12g" % bank[bin, band],
                              sep="\t", file=file)


if __name__ == "__main__":
    main()
