#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes data/silero_vad_16k.safetensors from the network that the package
silero-vad runs: its ONNX file's weights, unchanged, under the names of its
tinygrad_model.py. (The safetensors file in the package has the same shapes,
but older weights that give other probabilities.) Needs onnx and safetensors.

Usage: make_silero.py silero_vad/data/silero_vad_16k_op15.onnx"""
import os
import sys

import onnx
from onnx import numpy_helper
from safetensors.numpy import save_file

NAMES = {"model.stft.forward_basis_buffer": "stft_conv.weight",
         "model.decoder.decoder.2.weight": "final_conv.weight",
         "model.decoder.decoder.2.bias": "final_conv.bias"}
for part in "weight", "bias":
    for i in range(4):
        NAMES[f"model.encoder.{i}.reparam_conv.{part}"] = f"conv{i + 1}.{part}"
    for side in "ih", "hh":
        NAMES[f"model.decoder.rnn.{part}_{side}"] = f"lstm_cell.{part}_{side}"


def main():
    graph = onnx.load(sys.argv[1]).graph
    tensors = {NAMES[t.name]: numpy_helper.to_array(t).copy()
               for t in graph.initializer if t.name in NAMES}
    assert sorted(tensors) == sorted(NAMES.values())
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "silero_vad_16k.safetensors")
    save_file(tensors, path)


if __name__ == "__main__":
    main()
