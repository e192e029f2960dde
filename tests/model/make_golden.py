#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes golden.json: what transformers computes from the same weights, stage by
stage, so that a failing test names its stage.

  make_golden.py MODELS CLIP.wav OUT.json     MODELS: folder of base, tiny.en

Needs numpy, torch and transformers; run by hand. CLIP is 0880 of Debian's
pocketsphinx-testdata. Stages: log-mel of the clip padded with zeros to 30 s,
encoder output, logits after the start sequence with notimestamps, and the
tokens of greedy generation with time marks.
"""
import json
import random
import struct
import sys
import wave
from pathlib import Path

import numpy as np
import torch
from transformers import (WhisperConfig, WhisperFeatureExtractor,
                          WhisperForConditionalGeneration)


def read_ct2(path):
    data, at = path.read_bytes(), 0

    def take(fmt):
        nonlocal at
        value = struct.unpack_from("<" + fmt, data, at)[0]
        at += struct.calcsize("<" + fmt)
        return value

    def text():
        nonlocal at
        n = take("H")
        value = data[at:at + n - 1].decode()
        at += n
        return value

    assert take("I") == 6 and text() == "WhisperSpec" and take("I") == 3
    types = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
    out = {}
    for _ in range(take("I")):
        name, rank = text(), take("B")
        shape = [take("I") for _ in range(rank)]
        dtype, size = types[take("B")], take("I")
        out[name] = np.frombuffer(data, dtype, size // np.dtype(dtype).itemsize, at).reshape(shape)
        at += size
    return out


def to_transformers(v):
    """The tensors under transformers' names, f32."""
    t = {}

    def put(name, value):
        t["model." + name] = torch.from_numpy(np.ascontiguousarray(value, np.float32))

    def norm(to, name):
        put(to + ".weight", v[name + "/gamma"])
        put(to + ".bias", v[name + "/beta"])

    def linear(to, name, rows=slice(None), bias=True):
        put(to + ".weight", v[name + "/weight"][rows])
        if bias:
            put(to + ".bias", v[name + "/bias"][rows])

    d = v["encoder/conv1/weight"].shape[0]
    for side in ("encoder", "decoder"):
        put(side + ".embed_positions.weight", v[side + "/position_encodings/encodings"])
        norm(side + ".layer_norm", side + "/layer_norm")
        i = 0
        while f"{side}/layer_{i}/ffn/linear_0/weight" in v:
            a, b = f"{side}/layer_{i}", f"{side}.layers.{i}"
            norm(b + ".self_attn_layer_norm", a + "/self_attention/layer_norm")
            for j, part in enumerate("qkv"):
                linear(f"{b}.self_attn.{part}_proj", a + "/self_attention/linear_0",
                       slice(j * d, (j + 1) * d), part != "k")
            linear(b + ".self_attn.out_proj", a + "/self_attention/linear_1")
            if side == "decoder":
                norm(b + ".encoder_attn_layer_norm", a + "/attention/layer_norm")
                linear(b + ".encoder_attn.q_proj", a + "/attention/linear_0")
                linear(b + ".encoder_attn.k_proj", a + "/attention/linear_1", slice(0, d), False)
                linear(b + ".encoder_attn.v_proj", a + "/attention/linear_1", slice(d, 2 * d))
                linear(b + ".encoder_attn.out_proj", a + "/attention/linear_2")
            norm(b + ".final_layer_norm", a + "/ffn/layer_norm")
            linear(b + ".fc1", a + "/ffn/linear_0")
            linear(b + ".fc2", a + "/ffn/linear_1")
            i += 1
    for c in ("conv1", "conv2"):
        put(f"encoder.{c}.weight", v[f"encoder/{c}/weight"])
        put(f"encoder.{c}.bias", v[f"encoder/{c}/bias"])
    put("decoder.embed_tokens.weight", v["decoder/embeddings/weight"])
    t["proj_out.weight"] = t["model.decoder.embed_tokens.weight"]
    return t, d


def load(folder):
    v = read_ct2(folder / "model.bin")
    t, d = to_transformers(v)
    n = [sum(k.startswith(f"{s}/layer_") and k.endswith("ffn/linear_0/weight") for k in v)
         for s in ("encoder", "decoder")]
    config = WhisperConfig(
        vocab_size=len(v["decoder/embeddings/weight"]), d_model=d, num_mel_bins=80,
        encoder_layers=n[0], decoder_layers=n[1], encoder_ffn_dim=4 * d, decoder_ffn_dim=4 * d,
        encoder_attention_heads=d // 64, decoder_attention_heads=d // 64)
    model = WhisperForConditionalGeneration(config)
    missing, extra = model.load_state_dict(t, strict=False)
    assert not extra and all("embed_positions" in m for m in missing), (missing, extra)
    return model.eval()


def greedy(model, encoded, start, base, suppress):
    """Greedy decoding with openai/whisper's time mark rules over transformers'
    logits: plain loops, written from the rules' description alone."""
    eot, notimestamps, first_mark = base["eot"], base["notimestamps"], base["mark"]
    ids, past = list(start), None
    said = []
    for _ in range(224):
        with torch.no_grad():
            logits = model(encoder_outputs=(encoded,), decoder_input_ids=torch.tensor([ids])).logits[0, -1]
        x = logits.double().numpy().copy()
        x[suppress] = -np.inf
        x[notimestamps] = -np.inf
        if not said:
            x[:first_mark] = -np.inf
            x[first_mark + 51:] = -np.inf
        else:
            last = said[-1] >= first_mark
            before = len(said) < 2 or said[-2] >= first_mark
            marks = [i for i in said if i >= first_mark]
            if last and before:
                x[first_mark:] = -np.inf
            elif last:
                x[:eot] = -np.inf
            if marks:
                x[first_mark:marks[-1] + (0 if last and not before else 1)] = -np.inf
        p = x - x.max()
        mass = np.log(np.exp(p[first_mark:]).sum() + 1e-300)
        if mass > p[:first_mark].max():
            x[:first_mark] = -np.inf
        best = int(x.argmax())
        if best == eot:
            break
        said.append(best)
        ids.append(best)
    return said


def sample(array, count, rng):
    flat = array.reshape(-1)
    at = sorted(rng.sample(range(len(flat)), count))
    return [[i, round(float(flat[i]), 6)] for i in at]


def main(models, clip, out):
    with wave.open(str(clip)) as w:
        pcm = np.frombuffer(w.readframes(w.getnframes()), np.int16).astype(np.float32) / 32768
    rng = random.Random(1)
    golden = {"clip": Path(clip).name, "models": {}}
    mel = WhisperFeatureExtractor(feature_size=80)(pcm, sampling_rate=16000, return_tensors="np")["input_features"][0]
    golden["mel80"] = sample(mel, 300, rng)
    mel128 = WhisperFeatureExtractor(feature_size=128)(pcm, sampling_rate=16000, return_tensors="np")["input_features"][0]
    golden["mel128"] = sample(mel128, 300, rng)
    for name, start, with_marks in (("base", [50258, 50259, 50359, 50363], [50258, 50259, 50359]),
                                    ("tiny.en", [50257, 50362], [50257])):
        model = load(Path(models) / name)
        config = json.loads((Path(models) / name / "config.json").read_text())
        n = model.config.vocab_size
        base = {"eot": start[0] - 1, "notimestamps": start[-1], "mark": start[-1] + 1}
        with torch.no_grad():
            encoded = model.model.encoder(torch.from_numpy(mel)[None]).last_hidden_state
            logits = model(encoder_outputs=(encoded,), decoder_input_ids=torch.tensor([start])).logits[0, -1]
        top = torch.topk(logits, 20).indices.tolist()
        golden["models"][name] = {
            "n_vocab": n,
            "start": start,
            "encoder": sample(encoded[0].numpy(), 300, rng),
            "logits": [[i, round(float(logits[i]), 5)] for i in top + sorted(rng.sample(range(n), 80))],
            "tokens": greedy(model, encoded, with_marks, base, config["suppress_ids"]),
        }
    Path(out).write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
