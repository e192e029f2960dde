#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The README's pipelines as they are printed, names of files and models that
are unusual, and what task and prompt do through the element."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import wave
from pathlib import Path

from gst_words import DATA, ROOT, environment, words

SAMPLE = ROOT / "data" / "sample.flac"
# Recordings in Spanish with known text; tests/run --full makes them.
SPANISH = DATA / "es" / "clips" / "vm-nobodyavail.wav"


def run(command, cwd=None, env=None):
    return subprocess.run(command, capture_output=True, cwd=cwd, env=env or environment(),
                          timeout=300, stdin=subprocess.DEVNULL, shell=isinstance(command, str))


def plain(text):
    return re.sub(r"[^a-z]", " ", text.lower()).split()


def spoken(properties):
    return " ".join(word for _, _, word in words(
        f"filesrc location={SAMPLE} ! flacparse ! flacdec", properties))


class Muxer(unittest.TestCase):
    """mp4mux takes no notice of gap events: after a word it waits for the next."""

    def test_empty_buffers(self):
        queue = "queue max-size-time=40000000000 max-size-buffers=0 max-size-bytes=0"
        with tempfile.TemporaryDirectory() as folder:
            run(f"gst-launch-1.0 -q filesrc location={SAMPLE} ! flacparse ! flacdec ! audioconvert ! "
                f"audioresample ! audio/x-raw,format=S16LE,rate=16000,channels=1 ! wavenc ! "
                f"filesink location={folder}/speech.wav")
            with wave.open(f"{folder}/speech.wav") as speech, wave.open(f"{folder}/in.wav", "wb") as out:
                out.setparams(speech.getparams())
                out.writeframes(speech.readframes(speech.getnframes()))
                out.writeframes(bytes(2 * 16000 * 120))
            done = run(
                f"gst-launch-1.0 -q filesrc location={folder}/in.wav ! wavparse ! tee name=t ! {queue} ! "
                f"audioconvert ! avenc_aac ! mp4mux name=m ! filesink location={folder}/out.mp4 "
                f"t. ! queue ! asr model=tiny.en empty-buffers=true ! queue ! m.subtitle_0")
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            text = run(f"gst-launch-1.0 -q filesrc location={folder}/out.mp4 ! qtdemux name=d "
                       "d.subtitle_0 ! fdsink").stdout
            for word in spoken("model=tiny.en").split():
                self.assertIn(word.encode(), text)


class Readme(unittest.TestCase):
    """README's pipelines run as they are printed."""

    @classmethod
    def setUpClass(cls):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        block = next(b for b in re.findall(r"```\n(.*?)```", text, re.S) if "filesrc" in b)
        cls.lines = block.strip().splitlines()
        cls.folder = tempfile.TemporaryDirectory()
        home = Path(cls.folder.name)
        (home / "data").symlink_to(ROOT / "data")
        made = run(f"gst-launch-1.0 -q mp4mux name=m ! filesink location={home}/talk.mp4 "
                   f"filesrc location={SAMPLE} ! flacparse ! flacdec ! audioconvert ! avenc_aac ! m.")
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_as_printed(self):
        self.assertEqual(len(self.lines), 3)
        for line in self.lines:
            with self.subTest(line):
                self.assertTrue(line.startswith("gst-launch-1.0 -q "))
                done = run(line, cwd=self.folder.name)
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                out = done.stdout.decode()
                if "location=talk.vtt" in line:
                    out = (Path(self.folder.name) / "talk.vtt").read_text(encoding="utf-8")
                    self.assertTrue(out.startswith("WEBVTT"))
                # fakesink dumps sixteen bytes a line
                if "dump=true" in line:
                    self.assertIn("Dashwoo", "".join(out.split()) + out)
                else:
                    self.assertIn("Dashwood", out)
                    self.assertIn("selfish", out)


class Names(unittest.TestCase):
    def test_file_name_that_is_not_utf8(self):
        with tempfile.TemporaryDirectory() as home:
            path = os.fsencode(home) + b"/caf\xe9.flac"
            shutil.copy(SAMPLE, path)
            script = os.fsencode(ROOT / "pipelines" / "transcribe")
            done = run([script, b"--format", b"txt", b"--model", b"tiny.en", b"--language", b"en", path])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"Dashwood", done.stdout)
            for args in ([b"--print", path], [path + b"x"]):
                done = run([script, *args])
                self.assertNotEqual(done.returncode, 0)
                self.assertNotIn(b"Traceback", done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_model_that_is_nowhere(self):
        """One clear sentence, whether the hub answers or can't be reached."""
        with tempfile.TemporaryDirectory() as home:
            done = run([ROOT / "setup", "--model", "nosuch"], env=dict(os.environ, XDG_DATA_HOME=home))
            self.assertNotEqual(done.returncode, 0)
            lines = done.stderr.decode().splitlines()
            self.assertEqual([line for line in lines if not line.startswith("setup: ")], [])
            self.assertIn('"nosuch"', lines[-1])
            self.assertEqual(os.listdir(f"{home}/gst-asr/models"), [])


class Properties(unittest.TestCase):
    # what faster-whisper 1.2 says of the sample with these prompts and base
    def test_prompt_spells(self):
        self.assertIn("Mr. John Dashwood", spoken("language-code=en"))
        self.assertIn("Mister John Dashwode", spoken('language-code=en prompt="Mister John Dashwode"'))

    @unittest.skipUnless(SPANISH.exists(), "tests/run --full makes the Spanish recordings")
    def test_translate(self):
        source = f"filesrc location={SPANISH} ! wavparse"
        for code in ("es", "auto"):
            english = words(source, f"task=translate language-code={code}")
            # "En este momento nadie esta libre para responder a su llamada"
            text = plain(" ".join(word for _, _, word in english))
            for word in ("at", "this", "moment", "free", "call"):
                self.assertIn(word, text)
            self.assertNotIn("momento", text)
            times = [t for start, end, _ in english for t in (start, end)]
            self.assertEqual(times, sorted(times))
            self.assertLess(times[-1], 5.6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
