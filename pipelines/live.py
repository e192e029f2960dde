# SPDX-License-Identifier: MIT
"""What the live scripts share: sources, options, and words on a terminal.

The words come from gst-launch-1.0 -m, which prints every message on the bus;
the element posts what it heard as messages named "asr".
"""
import argparse
import glob
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import unicodedata
from pathlib import Path

from common import ROOT, die, environment, name_model, quote, set_up

GREY, PLAIN, CLEAR = "\033[90m", "\033[0m", "\r\033[K"
PAUSE_NS = 1_000_000_000  # a silence that ends a line
MAX_LINE = 200            # in files and pipes
MESSAGE = re.compile(r'Got message #\d+ from (?:element|object) "[^"]*" \(element\): (asr|voice-activity), (.*);$')
FIELD = re.compile(r'([\w-]+)=\(([\w:]+)\)((?:"(?:[^"\\]|\\.)*"|<(?:"(?:[^"\\]|\\.)*"|[^>"])*>|[^,"<])*)')


# ---- messages ----

def unescape(value):
    """A string as GstStructure writes it: quoted, bytes beyond ASCII in octal."""
    if not value.startswith('"'):
        return value
    raw = re.sub(rb"\\([0-3][0-7]{2})|\\(.)",
                 lambda m: bytes([int(m[1], 8)]) if m[1] else m[2],
                 value[1:-1].encode("utf-8", "surrogateescape"), flags=re.S)
    return raw.decode("utf-8", "replace")


def parse_message(line):
    """(name, fields) of a message that captions are made of, or None."""
    found = MESSAGE.match(line)
    if not found:
        return None
    return found[1], {name: unescape(value.strip()) for name, _, value in FIELD.findall(found[2])}


# ---- the terminal ----

def columns(text):
    """How wide a terminal shows it."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
               for c in text)


def join(line, text):
    """Adds text to a line; scripts without blanks stay without, and so does
    what belongs to the word before."""
    is_tight = line and text and (text[0] in "-'’,.;:!?" or all(
        unicodedata.east_asian_width(c) in "WF" for c in (line[-1], text[0])))
    return f"{line}{'' if is_tight or not line else ' '}{text}"


class Writer:
    """Final words stay; on a terminal, partial text stands grey behind them
    and is replaced in place. Elsewhere a line comes when it is complete."""

    def __init__(self, out, is_terminal):
        self.out, self.is_terminal = out, is_terminal
        self.line, self.end = "", 0

    def finish(self):
        if self.is_terminal:
            self.out.write(CLEAR)
        if self.line:
            self.out.write(self.line + "\n")
        self.out.flush()
        self.line = ""

    def add(self, text):
        if self.is_terminal:
            width = shutil.get_terminal_size().columns - 1
        else:
            width = MAX_LINE
        for word in text.split(" "):
            if self.line and columns(join(self.line, word)) > width:
                self.finish()
            self.line = join(self.line, word)

    def show(self, partial):
        if not self.is_terminal:
            return
        room = shutil.get_terminal_size().columns - 1 - columns(self.line) - 1
        while partial and columns(partial) > room:
            # what was said last is what people look for
            partial = partial[1:]
        grey = f"{GREY}{partial}{PLAIN}" if partial else ""
        blank = " " if self.line and partial else ""
        self.out.write(f"{CLEAR}{self.line}{blank}{grey}")
        self.out.flush()

    def take(self, name, fields):
        if name == "voice-activity":
            return
        text = fields.get("text", "").strip()
        start = int(fields.get("running-time", "0") or 0)
        is_final = fields.get("final") == "true"
        if not is_final:
            self.show(text)
            return
        if self.line and start > self.end + PAUSE_NS:
            self.finish()
        self.end = start + int(fields.get("duration", "0") or 0)
        if text:
            self.add(text)
        if not self.is_terminal and self.line.endswith((".", "?", "!", "。", "？", "！")):
            self.finish()
        self.show("")


# ---- what a pipeline is made of ----

def find_microphone():
    """Whether there is one: a sound server, or a device that records."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "/nonexistent")
    return bool(os.environ.get("PULSE_SERVER") or os.path.exists(f"{runtime}/pulse/native")
                or glob.glob("/dev/snd/pcm*c"))


def make_file_source(path):
    """A recording at the speed at which it was spoken."""
    path = Path(path).absolute()
    if not path.is_file():
        die(f"there is no file {path}")
    return ["filesrc", f"location={quote(str(path))}", "!", "decodebin", "expose-all-streams=false",
            "caps=audio/x-raw", "!", "identity", "sync=true"]


def make_sound(source):
    """Elements that give live audio: mic, tone, or a file at real speed."""
    if source == "mic":
        if not find_microphone():
            die("there is no microphone here: plug one in, or name another --source: a recording, or tone")
        return ["autoaudiosrc"]
    if source == "tone":
        return ["audiotestsrc", "is-live=true"]
    return make_file_source(source)


def check_display(sink):
    if sink == "window" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        die("there is no display here: run this in a desktop, or use --sink none")


def make_picture(sink):
    return ["autovideosink"] if sink == "window" else ["fakesink", "sync=true"]


def make_asr(args):
    return ["asr", f"language-code={quote(args.language)}", *name_model(args.model),
            *([f"latency={args.latency}"] if args.latency is not None else [])]


def make_queue(latency):
    """Holds video while the text for it is made."""
    seconds = (2000 if latency is None else latency) // 1000 + 3
    return ["queue", f"max-size-time={seconds * 1_000_000_000}", "max-size-buffers=0", "max-size-bytes=0"]


def make_parser(doc):
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="name in the cache, or a folder")
    parser.add_argument("--language", default="auto", help="a code such as en, or auto")
    parser.add_argument("--latency", type=int, metavar="MS",
                        help="how long after it was said a word comes at the latest (default 2000)")
    parser.add_argument("--seconds", type=float, help="ends after so long")
    parser.add_argument("--print", action="store_true", help="show the pipeline")
    return parser


# ---- running it ----

def show_pipeline(pipeline):
    plugins = shlex.quote(str(ROOT / "build" / "gst"))
    print(f"GST_PLUGIN_PATH={plugins} gst-launch-1.0 -m", *map(shlex.quote, pipeline))


def read_messages(process, writer):
    """Follows gst-launch to its end. Returns: what went wrong"""
    errors = []
    for line in process.stdout:
        line = line.rstrip("\n")
        message = parse_message(line)
        if message:
            writer.take(*message)
        elif line.startswith("ERROR: from element") or line.startswith("WARNING: erroneous"):
            errors.append(line.split(": ", 2)[-1].strip())
        elif line.startswith("WARNING: from element"):
            print(f"\r{Path(sys.argv[0]).name}: {line.split(': ', 2)[-1]}", file=sys.stderr)
    return errors


def run(pipeline, args):
    """Returns the exit status. Ctrl+C ends with what was said so far."""
    if args.print:
        show_pipeline(pipeline)
        return 0
    set_up(args.model)
    if sys.stdout.isatty():
        print(f"{GREY}listening; Ctrl+C ends{PLAIN}", file=sys.stderr)
    # -e: an interrupt becomes EOS, so that the last words are not lost
    process = subprocess.Popen(
        ["gst-launch-1.0", "-m", "-e", *pipeline], env=environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="surrogateescape",
        start_new_session=True)
    interrupts = []

    def interrupt(*_):
        # the second one means at once
        process.send_signal(signal.SIGKILL if interrupts else signal.SIGINT)
        interrupts.append(True)

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    if args.seconds:
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, args.seconds)
    writer = Writer(sys.stdout, sys.stdout.isatty())
    try:
        errors = read_messages(process, writer)
        writer.finish()
    except BrokenPipeError:
        process.kill()
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 130
    process.wait()
    signal.setitimer(signal.ITIMER_REAL, 0)
    if errors or (process.returncode != 0 and not interrupts):
        die(errors[0] if errors else "GStreamer stopped")
    return 0
