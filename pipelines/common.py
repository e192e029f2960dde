# SPDX-License-Identifier: MIT
"""What the pipeline scripts in Python share: set-up and gst-launch's words."""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def die(message):
    sys.exit(f"{Path(sys.argv[0]).name}: {message}")


def is_folder(model):
    """A path, and no name of a model in the cache."""
    return "/" in model or model.startswith(".") or (Path(model) / "model.bin").exists()


def set_up(model):
    """Builds and fetches what is missing; setup tells what it does."""
    is_path = model is not None and is_folder(model)
    args = ["--no-model"] if is_path else ["--model", model or "base"]
    if subprocess.run([ROOT / "setup", *args], stdout=sys.stderr).returncode:
        die("setup failed, see above")


def quote(value):
    """A value for gst-launch's parser."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def name_model(model):
    """The property that names it, as words of gst-launch."""
    if not model:
        return []
    return [f"model={quote(str(Path(model).absolute()) if is_folder(model) else model)}"]


def environment():
    env = dict(os.environ)
    env["GST_PLUGIN_PATH"] = os.pathsep.join(
        filter(None, [str(ROOT / "build" / "gst"), env.get("GST_PLUGIN_PATH")]))
    return env
