#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Transcribe one recording with faster-whisper on the CPU and time it.   needs: pip install faster-whisper

  faster_whisper_long.py MODEL_DIR LANG FILE OUT.tsv [compute_type=int8] [beam=1] [threads=2] [words=1]

Writes start_s, end_s, word a line (segments when words=0); prints audio seconds, wall seconds without model load, and their ratio.
"""
import resource, sys, time

from faster_whisper import WhisperModel

model_dir, lang, path, out = sys.argv[1:5]
opt = dict(a.split("=") for a in sys.argv[5:])
words = opt.get("words", "1") == "1"
model = WhisperModel(model_dir, device="cpu", compute_type=opt.get("compute_type", "int8"), cpu_threads=int(opt.get("threads", 2)))
start = time.perf_counter()
segments, info = model.transcribe(path, language=lang, beam_size=int(opt.get("beam", 1)), word_timestamps=words)
rows = []
for s in segments:
    rows += [(w.start, w.end, w.word) for w in s.words] if words else [(s.start, s.end, s.text)]
wall = time.perf_counter() - start
with open(out, "w", encoding="utf-8") as f:
    for a, b, text in rows:
        print(f"{a:.3f}\t{b:.3f}\t{text.strip()}", file=f)
print(f"audio_s={info.duration:.1f} wall_s={wall:.2f} rtfx={info.duration / wall:.2f} peak_rss_mb={resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
