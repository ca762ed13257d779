#!/usr/bin/env python3
"""Speed of the tokenizer beside PyPI `tokenizers`, over the same text in the same run, one thread each.

usage: tokenizer_vs_oracle.py BENCH_TOKENIZER TOKENIZER.json [TEXT...] [--repeat N]

BENCH_TOKENIZER is the program built from bench_tokenizer.cc. Without TEXT its default text is used. Prints both programs' lines and
the ratio; exits 1 if the two disagree on the number of tokens, 77 with a reason when `tokenizers` is not installed.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def median_seconds(repeat, call):
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - begin)
    return sorted(times)[repeat // 2], result


def oracle(tokenizer, path, repeat):
    """-> {"encode" | "encode by lines": (tokens, MB/s)}."""
    with open(path, encoding="utf-8", newline="") as f:
        text = f.read()
    lines = [line for line in re.split(r"(?<=\n)", text) if line]
    megabytes = len(text.encode()) / 1e6
    calls = {"encode": lambda: len(tokenizer.encode(text, add_special_tokens=False)),
             "encode by lines": lambda: sum(map(len, tokenizer.encode_batch_fast(lines, add_special_tokens=False)))}
    out = {}
    for name, call in calls.items():
        seconds, tokens = median_seconds(repeat, call)
        out[name] = (tokens, megabytes / seconds)
    return out


def ours(bench, tokenizer_path, path, repeat):
    text = subprocess.run([bench, "--tokenizer", tokenizer_path, "--repeat", str(repeat), "--no-worst", path], check=True,
                          capture_output=True, text=True).stdout
    found = re.findall(r"^(encode by lines|encode) .*: \d+ bytes, (\d+) tokens, ([\d.]+) MB/s$", text, re.M)
    return {name: (int(tokens), float(speed)) for name, tokens, speed in found}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("bench")
    p.add_argument("tokenizer")
    p.add_argument("text", nargs="*")
    p.add_argument("--repeat", type=int, default=3)
    a = p.parse_intermixed_args()
    try:
        import tokenizers
    except ImportError:
        print("SKIPPED: PyPI tokenizers is not installed")
        return 77
    tokenizer = tokenizers.Tokenizer.from_file(a.tokenizer)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        if not a.text:
            a.text = [os.path.join(folder, "default.txt")]
            subprocess.run([a.bench, "--dump", a.text[0]], check=True)
        for path in a.text:
            engine, reference = ours(a.bench, a.tokenizer, path, a.repeat), oracle(tokenizer, path, a.repeat)
            for name, (tokens, speed) in engine.items():
                expected, slow = reference[name]
                same = tokens == expected
                failed |= not same
                print(f"{name} {path}: {os.path.getsize(path) / 1e6:.1f} MB, {tokens} tokens{'' if same else f' (oracle {expected})'}, "
                      f"{speed:.2f} MB/s; tokenizers {tokenizers.__version__} {slow:.2f} MB/s; {speed / slow:.1f} times", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
