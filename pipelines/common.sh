# SPDX-License-Identifier: MIT
# What the pipeline scripts share; sourced.
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
name=$(basename "$0")
die() { echo "$name: $*" >&2; exit 1; }
export GST_PLUGIN_PATH=$root/build/gst${GST_PLUGIN_PATH:+:$GST_PLUGIN_PATH}
# gst-launch-1.0 exits with 0 when interrupted: without this the recipe would
# go on and take half a file for a whole one.
trap 'exit 130' INT
# A value for gst-launch's parser.
quote() {
  local value=${1//\\/\\\\}
  printf '"%s"' "${value//\"/\\\"}"
}
# Text comes up to 30 s after it was said: the other branches wait in queues
# that hold 40 s, before anything is decoded.
long_queue="queue max-size-time=40000000000 max-size-buffers=0 max-size-bytes=0"
# The demuxer for a file, which hands out compressed streams: queues of 40 s
# stand before the decoders. The muxer's pads are all there from the start: one
# that came late would find the header written.
find_demuxer() {
  case $(gst-typefind-1.0 "$1" 2>/dev/null) in
    *video/quicktime*) echo qtdemux ;;
    *matroska*|*webm*) echo matroskademux ;;
    *) die "$1 is neither MP4 nor Matroska; transcribe makes subtitles of anything" ;;
  esac
}
# Refuses what the recipes can't take. $1 IN, $2 OUT
check_files() {
  [ -f "$1" ] || die "there is no file $1"
  [ "$(realpath "$1")" != "$(realpath -m "$2")" ] || die "OUT would overwrite IN: name another file"
  gst-launch-1.0 -q filesrc location="$(quote "$1")" ! decodebin expose-all-streams=false caps=audio/x-raw ! \
    fakesink num-buffers=1 >/dev/null 2>&1 || die "there is no audio in $1 that can be decoded here"
}
