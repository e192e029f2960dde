#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a Whisper model of a real shape with random weights, and what
transformers computes with it in f32: encoder output of a noisy window, and
log-probabilities over 50 positions whose tokens are given.

  make_random.py SHAPE VOCABULARY.txt FOLDER    SHAPE: base small turbo large-v3

Needs numpy, torch and transformers, and a GPU for the large shapes; run by
hand, then test_random on the FOLDER. VOCABULARY: that of a multilingual model.
FOLDER gets a model in CTranslate2's format, samples.f32 and expected.json.
"""
import json
import random
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import (WhisperConfig, WhisperFeatureExtractor,
                          WhisperForConditionalGeneration)

SHAPES = {  # d, encoder layers, decoder layers, mels, vocabulary
    "base": (512, 6, 6, 80, 51865), "small": (768, 12, 12, 80, 51865),
    "turbo": (1280, 32, 4, 128, 51866), "large-v3": (1280, 32, 32, 128, 51866),
}
N_POSITIONS, N_IDS, N_VALUES = 50, 20, 4000
F16, I8, I16 = 4, 1, 2


def make_model(shape, device):
    d, n_encoder, n_decoder, mels, n_vocab = SHAPES[shape]
    config = WhisperConfig(
        d_model=d, encoder_layers=n_encoder, decoder_layers=n_decoder,
        encoder_ffn_dim=4 * d, decoder_ffn_dim=4 * d, num_mel_bins=mels,
        vocab_size=n_vocab, encoder_attention_heads=d // 64,
        decoder_attention_heads=d // 64)
    torch.manual_seed(7)
    with torch.device(device):
        model = WhisperForConditionalGeneration(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("embed_positions.weight") and "encoder" in name:
                pass
            elif "layer_norm.weight" in name:
                p.copy_(1 + 0.1 * torch.randn_like(p))
            elif name.endswith("bias"):
                p.copy_(0.05 * torch.randn_like(p))
            elif "embed_tokens" in name:
                p.copy_(0.05 * torch.randn_like(p))
            elif "embed_positions" in name:
                p.copy_(0.05 * torch.randn_like(p))
            else:
                fan_in = p[0].numel()
                p.copy_(torch.randn_like(p) * fan_in ** -0.5)
            p.copy_(p.half().float())  # what the file holds
    return model.eval()


def to_ct2(model, shape):
    """Tensors under CTranslate2's names."""
    d, n_encoder, n_decoder, _, _ = SHAPES[shape]
    state = model.state_dict()
    out = {}

    def take(name):
        return state["model." + name].detach().cpu().numpy().astype(np.float16)

    def norm(to, name):
        out[to + "/gamma"] = take(name + ".weight")
        out[to + "/beta"] = take(name + ".bias")

    def linear(to, *names):
        out[to + "/weight"] = np.concatenate([take(n + ".weight") for n in names])
        out[to + "/bias"] = np.concatenate([
            take(n + ".bias") if "model." + n + ".bias" in state
            else np.zeros(d, np.float16) for n in names])

    for i, conv in enumerate(("conv1", "conv2")):
        out[f"encoder/{conv}/weight"] = take(f"encoder.{conv}.weight")
        out[f"encoder/{conv}/bias"] = take(f"encoder.{conv}.bias")
    for side, n in (("encoder", n_encoder), ("decoder", n_decoder)):
        out[side + "/position_encodings/encodings"] = take(side + ".embed_positions.weight")
        norm(side + "/layer_norm", side + ".layer_norm")
        for i in range(n):
            a, b = f"{side}/layer_{i}", f"{side}.layers.{i}"
            norm(a + "/self_attention/layer_norm", b + ".self_attn_layer_norm")
            linear(a + "/self_attention/linear_0",
                   *(f"{b}.self_attn.{p}_proj" for p in "qkv"))
            linear(a + "/self_attention/linear_1", b + ".self_attn.out_proj")
            if side == "decoder":
                norm(a + "/attention/layer_norm", b + ".encoder_attn_layer_norm")
                linear(a + "/attention/linear_0", b + ".encoder_attn.q_proj")
                linear(a + "/attention/linear_1",
                       *(f"{b}.encoder_attn.{p}_proj" for p in "kv"))
                linear(a + "/attention/linear_2", b + ".encoder_attn.out_proj")
            norm(a + "/ffn/layer_norm", b + ".final_layer_norm")
            linear(a + "/ffn/linear_0", b + ".fc1")
            linear(a + "/ffn/linear_1", b + ".fc2")
    out["decoder/embeddings/weight"] = take("decoder.embed_tokens.weight")
    return out


def write_model(path, tensors, d):
    def text(value):
        data = value.encode() + b"\0"
        return struct.pack("<H", len(data)) + data

    scalars = {
        "decoder/activation": (I8, "<b", 3), "decoder/alibi": (I8, "<b", 0),
        "decoder/alignment_heads": (I16, "<h", 1),
        "decoder/alignment_layer": (I16, "<h", -1),
        "decoder/num_heads": (I16, "<h", d // 64),
        "decoder/pre_norm": (I8, "<b", 1),
        "decoder/scale_embeddings": (I8, "<b", 0),
        "decoder/start_from_zero_embedding": (I8, "<b", 0),
        "encoder/num_heads": (I16, "<h", d // 64),
    }
    with open(path, "wb") as file:
        file.write(struct.pack("<I", 6) + text("WhisperSpec")
                   + struct.pack("<II", 3, len(tensors) + len(scalars)))
        for name in sorted([*tensors, *scalars]):
            if name in scalars:
                kind, code, value = scalars[name]
                data = struct.pack(code, value)
                dims = ()
            else:
                kind, dims = F16, tensors[name].shape
                data = tensors[name].tobytes()
            file.write(text(name) + struct.pack("<B", len(dims))
                       + b"".join(struct.pack("<I", n) for n in dims)
                       + struct.pack("<BI", kind, len(data)))
            file.write(data)
        file.write(struct.pack("<I", 1) + text("decoder/projection/weight")
                   + text("decoder/embeddings/weight"))


def write_vocabulary(path, source, n_vocab):
    lines = Path(source).read_text(encoding="utf-8").splitlines()
    if n_vocab > 51865:  # one language more
        lines.insert(lines.index("<|translate|>"), "<|yue|>")
    assert len(lines) == n_vocab, (len(lines), n_vocab)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(shape, vocabulary, folder):
    d, _, n_decoder, mels, n_vocab = SHAPES[shape]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    model = make_model(shape, device)
    write_model(folder / "model.bin", to_ct2(model, shape), d)
    write_vocabulary(folder / "vocabulary.txt", vocabulary, n_vocab)
    n_languages = 99 + (n_vocab > 51865)
    (folder / "config.json").write_text(json.dumps({
        "alignment_heads": [[n_decoder - 1, 0]],
        "lang_ids": list(range(50259, 50259 + n_languages)),
        "suppress_ids": [1], "suppress_ids_begin": [220, 50257]}))

    rng = np.random.default_rng(1)
    time = np.arange(480000) / 16000
    samples = (0.1 * rng.standard_normal(480000) * (1 + np.sin(3 * time))
               + 0.2 * np.sin(2 * np.pi * (200 + 40 * time) * time)).astype(np.float32)
    samples.tofile(folder / "samples.f32")
    mel = WhisperFeatureExtractor(feature_size=mels)(
        samples, sampling_rate=16000, return_tensors="pt")["input_features"].to(device)
    picker = random.Random(3)
    tokens = [50258] + [picker.randrange(50000) for _ in range(N_POSITIONS - 1)]
    with torch.no_grad():
        encoded = model.model.encoder(mel).last_hidden_state
        logits = model(encoder_outputs=(encoded,),
                       decoder_input_ids=torch.tensor([tokens], device=device)).logits[0]
        logits = logits.double().log_softmax(-1)
        half = model.half()
        half_encoded = half.model.encoder(mel.half()).last_hidden_state
        half_logits = half(encoder_outputs=(half_encoded,), decoder_input_ids=torch.tensor(
            [tokens], device=device)).logits[0].double().log_softmax(-1)
    error = (half_encoded.double() - encoded.double()).norm() / encoded.double().norm()
    print(f"{shape}: transformers in f16: encoder off by {error:.2e}, log-probabilities by at most "
          f"{(half_logits - logits).abs().max():.3f}, {(half_logits - logits).abs().mean():.4f} in the mean; "
          f"their spread is {logits.std():.2f}")
    flat = encoded[0].double().cpu().numpy().reshape(-1)
    places = sorted(picker.sample(range(len(flat)), N_VALUES))
    ids = [[picker.randrange(n_vocab) for _ in range(N_IDS)] for _ in range(N_POSITIONS)]
    (folder / "expected.json").write_text(json.dumps({
        "tokens": tokens,
        "encoder": [[i, float(flat[i])] for i in places],
        "ids": ids,
        "log_probs": [[float(logits[p, i]) for i in row] for p, row in enumerate(ids)],
    }))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
