#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rules of the house that a program can check: who includes whom, how
long lines, functions and files are, and what the engine never calls.

  check.py ROOT
"""
import re
import sys
from pathlib import Path

RANKS = {"util": 0, "tensor": 1, "backend": 2, "weights": 3, "text": 4, "audio": 4,
         "model": 5, "decode": 6, "policy": 7}
TOP_RANK, GST_RANK = 8, 9
MAX_COLUMNS, MAX_FUNCTION, MAX_FILE = 80, 120, 1000
FORBIDDEN = re.compile(r"\b(printf|puts|exit|abort|strcpy|strcat|sprintf)\s*\(")
INCLUDE = re.compile(r'#include "([^"]+)"')


def folder(path):
    """Stage of a file by its path from the root, or None outside the engine."""
    parts = path.split("/")
    if parts[0] == "gst":
        return "gst"
    if parts[0] != "engine":
        return None
    return parts[1] if len(parts) > 2 else "top"


def rank(stage):
    return {"top": TOP_RANK, "gst": GST_RANK}.get(stage, RANKS.get(stage))


def check_includes(path, text):
    here = folder(path)
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line)
        if not found or here is None:
            continue
        name = found[1]
        there = folder(name)
        if there is None or name == "engine/asr.h":
            continue
        if here == "gst" and there != "gst":
            yield number, f"gst/ sees only engine/asr.h, not {name}"
        elif there != here and rank(there) >= rank(here):
            yield number, f"{name} is not below {path}"
        part = re.match(r"engine/backend/(cpu|cuda)/", name)
        if part and not path.startswith(part[0]):
            yield number, f"{name} is nobody's but its own folder's"


def check_lines(path, text):
    if not text.startswith(("/* SPDX-License-Identifier: MIT */", "// SPDX-License-Identifier: MIT")):
        yield 1, "the first line names no licence"
    for number, line in enumerate(text.splitlines(), 1):
        if "\t" in line:
            yield number, "a tab"
        if line != line.rstrip():
            yield number, "blanks at the end"
        if len(line) > MAX_COLUMNS and "gst-launch-1.0" not in line:
            yield number, f"{len(line)} columns"
        bare = line.split("/*")[0]
        if path.startswith("engine/") and FORBIDDEN.search(bare) and not line.lstrip().startswith("*"):
            yield number, f"the engine never calls {FORBIDDEN.search(bare)[1]}"


def check_lengths(path, text):
    lines = text.splitlines()
    if len(lines) > MAX_FILE:
        yield len(lines), f"{len(lines)} lines in one file, {MAX_FILE} are the end"
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            if number - start > MAX_FUNCTION:
                yield start, f"a function of {number - start} lines"
            start = None


def main(root):
    failures = 0
    for suffix in ("c", "h", "cu", "cuh"):
        for file in sorted(root.rglob(f"*.{suffix}")):
            path = str(file.relative_to(root))
            if path.startswith(("build", ".")):
                continue
            text = file.read_text(encoding="utf-8")
            for check in (check_includes, check_lines, check_lengths):
                for number, message in check(path, text):
                    print(f"{path}:{number}: {message}")
                    failures += 1
    return failures > 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
