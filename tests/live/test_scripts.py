#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The live scripts as people run them, with a source that is live but no
microphone, and what they make of messages."""
import io
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "pipelines"), str(ROOT / "tests" / "accuracy")]
sys.dont_write_bytecode = True
import live  # noqa: E402
from gst_words import environment  # noqa: E402

SAMPLE = ROOT / "data" / "sample.flac"
FULL = os.environ.get("ASR_TESTS_FULL") == "1"
SAID = ("and mr john dashwood had then leisure to consider how much there might be prudently "
        "in his power to do for them he was not an ill disposed young man unless to be rather "
        "cold hearted and rather selfish is to be ill disposed").split()
# As gst_structure_to_string() of GStreamer 1.22 writes it.
MESSAGE = r'''Got message #7 from element "asr0" (element): asr, running-time=(guint64)7, words=(structure)< "word\,\ text\=\(string\)\"Stra\\303\\237e\\\,\\\ \\\"ja\\\"\"\,\ start\=\(guint64\)5\,\ confidence\=\(double\)0.5\;" >, text=(string)"Hello\,\ \"w\303\266rld\"\;\ x", final=(boolean)true;'''


def run(*command, timeout=120, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          timeout=timeout, stdin=subprocess.DEVNULL, **options)


def plain(text):
    return re.sub(r"[^a-z]", " ", text.lower()).split()


def script(name, *args, **options):
    return run(ROOT / "pipelines" / name, *args, **options)


def has_messages():
    return "post-messages" in run("gst-inspect-1.0", "asr", env=environment()).stdout


def distance(a, b):
    """Words to change between two lists."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


class Words(unittest.TestCase):
    """Messages become lines."""

    def write(self, *messages, is_terminal=False):
        out = io.StringIO()
        writer = live.Writer(out, is_terminal)
        for text, is_final, start in messages:
            writer.take("asr", {"text": text, "final": str(is_final).lower(),
                                "running-time": str(int(start * 1e9)), "duration": "500000000"})
        writer.finish()
        return out.getvalue()

    def test_message(self):
        name, fields = live.parse_message(MESSAGE)
        self.assertEqual(name, "asr")
        self.assertEqual(fields["text"], 'Hello, "wörld"; x')
        self.assertEqual((fields["final"], fields["running-time"]), ("true", "7"))
        self.assertIsNone(live.parse_message('Got message #1 from element "a" (eos): no message details'))
        name, fields = live.parse_message(
            'Got message #8 from element "asr0" (element): voice-activity, '
            'speaking=(boolean)true, running-time=(guint64)12;')
        self.assertEqual((name, fields["speaking"]), ("voice-activity", "true"))
        _, fields = live.parse_message(
            'Got message #9 from element "asr0" (element): asr, text=(string)"", final=(boolean)false;')
        self.assertEqual(fields["text"], "")

    def test_lines(self):
        self.assertEqual(self.write(("one", True, 0), ("two", False, .5), ("two", True, .5),
                                    ("far", True, 3), ("end.", True, 3.5), ("more", True, 4)),
                         "one two\nfar end.\nmore\n")
        self.assertEqual(self.write(("今天", True, 0), ("天气", True, .5)), "今天天气\n")
        self.assertEqual(self.write(), "")

    def test_terminal(self):
        out = self.write(("one", True, 0), ("two tree", False, .5), ("two", True, .5), is_terminal=True)
        self.assertIn(f"one {live.GREY}two tree{live.PLAIN}", out)
        # what a person sees last
        self.assertTrue(out.endswith(f"{live.CLEAR}one two\n"), repr(out))


class Scripts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        made = Path(cls.folder.name) / "clip.mkv"
        cls.clip = Path(cls.folder.name) / "a clip's name.mkv"
        done = run("gst-launch-1.0", "-q", *(
            f"matroskamux name=m ! filesink location={made} videotestsrc num-buffers=160 ! "
            "video/x-raw,width=160,height=90,framerate=10/1 ! vp8enc deadline=1 ! "
            "queue max-size-time=0 max-size-bytes=0 max-size-buffers=0 ! m. "
            f"filesrc location={SAMPLE} ! flacparse ! flacdec ! audioconvert ! vorbisenc ! m.").split())
        assert done.returncode == 0, done.stderr
        made.rename(cls.clip)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check_words(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        if has_messages():
            self.assertLessEqual(distance(plain(done.stdout), SAID), 6, done.stdout)

    def test_mic(self):
        self.check_words(script("mic", "--source", SAMPLE, "--model", "tiny.en", "--language", "en"))

    def test_live_captions(self):
        self.check_words(script("live-captions", "--picture", "test", "--source", SAMPLE, "--sink", "none",
                                "--model", "tiny.en", "--language", "en", "--seconds", "17"))

    def test_stream_captions(self):
        for sink in ("none", "terminal") if FULL else ("none",):
            with self.subTest(sink):
                began = time.monotonic()
                self.check_words(script("stream-captions", self.clip, "--sink", sink,
                                        "--model", "tiny.en", "--language", "en"))
                # at the speed of the stream, and no more than a latency behind
                self.assertGreater(time.monotonic() - began, 14)

    def test_shown_pipeline(self):
        shown = script("mic", "--source", SAMPLE, "--model", "tiny.en", "--print").stdout
        self.assertIn("gst-launch-1.0", shown)
        done = run("sh", "-c", shown)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_ends_when_told(self):
        began = time.monotonic()
        done = script("mic", "--source", "tone", "--seconds", "2", "--model", "tiny.en", "--language", "en")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertLess(time.monotonic() - began, 20)

    def test_terminal_gets_partial_text(self):
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [ROOT / "pipelines" / "mic", "--source", SAMPLE, "--model", "tiny.en", "--language", "en"],
            stdout=follower, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        os.close(follower)
        shown = b""
        try:
            while part := os.read(leader, 65536):
                shown += part
        except OSError:
            pass  # how Linux says that the other end is closed
        self.assertEqual(process.wait(30), 0)
        if has_messages():
            self.assertIn(live.GREY.encode(), shown)
            self.assertIn(live.CLEAR.encode(), shown)

    def test_refusals(self):
        env = {k: v for k, v in os.environ.items()
               if k not in ("DISPLAY", "WAYLAND_DISPLAY", "PULSE_SERVER", "XDG_RUNTIME_DIR")}
        cases = [(("stream-captions", "/nowhere"), "neither an address nor a file"),
                 (("mic", "--source", "/nowhere.wav"), "no file"),
                 (("live-captions", "--picture", "test", "--source", "tone"), "no display"),
                 (("stream-captions", self.clip), "no display"),
                 (("mic", "--source", "tone", "--model", "/nowhere"), "/nowhere"),
                 (("mic", "--source", "tone", "--model", "tiny.en", "--language", "klingon"), "klingon"),
                 (("mic", "--source", ROOT / "README.md", "--model", "tiny.en"), "")]
        if not list(Path("/dev").glob("snd/pcm*c")):
            cases.append((("mic",), "no microphone"))
        if not list(Path("/dev").glob("video*")):
            cases.append((("live-captions",), "no camera"))
        for command, words in cases:
            with self.subTest(command):
                done = script(*command, env=env)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_help(self):
        for name in ("mic", "live-captions", "stream-captions"):
            done = script(name, "--help")
            self.assertEqual(done.returncode, 0)
            for option in ("--model", "--language", "--latency", "--print"):
                self.assertIn(option, done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
