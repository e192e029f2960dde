#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Inputs on which transcribers fail in public bug reports, made from real clips.   make_cases.sh OUT CLIPS     CLIPS: the clips/ folder of corpus/make_corpus.py en. Needs ffmpeg and sox.
# What each must give: test_cases.py.
set -e
O=${1:?out dir} K=${2:?clips dir}; mkdir -p "$O"
A=$K/dir-instr.wav B=$K/ss-noservice.wav C=$K/conf-roll-callcomplete.wav
v="ffmpeg -v error -y"
$v -f lavfi -i testsrc2=s=160x90:d=12 -itsoffset 4.9 -i $A -map 0:v -map 1:a -c:v mpeg4 -c:a aac $O/late-track.mkv
$v -i $A -i $B -filter_complex "[0:a][1:a]concat=n=2:v=0:a=1,aresample=8000,asetnsamples=160,asetpts='PTS+floor(T/0.5)*0.14/TB'" -c:a pcm_s16le $O/many-holes.mkv
$v -i $A -i $B -filter_complex "[0:a][1:a]concat=n=2:v=0:a=1,asetpts='if(gte(T,6.6),PTS+10/TB,PTS)'" -c:a pcm_s16le $O/ten-second-hole.mkv
sox $A $O/t.wav pad 2 3; sox $O/t.wav $B $O/pauses.wav
sox $C $O/t.wav pad 0 0.35; sox $O/t.wav $O/said-three-times.wav repeat 2
sox -n -r 16000 -c1 -b16 $O/silence.wav trim 0 2
sox $A $O/late-speech.wav pad 70 1
sox -n -r 16000 -c1 -b16 $O/room-noise.wav synth 0.6 pinknoise gain -45
$v -i $A -filter_complex "[0:a]asplit[l][r];[r]volume=-1[n];[l][n]join=inputs=2:channel_layout=stereo" $O/opposite-phase.wav
$v -i $A -f lavfi -i "anoisesrc=c=pink:r=16000:a=0.3:d=6.5" -filter_complex "[1:a]asplit=5[a][b][c][d][e];[a][b][0:a][c][d][e]join=inputs=6:channel_layout=5.1:map=0.0-FL|1.0-FR|2.0-FC|3.0-LFE|4.0-BL|5.0-BR" $O/centre-dialogue.wav
$v -i $A -ar 8000 -c:a pcm_mulaw $O/telephone.wav
$v -i $A -ar 48000 -ac 2 $O/studio.wav
for d in 0.005 0.0125 0.1; do sox -n -r 16000 -c1 -b16 $O/blip-$d.wav synth $d sine 440; done
rm -f $O/t.wav
