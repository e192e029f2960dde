#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Recordings with known text played live: what was promised holds. --full
plays ten minutes in real time, and an hour on a faster clock."""
import difflib
import os
import re
import statistics
import sys
import tempfile
import unittest
import wave
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "accuracy"))
sys.dont_write_bytecode = True
from gst_words import DATA  # noqa: E402
from measure import measure  # noqa: E402

FULL = os.environ.get("ASR_TESTS_FULL") == "1"
CORPUS = DATA / "en"
MODEL = ["--model", "tiny.en", "--backend", "cpu"]


def keys(*args, corpus=CORPUS):
    """What measure.py prints, as numbers by key."""
    line = measure(corpus, "en", [*MODEL, *args])
    assert line is not None, "the pipeline failed"
    print(line)
    return {k: float(v) for k, v in re.findall(r"(\w+)=(\S+)", line)}


def repeat(corpus, folder, times):
    """The recording again and again. Returns: seconds of one"""
    with wave.open(str(corpus / "long.wav")) as whole:
        params, audio = whole.getparams(), whole.readframes(whole.getnframes())
    seconds = params.nframes / params.framerate
    with wave.open(f"{folder}/long.wav", "wb") as out:
        out.setparams(params)
        for _ in range(times):
            out.writeframes(audio)
    rows = [line.split("\t") for line in (corpus / "long.tsv").read_text(encoding="utf-8").splitlines()]
    with open(f"{folder}/long.tsv", "w", encoding="utf-8") as out:
        for i in range(times):
            for start, end, text in rows:
                out.write(f"{float(start) + i * seconds:.3f}\t{float(end) + i * seconds:.3f}\t{text}\n")
    return seconds


@unittest.skipUnless(CORPUS.exists(), "tests/tools/prepare makes the recordings")
class Promise(unittest.TestCase):
    def check(self, found, latency_s):
        self.assertEqual((found["late"], found["revised"], found["same"], found["repeated"]), (0, 0, 1, 0))
        self.assertEqual(found["backwards"], 0)
        self.assertLess(found["lag_max"], latency_s + 0.1)
        self.assertLessEqual(found["end_p50"], 1.5)
        self.assertLessEqual(found["end_p95"], 2.5)
        self.assertGreaterEqual(found["in_clip"], 0.98)

    def test_one_minute(self):
        found = keys("--latency", "3000", "--seconds", "60")
        self.check(found, 3)
        self.assertGreater(found["partials"], 20)
        self.assertGreater(found["voice"], 10)
        # few words: a wrong one is most of a point
        offline = keys("--offline", "--seconds", "60")
        self.assertLess(found["wer"], offline["wer"] + 0.05)

    @unittest.skipUnless(FULL, "tests/run --full")
    def test_ten_minutes(self):
        found = keys("--latency", "3000")
        self.check(found, 3)
        offline = keys("--offline")
        self.assertLess(found["wer"], offline["wer"] + 0.02)
        self.assertLess(found["rss_end"], found["rss_minute"] + 20)

    @unittest.skipUnless(FULL, "tests/run --full")
    def test_one_hour(self):
        """Neither time nor memory drifts; a faster clock leaves less time to
        compute, so the promise is wide."""
        with tempfile.TemporaryDirectory() as folder:
            seconds = repeat(CORPUS, folder, 6)
            words = f"{folder}/words.tsv"
            found = keys("--latency", "30000", "--speed", "6", "--keep", words, corpus=Path(folder))
            rows = [line.split("\t") for line in Path(words).read_text(encoding="utf-8").splitlines()]
        copies = [[(float(r[0]) - i * seconds, r[2]) for r in rows
                   if i * seconds <= float(r[0]) < (i + 1) * seconds] for i in (0, 5)]
        same = difflib.SequenceMatcher(None, *([w for _, w in c] for c in copies), autojunk=False)
        drift = [copies[1][b + k][0] - copies[0][a + k][0]
                 for a, b, n in same.get_matching_blocks() for k in range(n)]
        print(f"drift {statistics.median(drift) * 1000:.1f} ms over {len(drift)} words")
        self.assertGreater(len(drift), len(copies[0]) * 0.8)
        self.assertLess(abs(statistics.median(drift)), 0.02)
        self.assertEqual((found["revised"], found["backwards"]), (0, 0))
        self.assertLess(found["rss_end"], found["rss_minute"] + 30)


if __name__ == "__main__":
    unittest.main(verbosity=2)
