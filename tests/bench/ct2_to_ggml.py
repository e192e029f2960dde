#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turn a CTranslate2 Whisper model into a whisper.cpp ggml file, so that peers and readers can be compared on the same weights.

  ct2_to_ggml.py MODEL_DIR OUT.bin      needs: pip install numpy tokenizers

Layouts: see reference/whisper.md. Weights stay f16; vectors, biases and positions become f32, as whisper.cpp's own files have them.
"""
import json, struct, sys
from pathlib import Path

import numpy as np


def read_ct2(path):
    data, at = path.read_bytes(), 0

    def take(fmt):
        nonlocal at
        v = struct.unpack_from("<" + fmt, data, at)
        at += struct.calcsize("<" + fmt)
        return v[0]

    def text():
        nonlocal at
        n = take("H")
        s = data[at : at + n - 1].decode()
        at += n
        return s

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


def slaney_filters(n_mels, n_fft=400, rate=16000):
    """Slaney mel filter bank, [n_mels, n_fft / 2 + 1], area normalised, 0 to rate / 2."""
    def to_mel(f):
        f = np.asarray(f, float)
        return np.where(f < 1000, f / (200 / 3), 15 + np.log(np.maximum(f, 1e-9) / 1000) / (np.log(6.4) / 27))
    def to_hz(m):
        return np.where(m < 15, m * 200 / 3, 1000 * np.exp((m - 15) * np.log(6.4) / 27))
    hz = to_hz(np.linspace(to_mel(0), to_mel(rate / 2), n_mels + 2))
    bins = np.linspace(0, rate / 2, n_fft // 2 + 1)
    up = (bins - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    down = (hz[2:, None] - bins) / (hz[2:] - hz[1:-1])[:, None]
    return (np.maximum(0, np.minimum(up, down)) * (2 / (hz[2:] - hz[:-2]))[:, None]).astype(np.float32)


def vocabulary(model_dir):
    """Token bytes by id, without the special tokens (whisper.cpp makes those itself)."""
    visible = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    back = {chr(c): c for c in visible}
    back.update({chr(256 + i): c for i, c in enumerate(b for b in range(256) if b not in visible)})
    vocab = json.loads((model_dir / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    words = [w for w, i in sorted(vocab.items(), key=lambda x: x[1]) if not w.startswith("<|")]
    return [bytes(back[c] for c in w) for w in words]


def main(model_dir, out):
    v = read_ct2(model_dir / "model.bin")
    n_vocab, d_text = v["decoder/embeddings/weight"].shape
    d_audio, n_mels, _ = v["encoder/conv1/weight"].shape
    layers = lambda side: 1 + max(int(k.split("/")[1][6:]) for k in v if k.startswith(side + "/layer_") and "layer_norm" != k.split("/")[1])
    n_enc, n_dec = layers("encoder"), layers("decoder")
    t = {}

    def norm(dst, src):
        t[dst + ".weight"], t[dst + ".bias"] = v[src + "/gamma"], v[src + "/beta"]

    def linear(dst, src, rows=slice(None), bias=True):
        t[dst + ".weight"] = v[src + "/weight"][rows]
        if bias:
            t[dst + ".bias"] = v[src + "/bias"][rows]

    for side, n, d in (("encoder", n_enc, d_audio), ("decoder", n_dec, d_text)):
        t[side + ".positional_embedding"] = v[side + "/position_encodings/encodings"]
        norm(side + (".ln_post" if side == "encoder" else ".ln"), side + "/layer_norm")
        for i in range(n):
            a, b = f"{side}/layer_{i}", f"{side}.blocks.{i}"
            norm(b + ".attn_ln", a + "/self_attention/layer_norm")
            for j, part in enumerate(("query", "key", "value")):
                linear(f"{b}.attn.{part}", a + "/self_attention/linear_0", slice(j * d, (j + 1) * d), part != "key")
            linear(b + ".attn.out", a + "/self_attention/linear_1")
            if side == "decoder":
                norm(b + ".cross_attn_ln", a + "/attention/layer_norm")
                linear(b + ".cross_attn.query", a + "/attention/linear_0")
                linear(b + ".cross_attn.key", a + "/attention/linear_1", slice(0, d), False)
                linear(b + ".cross_attn.value", a + "/attention/linear_1", slice(d, 2 * d))
                linear(b + ".cross_attn.out", a + "/attention/linear_2")
            norm(b + ".mlp_ln", a + "/ffn/layer_norm")
            linear(b + ".mlp.0", a + "/ffn/linear_0")
            linear(b + ".mlp.2", a + "/ffn/linear_1")
    for c in ("conv1", "conv2"):
        t[f"encoder.{c}.weight"], t[f"encoder.{c}.bias"] = v[f"encoder/{c}/weight"], v[f"encoder/{c}/bias"][:, None]
    t["decoder.token_embedding.weight"] = v["decoder/embeddings/weight"]

    with open(out, "wb") as f:
        heads = lambda d: d // 64
        f.write(struct.pack("<I11i", 0x67676D6C, n_vocab, 1500, d_audio, heads(d_audio), n_enc, 448, d_text, heads(d_text), n_dec, n_mels, 1))
        filters = slaney_filters(n_mels)
        f.write(struct.pack("<2i", *filters.shape) + filters.tobytes())
        words = vocabulary(model_dir)
        f.write(struct.pack("<i", len(words)))
        for w in words:
            f.write(struct.pack("<i", len(w)) + w)
        for name, x in t.items():
            half = x.ndim >= 2 and "positional" not in name and not (x.ndim == 2 and x.shape[1] == 1)
            x = np.ascontiguousarray(x, np.float16 if half else np.float32)
            key = name.encode()
            f.write(struct.pack("<3i", x.ndim, len(key), int(half)) + struct.pack(f"<{x.ndim}i", *reversed(x.shape)) + key + x.tobytes())
    print(f"{out}: {len(t)} tensors, {len(words)} words")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2])
