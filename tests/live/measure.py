#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plays a recording of make_corpus.py live to the element and prints one line.

  measure.py CORPUS_FOLDER [LANG] [options of harness: --seconds N, --model M,
             --latency MS, --backend B, --speed N, --set NAME=VALUE]
             [--keep WORDS.tsv]
  measure.py CORPUS_FOLDER [LANG] --offline [--model M ...]

LANG is en unless told. Keys: wer and in_clip as score.py has them; start_* and
end_*: seconds from a word's start and end in the audio until it was queued on
the source pad; late: words queued after their start + latency; revised: words
pushed over time that was told; same: final messages say what the pad pushed;
lag_*: how far the source pad's time was behind the clock; rss_* in MB. Exits
with 1 where the pipeline fails. --offline plays as fast as the element takes
it, for comparison. --keep leaves start, end, word and when it was queued.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import wave
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ASR_BUILD", ROOT / "build"))
PYTHON = ROOT / "build" / "test-data" / "venv" / "bin" / "python"
SCORE = ROOT / "tests" / "accuracy" / "score.py"


def take(args, name):
    """Removes an option and its value from a list; returns the value."""
    if name not in args:
        return None
    at = args.index(name)
    value = args[at + 1]
    del args[at:at + 2]
    return value


def environment():
    return dict(os.environ, GST_PLUGIN_PATH=str(BUILD / "gst"),
                GST_REGISTRY=str(BUILD / "gst" / "registry.bin"))


def cut(corpus, seconds, folder):
    """The reference of the start, and where its last clip is over."""
    rows = [line for line in (corpus / "long.tsv").read_text(encoding="utf-8").splitlines(True)
            if not seconds or float(line.split("\t")[1]) <= seconds]
    if not rows:
        sys.exit(f"no clip of {corpus} ends within {seconds} s")
    (folder / "reference.tsv").write_text("".join(rows), encoding="utf-8")
    return float(rows[-1].split("\t")[1]) + 0.3 if seconds else None


def score(lang, folder):
    """score.py's keys, as one line."""
    lines = [line.split("\t")[:3] for line in
             (folder / "words.tsv").read_text(encoding="utf-8").splitlines()]
    if not lines:
        return "wer=1.0000"
    (folder / "spoken.tsv").write_text(
        "".join("\t".join(part).rstrip("\n") + "\n" for part in lines), encoding="utf-8")
    done = subprocess.run([PYTHON, SCORE, lang, folder / "reference.tsv", folder / "spoken.tsv"],
                          capture_output=True, text=True, check=True)
    keys = dict(re.findall(r"(\w+)=(\S+)", done.stdout))
    return " ".join(f"{k}={keys[k]}" for k in ("wer", "sub", "del", "ins", "in_clip", "backwards") if k in keys)


def play_offline(wav, folder, args):
    """Writes words.tsv as the harness does, without waiting."""
    properties = [f"{name}={value}" for name, value in (
        ("model", take(args, "--model")), ("backend", take(args, "--backend")),
        ("language-code", take(args, "--language") or "en")) if value]
    while "--set" in args:
        properties.append(take(args, "--set"))
    out = folder / "words.srt"
    done = subprocess.run(["gst-launch-1.0", "-q", "filesrc", f"location={wav}", "!", "wavparse", "!",
                           "asr", *properties, "!", "srtenc", "!", "filesink", f"location={out}"],
                          env=environment(), stdout=subprocess.DEVNULL)
    with open(folder / "words.tsv", "w", encoding="utf-8") as file:
        for cue in re.finditer(r"(\d+):(\d\d):(\d\d),(\d{3}) --> (\d+):(\d\d):(\d\d),(\d{3})\n(.*)",
                               out.read_text(encoding="utf-8")):
            t = [int(x) for x in cue.groups()[:8]]
            file.write(f"{t[0] * 3600 + t[1] * 60 + t[2] + t[3] / 1000:.3f}\t"
                       f"{t[4] * 3600 + t[5] * 60 + t[6] + t[7] / 1000:.3f}\t{cue[9]}\n")
    return done.returncode


def measure(corpus, lang, args):
    """Returns the line, or None where the pipeline failed."""
    args = list(args)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds, keep = take(args, "--seconds"), take(args, "--keep")
        end = cut(Path(corpus), float(seconds or 0), folder)
        wav = Path(corpus) / "long.wav"
        if "--offline" in args:
            if end:
                with wave.open(str(wav)) as whole, wave.open(f"{folder}/cut.wav", "wb") as part:
                    part.setparams(whole.getparams())
                    part.writeframes(whole.readframes(int(end * whole.getframerate())))
                wav = folder / "cut.wav"
            return score(lang, folder) if play_offline(wav, folder, args) == 0 else None
        if "--language" not in args:
            args += ["--language", lang]
        if end:
            args += ["--seconds", f"{end:.3f}"]
        done = subprocess.run([BUILD / "tests" / "live" / "harness", "--words", folder / "words.tsv",
                               *args, wav], env=environment(), stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            return None
        if keep:
            shutil.copy(folder / "words.tsv", keep)
        return f"{score(lang, folder)} {done.stdout.strip()}"


def main():
    args = sys.argv[1:]
    if not args or args[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if args else 2
    corpus = args.pop(0)
    lang = args.pop(0) if args and not args[0].startswith("-") else "en"
    line = measure(corpus, lang, args)
    if line is None:
        return 1
    print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
