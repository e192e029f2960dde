#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Build a speech corpus with known text from Debian's asterisk-core-sounds packages (CC-BY-SA 3.0, real voices, 16 kHz G.722).

  make_corpus.py LANG OUT [--minutes M] [--seed S] [--limit N]     LANG: en es

Writes OUT/clips/*.wav (16 kHz mono S16), OUT/clips.tsv (file, seconds, text), and one long recording OUT/long.wav of M minutes made of
the clips with 0.3 to 2 s of faint noise between them, with OUT/long.tsv (start_s, end_s, text) saying where each clip stands in it.
Only clips with at least MIN_WORDS words are taken. Needs apt-get, dpkg and ffmpeg; installs nothing.
"""
import argparse, array, gzip, os, random, re, subprocess, sys, tempfile, wave
from pathlib import Path

MIN_WORDS, RATE = 4, 16000


def sources(lang, work):
    """Download and unpack both packages of a language; return {name: text} and {name: path of the .g722}."""
    names = [f"asterisk-core-sounds-{lang}-g722", f"asterisk-core-sounds-{lang}"]
    subprocess.run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *names], cwd=work, check=True, stdout=subprocess.DEVNULL)
    for deb in sorted(Path(work).glob("*.deb")):
        subprocess.run(["dpkg", "-x", deb, work], check=True)
    text = {}
    for line in gzip.open(next(Path(work).rglob(f"core-sounds-{lang}.txt.gz")), "rt", encoding="utf-8", errors="replace"):
        name, sep, words = line.strip().partition(": ")
        if sep and not line.startswith(";"):
            text[name.strip()] = words.removeprefix(name + ": ").strip()
    sound = {}
    for path in Path(work).rglob("*.g722"):
        rel = path.relative_to(next(p for p in path.parents if p.parent.name == "sounds"))
        sound[str(rel.with_suffix(""))] = path
    return text, sound


def decode(path):
    pcm = subprocess.run(["ffmpeg", "-v", "error", "-f", "g722", "-i", path, "-ar", str(RATE), "-ac", "1", "-f", "s16le", "-"],
                         check=True, stdout=subprocess.PIPE).stdout
    return array.array("h", pcm)


def write(path, pcm):
    with wave.open(str(path), "wb") as w:
        w.setparams((1, 2, RATE, 0, "NONE", ""))
        w.writeframes(pcm.tobytes())


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("lang", choices=["en", "es"])
    ap.add_argument("out", type=Path)
    ap.add_argument("--minutes", type=float, default=10)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--limit", type=int, default=100, help="clips in clips.tsv")
    a = ap.parse_args()
    rng = random.Random(a.seed)
    (a.out / "clips").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        text, sound = sources(a.lang, work)
        usable = [n for n in sorted(text) if n in sound and len(text[n].split()) >= MIN_WORDS and not re.search(r"[\[\]<>(){}]|beep|tone", text[n], re.I)]
        rng.shuffle(usable)
        pcm = {n: decode(sound[n]) for n in usable}
    with open(a.out / "clips.tsv", "w") as tsv:
        for n in usable[: a.limit]:
            path = a.out / "clips" / (n.replace("/", "_") + ".wav")
            write(path, pcm[n])
            print(path.relative_to(a.out), f"{len(pcm[n]) / RATE:.3f}", text[n], sep="\t", file=tsv)
    out, want = array.array("h"), int(a.minutes * 60 * RATE)
    with open(a.out / "long.tsv", "w") as tsv:
        for n in usable:
            if len(out) >= want:
                break
            start = len(out)
            out.extend(pcm[n])
            print(f"{start / RATE:.3f}", f"{len(out) / RATE:.3f}", text[n], sep="\t", file=tsv)
            out.extend(rng.randint(-3, 3) for _ in range(int(rng.uniform(0.3, 2.0) * RATE)))
    write(a.out / "long.wav", out)
    print(f"{a.lang}: {min(a.limit, len(usable))} clips of {len(usable)} usable, long recording {len(out) / RATE / 60:.1f} min", file=sys.stderr)


if __name__ == "__main__":
    main()
