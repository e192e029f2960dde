#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Score a transcript against a corpus made by make_corpus.py.

  score.py LANG CORPUS/long.tsv HYPOTHESIS      needs: pip install jiwer whisper-normalizer num2words

HYPOTHESIS is plain text, or a TSV with one word (or phrase) a line: start_s, end_s, text. Prints the word error rate after the Whisper text
normaliser (other languages than English: diacritics removed and digits spelled out, since the references write both carelessly). For a TSV
also: how many matched words have their middle in the time span of the clip that they were spoken in (0.3 s of slack), the median and the
95th percentile of the distance outside it, and how often time runs backwards.
"""
import re
import sys

import jiwer
from num2words import num2words
from whisper_normalizer.basic import BasicTextNormalizer
from whisper_normalizer.english import EnglishTextNormalizer

SLACK_S = 0.3


def normaliser(lang):
    if lang == "en":
        return EnglishTextNormalizer()
    basic = BasicTextNormalizer(remove_diacritics=True)
    return lambda text: basic(re.sub(r"\d+", lambda m: f" {num2words(int(m[0]), lang=lang)} ", text))


def read(path):
    """Lines as (start_s, end_s, text); times are None in plain text."""
    for line in open(path, encoding="utf-8"):
        part = line.rstrip("\n").split("\t")
        yield (float(part[0]), float(part[1]), part[2]) if len(part) >= 3 else (None, None, line)


def main(lang, ref_path, hyp_path):
    norm = normaliser(lang)
    ref, hyp = list(read(ref_path)), list(read(hyp_path))
    whole = lambda rows: norm(" ".join(text for _, _, text in rows))
    out = jiwer.process_words(whole(ref), whole(hyp))
    print(f"wer={out.wer:.4f} words={len(whole(ref).split())} sub={out.substitutions} del={out.deletions} ins={out.insertions}")
    if not hyp or hyp[0][0] is None:
        return
    split = lambda rows: [(w, start, end) for start, end, text in rows for w in norm(text).split()]
    r, h = split(ref), split(hyp)
    off = []
    for chunk in jiwer.process_words(" ".join(w for w, _, _ in r), " ".join(w for w, _, _ in h)).alignments[0]:
        if chunk.type == "equal":
            for i, j in zip(range(chunk.ref_start_idx, chunk.ref_end_idx), range(chunk.hyp_start_idx, chunk.hyp_end_idx)):
                middle = (h[j][1] + h[j][2]) / 2
                off.append(max(r[i][1] - SLACK_S - middle, middle - r[i][2] - SLACK_S, 0.0))
    off.sort()
    backwards = sum(b[0] < a[0] - 1e-6 for a, b in zip(hyp, hyp[1:])) + sum(end < start for start, end, _ in hyp)
    inside = sum(o == 0 for o in off) / max(1, len(off))
    print(f"matched={len(off)} in_clip={inside:.4f} off_p50={off[len(off) // 2]:.2f} off_p95={off[int(len(off) * .95)]:.2f} backwards={backwards}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
