#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The scripts that people run, as they are, and hours of audio."""
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from gst_words import BUILD, ROOT, environment

FULL = os.environ.get("ASR_TESTS_FULL") == "1"
SAMPLE = ROOT / "data" / "sample.flac"
SAID = ("and mr john dashwood had then leisure to consider how much there might be prudently "
        "in his power to do for them he was not an ill disposed young man unless to be rather "
        "cold hearted and rather selfish is to be ill disposed").split()


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          timeout=300, stdin=subprocess.DEVNULL, **options)


def plain(text):
    return re.sub(r"[^a-z]", " ", text.lower()).split()


def launch(pipeline):
    done = run("gst-launch-1.0", "-q", *pipeline.split(), env=environment())
    assert done.returncode == 0, done.stderr


class Pipelines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.clip = Path(cls.folder.name) / "clip with 'signs'.mkv"
        cls.video = Path(cls.folder.name) / "video.mkv"
        launch(f"matroskamux name=m ! filesink location={cls.video} "
               "videotestsrc num-buffers=160 ! video/x-raw,width=160,height=90,framerate=10/1 ! "
               "vp8enc deadline=1 ! queue max-size-time=0 max-size-bytes=0 max-size-buffers=0 ! m. "
               f"filesrc location={SAMPLE} ! flacparse ! flacdec ! audioconvert ! vorbisenc ! m.")
        cls.clip.write_bytes(cls.video.read_bytes())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def transcribe(self, *args):
        return run(ROOT / "pipelines" / "transcribe", *args)

    def test_formats(self):
        text = self.transcribe("--format", "txt", "--language", "en")
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertEqual(plain(text.stdout), SAID)
        # no code at all is "auto", and never the next word of the pipeline
        text = self.transcribe("--format", "txt", "--language", "")
        self.assertEqual(plain(text.stdout), SAID, text.stderr)
        rows = [r.split("\t") for r in self.transcribe("--format", "tsv").stdout.splitlines()]
        self.assertEqual([w for r in rows for w in plain(r[2])], SAID)
        self.assertTrue(all(float(a) < float(b) for a, b, _ in rows))
        srt = self.transcribe(self.clip).stdout
        self.assertRegex(srt, r"^1\n00:00:00,\d{3} --> 00:00:0\d,\d{3}\n")
        vtt = self.transcribe(self.clip, "--format", "vtt").stdout
        self.assertRegex(vtt, r"^WEBVTT\n")

    def test_shown_pipeline_runs(self):
        shown = self.transcribe("--print", self.clip).stdout
        out = run("sh", "-c", shown).stdout
        self.assertIn("Dashwood", out)

    def test_refusals(self):
        empty = Path(self.folder.name) / "empty.wav"
        empty.write_bytes(b"")
        silent = Path(self.folder.name) / "silent.mkv"
        launch(f"videotestsrc num-buffers=5 ! vp8enc ! matroskamux ! filesink location={silent}")
        for args, words in ((["/nowhere.wav"], "no file"), ([empty], "empty"),
                            ([silent], "no audio"), ([ROOT / "README.md"], "text file"),
                            ([SAMPLE, "--language", "klingon"], "klingon"),
                            ([SAMPLE, "--model", "/nowhere"], "/nowhere")):
            done = self.transcribe(*args)
            self.assertNotEqual(done.returncode, 0, args)
            self.assertIn(words, done.stderr, args)
            self.assertNotIn("Traceback", done.stderr)

    def test_caption_video(self):
        out = Path(self.folder.name) / "captioned.mkv"
        done = run(ROOT / "pipelines" / "caption-video", self.video, out, "tiny.en")
        self.assertEqual(done.returncode, 0, done.stderr)
        length = run("ffprobe", "-v", "error", "-show_entries", "format=duration", "-of",
                     "csv=p=0", out).stdout
        self.assertAlmostEqual(float(length), 16, delta=1)

    def test_subtitle_track(self):
        out = Path(self.folder.name) / "subtitled.mkv"
        done = run(ROOT / "pipelines" / "subtitle-track", self.video, out, "base")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = run("gst-launch-1.0", "-q", "filesrc", f"location={out}", "!", "matroskademux",
                   "name=d", "d.subtitle_0", "!", "fdsink").stdout
        # phrases come without anything between them
        self.assertEqual("".join(plain(text)), "".join(SAID))

    def test_odd_names(self):
        clip = Path(self.folder.name) / 'a "b" \\c.mkv'
        clip.write_bytes(self.video.read_bytes())
        out = Path(self.folder.name) / 'out "b" \\c.mkv'
        done = run(ROOT / "pipelines" / "subtitle-track", clip, out, "tiny.en")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(out.stat().st_size, 0)

    def test_interrupted(self):
        """Half a recording never takes the place of a whole one."""
        with tempfile.TemporaryDirectory() as folder:
            long, out = Path(folder) / "long.mkv", Path(folder) / "out.mkv"
            made = run("ffmpeg", "-v", "error", "-stream_loop", 20, "-i", self.video,
                       "-c", "copy", long)
            self.assertEqual(made.returncode, 0, made.stderr)
            out.write_text("older")
            script = subprocess.Popen(
                [ROOT / "pipelines" / "caption-video", long, out, "tiny.en"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                deadline = time.monotonic() + 60
                while not os.path.exists(f"{out}.part") and time.monotonic() < deadline:
                    time.sleep(0.01)
                # earlier it dies of the signal; later it ends by itself with 0
                time.sleep(1)
                self.assertIsNone(script.poll())
                os.killpg(script.pid, signal.SIGINT)
                self.assertNotEqual(script.wait(60), 0)
            finally:
                script.kill()
                script.wait()
            self.assertEqual(out.read_text(), "older")
            self.assertEqual(sorted(os.listdir(folder)), ["long.mkv", "out.mkv"])

    def test_nothing_is_blacklisted(self):
        out = run("gst-inspect-1.0", "-b", env=environment()).stdout
        self.assertIn("Total count: 0", out)
        page = run("gst-inspect-1.0", "asr", env=environment()).stdout
        for name in ("Audio/Text/Filter", "model", "language-code", "granularity", "prompt", "vad",
                     "skip-copy-output-to-cpu-for-method", "stats", "changeable only in NULL or READY"):
            self.assertIn(name, page)

    def test_broken_download(self):
        """A model that can't be had leaves nothing behind."""
        with tempfile.TemporaryDirectory() as home:
            env = dict(os.environ, XDG_DATA_HOME=home, PIP_NO_INDEX="1")
            done = run(ROOT / "setup", "--model", "tiny.en", env=env)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(os.listdir(f"{home}/gst-asr/models"), [])
            done = run(ROOT / "setup", "--model", "../evil", env=env)
            self.assertIn("no name of a model", done.stderr)

    @unittest.skipUnless(FULL, "tests/run --full")
    def test_two_hours(self):
        """Memory after two hours is that after ten minutes."""
        peaks = []
        for minutes in (10, 120):
            buffers = minutes * 60 * 16000 // 1024
            process = subprocess.Popen(
                ["gst-launch-1.0", "-q", "audiotestsrc", "wave=white-noise",
                 f"num-buffers={buffers}", "!", "audio/x-raw,rate=16000,channels=1", "!", "asr",
                 f"model={BUILD / 'tests' / 'tools'}", "vad=false", "language-code=en",
                 "backend=cpu", "!", "fakesink"], env=environment())
            _, status, usage = os.wait4(process.pid, 0)
            self.assertEqual(status, 0)
            peaks.append(usage.ru_maxrss / 1024)
        print(f"peak memory: {peaks[0]:.0f} MB after ten minutes, {peaks[1]:.0f} after two hours")
        self.assertLess(peaks[1], peaks[0] + 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
