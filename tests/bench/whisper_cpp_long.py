#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Transcribe one 16 kHz recording with whisper.cpp on the CPU and time it.   needs: pip install pywhispercpp

  whisper_cpp_long.py GGML_MODEL LANG FILE.wav OUT.tsv [threads=2]      GGML_MODEL: see ct2_to_ggml.py

Writes start_s, end_s, text a segment; prints audio seconds, wall seconds without model load, and their ratio.
"""
import resource, sys, time, wave

from pywhispercpp.model import Model

model, lang, path, out = sys.argv[1:5]
opt = dict(a.split("=") for a in sys.argv[5:])
m = Model(model, n_threads=int(opt.get("threads", 2)), print_progress=False, print_realtime=False, redirect_whispercpp_logs_to=None)
start = time.perf_counter()
segments = m.transcribe(path, language=lang)
wall = time.perf_counter() - start
with open(out, "w", encoding="utf-8") as f:
    for s in segments:
        print(f"{s.t0 / 100:.3f}\t{s.t1 / 100:.3f}\t{s.text.strip()}", file=f)
with wave.open(path) as w:
    audio = w.getnframes() / w.getframerate()
print(f"audio_s={audio:.1f} wall_s={wall:.2f} rtfx={audio / wall:.2f} peak_rss_mb={resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
