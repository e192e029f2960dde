#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/choose.tsv: choices of tokens by Whisper's decoding rules
(openai/whisper decoding.py: SuppressTokens, SuppressBlank,
ApplyTimestampRules), computed with numpy in double precision. Needs numpy;
the tests only read the file.

Lines:
  model  n_vocab eot language_begin language_end timestamp_begin
         max_initial_timestamp
  mask   which ids: 1 at every step, 2 at the first
  sample mode temperature noise_seed logit_seed scale offset id log_prob
         ids so far, with commas (mode as in AsrRuleMode)
  score  logit_seed scale limit target log_prob
Logit i is (2 u - 1) scale, plus offset where i is a time mark; u has the 24
high bits of output i + 1 of splitmix64.
"""
import os

import numpy

MASK64 = (1 << 64) - 1
TIMESTAMPS, TEXT, LANGUAGE = 0, 1, 2


def outputs(seed, n, first=0):
    steps = numpy.arange(first + 1, first + n + 1, dtype=numpy.uint64)
    x = numpy.uint64(seed & MASK64) + steps * numpy.uint64(0x9e3779b97f4a7c15)
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94d049bb133111eb)
    return x ^ (x >> numpy.uint64(31))


class Model:
    def __init__(self, n_vocab, eot, languages, timestamp_begin, initial,
                 step_mask, first_mask):
        self.n_vocab, self.eot, self.languages = n_vocab, eot, languages
        self.timestamp_begin, self.initial = timestamp_begin, initial
        self.step_mask, self.first_mask = step_mask, first_mask

    def logits(self, seed, scale, offset):
        u = (outputs(seed, self.n_vocab) >> numpy.uint64(40)) / 2.0 ** 24
        x = numpy.float32(2 * u - 1) * numpy.float32(scale)
        x[self.timestamp_begin:] += numpy.float32(offset)
        return x.astype(numpy.float64)


def log_sum(x):
    top = x.max(initial=-numpy.inf)
    if top == -numpy.inf:
        return top
    return top + numpy.log(numpy.exp(x - top).sum())


def apply_rules(model, mode, past, x):
    """Masks @x; returns how far the last rule was from the other verdict."""
    begin = model.timestamp_begin
    if mode == LANGUAGE:
        keep = numpy.zeros(len(x), bool)
        keep[model.languages[0]:model.languages[1]] = True
        x[~keep] = -numpy.inf
        return numpy.inf
    x[model.step_mask] = -numpy.inf
    if not past:
        x[model.first_mask] = -numpy.inf
    if mode == TEXT:
        x[begin:] = -numpy.inf
        return numpy.inf
    last_is_time = bool(past) and past[-1] >= begin
    before_is_time = len(past) < 2 or past[-2] >= begin
    if last_is_time and before_is_time:
        x[begin:] = -numpy.inf
    elif last_is_time:
        x[:model.eot] = -numpy.inf
    marks = [token for token in past if token >= begin]
    if marks and last_is_time and not before_is_time:
        x[begin:marks[-1]] = -numpy.inf
    elif marks:
        x[begin:marks[-1] + 1] = -numpy.inf
    if not past:
        x[:begin] = -numpy.inf
        x[model.initial + 1:] = -numpy.inf
    logs = x - log_sum(x)
    marks_sum, text_top = log_sum(logs[begin:]), logs[:begin].max()
    if marks_sum > text_top:
        x[:begin] = -numpy.inf
    return abs(marks_sum - text_top)


def choose(model, mode, past, x, temperature, seed):
    """Returns id, log-probability and the margin of the choice."""
    margin = apply_rules(model, mode, past, x)
    score = x
    if temperature > 0:
        first = len(past) << 32
        u = outputs(seed, model.n_vocab, first) >> numpy.uint64(41)
        u = (u + 0.5) / 2.0 ** 23
        score = x / temperature - numpy.log(-numpy.log(u))
    ranked = numpy.sort(score)
    if temperature > 0 and ranked[-2] > -numpy.inf:
        margin = min(margin, ranked[-1] - ranked[-2])
    token = int(numpy.argmax(score))
    return token, x[token] - log_sum(x), margin


def write_walk(file, model, source, mode):
    past = []
    temperature = float(source.choice([0.0, 0.0, 0.25, 1.0]))
    seed = int(source.integers(1, 1 << 40))
    while len(past) < (1 if mode == LANGUAGE else 14):
        logit_seed = int(source.integers(1, 1 << 40))
        scale = float(source.choice([1.0, 6.0, 20.0]))
        offset = float(source.choice([-8.0, -2.0, -1.0, 0.0, 0.5, 4.0]))
        token, log_prob, margin = choose(
            model, mode, past, model.logits(logit_seed, scale, offset),
            temperature, seed)
        if margin < 1e-4:
            continue
        print("sample", mode, temperature, seed, logit_seed, scale, offset,
              token, "%.7f" % log_prob, ",".join(map(str, past)), sep="\t",
              file=file)
        past.append(token)
        if token == model.eot:
            break


def write_scores(file, model, source, n):
    for _ in range(n):
        seed = int(source.integers(1, 1 << 40))
        limit = int(source.choice([model.eot, model.n_vocab, 7]))
        target = int(source.integers(0, limit))
        x = model.logits(seed, 8.0, 0.0)[:limit]
        print("score", seed, 8.0, limit, target,
              "%.7f" % (x[target] - log_sum(x)), sep="\t", file=file)


def main():
    source = numpy.random.default_rng(20261201)
    special = [50258, 50358, 50359, 50360, 50361, 50362]
    models = [
        Model(403, 200, (202, 212), 300, 310,
              sorted(source.choice(190, 20, False).tolist()) + [201, 299],
              [13, 200]),
        Model(51865, 50257, (50259, 50358), 50364, 50414,
              sorted(source.choice(50000, 82, False).tolist()) + special
              + [50363], [220, 50257]),
    ]
    path = os.path.join(os.path.dirname(__file__), "..", "data", "choose.tsv")
    with open(path, "w") as file:
        for model, n_walks in zip(models, (60, 6)):
            print("model", model.n_vocab, model.eot, *model.languages,
                  model.timestamp_begin, model.initial, sep="\t", file=file)
            print("mask", 1, ",".join(map(str, model.step_mask)), sep="\t",
                  file=file)
            print("mask", 2, ",".join(map(str, model.first_mask)), sep="\t",
                  file=file)
            for i in range(n_walks):
                write_walk(file, model, source, [0, 0, 0, 1, 0, 2][i % 6])
            write_scores(file, model, source, n_walks // 3)


if __name__ == "__main__":
    main()
