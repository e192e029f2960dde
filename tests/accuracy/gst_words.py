# SPDX-License-Identifier: MIT
"""Runs gst-launch pipelines and reads what the element asr pushes."""
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ASR_BUILD", ROOT / "build"))
DATA = ROOT / "build" / "test-data"
CUE = re.compile(r"\d+\n(\d+):(\d\d):(\d\d),(\d{3}) --> (\d+):(\d\d):(\d\d),(\d{3})\n(.*?)\n\n", re.S)


def environment():
    plugins = str(BUILD / "gst")
    return dict(os.environ, GST_PLUGIN_PATH=plugins,
                GST_REGISTRY=str(BUILD / "gst" / "registry.bin"))


def launch(pipeline, timeout=120, flag="-q"):
    """Returns (exit status, stdout, stderr) of gst-launch-1.0."""
    done = subprocess.run(["gst-launch-1.0", flag, *pipeline.split()], env=environment(),
                          capture_output=True, timeout=timeout)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def words(source, properties="", timeout=120):
    """[(start_s, end_s, word)] that `source ! asr` pushes; must end well."""
    status, out, err = launch(f"{source} ! asr {properties} ! srtenc ! fdsink", timeout)
    if status != 0 or "ERROR" in err:
        raise AssertionError(f"{source}: exit {status}: {err}")
    found = []
    for cue in CUE.finditer(out + "\n\n"):
        t = [int(x) for x in cue.groups()[:8]]
        found.append((t[0] * 3600 + t[1] * 60 + t[2] + t[3] / 1000,
                      t[4] * 3600 + t[5] * 60 + t[6] + t[7] / 1000, cue[9]))
    return found


def gaps(source, properties="", timeout=120):
    """[(start_s, duration_s)] of the gap events, and of the buffers."""
    status, out, err = launch(
        f"{source} ! asr {properties} ! fakesink silent=false sync=false", timeout, "-v")
    if status != 0:
        raise AssertionError(f"{source}: exit {status}: {err}")

    def clock(text):
        hours, minutes, secs = text.split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(secs)

    events = [(int(a) / 1e9, int(b) / 1e9) for a, b in re.findall(
        r"GstEventGap, timestamp=\(guint64\)(\d+), duration=\(guint64\)(\d+)", out)]
    buffers = [(clock(a), clock(b)) for a, b in re.findall(
        r"chain.*?pts: ([\d:.]+), duration: ([\d:.]+)", out)]
    return events, buffers
