"""The sampling function of docs/sampling.md a second time, from its text, with the standard library only.

Usage: sampling_twin_test.py PAGE [DRIVER] [--count N] [--seed N]
       sampling_twin_test.py PAGE --print       the page's test vectors, computed anew
PAGE: docs/sampling.md, whose vectors must be what this file computes; DRIVER: the built sampling_twin_driver, which must give the
same ids and the same bits of log-probability on random rows. The seed is printed; without --seed it is fresh.
"""
import argparse
import json
import math
import random
import struct
import subprocess
import sys

M64 = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def mix64(t):
    t = ((t ^ (t >> 30)) * 0xBF58476D1CE4E5B9) & M64
    t = ((t ^ (t >> 27)) * 0x94D049BB133111EB) & M64
    return t ^ (t >> 31)


def random_word(base, i):
    return mix64((base + (i + 1) * GAMMA) & M64)


def row_stream(seed, choice, position):
    return random_word(random_word(seed, choice), position)


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def from_bits(b):
    return struct.unpack("<d", struct.pack("<Q", b))[0]


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


LN2_HI, LN2_LO = float.fromhex("0x1.62e42fefa0000p-1"), float.fromhex("0x1.cf79abc9e3b3ap-40")
LOG2_E = float.fromhex("0x1.71547652b82fep0")
ROUND = float.fromhex("0x1.8p52")


def log64(x):
    b = bits(x)
    exponent = (b >> 52) - 1023
    m = from_bits((b & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)
    if m > 1.4142135623730951:
        m, exponent = m * 0.5, exponent + 1
    t = (m - 1.0) / (m + 1.0)
    t2 = t * t
    s = 0.0
    for k in range(23, 0, -2):
        s = 1.0 / k + s * t2
    return 2.0 * t * s + (exponent * LN2_LO + exponent * LN2_HI)


def exp_row(x):
    if x < -708.0:
        return 0.0
    shifted = x * LOG2_E + ROUND
    n = shifted - ROUND
    r = (x - n * LN2_HI) - n * LN2_LO
    s = 1.0 / math.factorial(14)
    for k in range(13, -1, -1):
        s = s * r + 1.0 / math.factorial(k)
    return s * 2.0 ** int(n)


def gumbel(word):
    return -log64(-log64(((word >> 12) + 0.5) * 2.0**-52))


def lanes(terms):
    """terms: (id, value) with ascending id."""
    acc = [0.0] * 16
    for v, x in terms:
        acc[v % 16] += x
    for width in (8, 4, 2, 1):
        for j in range(width):
            acc[j] += acc[j + width]
    return acc[0]


def sample(row, seed, choice, position, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0):
    top = max(row)
    log_sum = log64(lanes((v, exp_row(l - top)) for v, l in enumerate(row)))
    if temperature < 1e-5:
        chosen = row.index(top)
    else:
        ranked = sorted((v for v in range(len(row)) if row[v] != -math.inf), key=lambda v: (-row[v], v))
        if top_k > 0:
            ranked = ranked[:top_k]
        weight = {v: exp_row(row[v] / temperature - top / temperature) for v in ranked}
        if top_p < 1.0:
            wanted = top_p * lanes((v, weight[v]) for v in sorted(ranked))
            total, kept = 0.0, []
            for v in ranked:
                if total >= wanted:
                    break
                kept.append(v)
                total += weight[v]
            ranked = kept
        stream = row_stream(seed, choice, position)
        best, chosen = -math.inf, -1
        for v in sorted(v for v in ranked if weight[v] >= min_p):
            value = row[v] / temperature + gumbel(random_word(stream, v))
            if value > best:
                best, chosen = value, v
    return chosen, f32((row[chosen] - top) - log_sum)


FIXED = [
    ("noise", [(0, 0, 0, 0), (0, 0, 0, 1), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (2**63 - 1, 127, 1048575, 129279)]),
    ("sample", [
        {"row": [0.5, 2.0, 2.0, -1.0], "temperature": 0},
        {"row": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], "seed": 7, "position": 3},
        {"row": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], "seed": 7, "position": 4},
        {"row": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], "seed": 7, "position": 3, "choice": 1},
        {"row": [1.25, -0.5, 3.0, 2.75, 0.0, None, -7.5, 2.5], "seed": 42, "position": 11, "temperature": 0.75},
        {"row": [1.25, -0.5, 3.0, 2.75, 0.0, None, -7.5, 2.5], "seed": 42, "position": 12, "temperature": 2.0},
        {"row": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0], "seed": 5, "position": 9, "top_k": 3},
        {"row": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0], "seed": 6, "position": 9, "top_p": 0.5},
        {"row": [4.0, 3.5, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5, 0.0, -0.5, -1.0, -1.5, -2.0, -2.5, -3.0, -3.5, -4.0, -4.5], "seed": 123, "position": 100, "top_p": 0.9},
        {"row": [4.0, 3.5, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5, 0.0, -0.5, -1.0, -1.5, -2.0, -2.5, -3.0, -3.5, -4.0, -4.5], "seed": 124, "position": 100, "temperature": 1.5,
         "top_k": 10, "top_p": 0.95, "min_p": 0.05},
        {"row": [4.0, 3.5, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5, 0.0, -0.5, -1.0, -1.5, -2.0, -2.5, -3.0, -3.5, -4.0, -4.5], "seed": 125, "position": 101, "min_p": 0.25},
    ]),
]


def expected(v):
    row = [-math.inf if x is None else x for x in v["row"]]
    chosen, logprob = sample(row, v.get("seed", 0), v.get("choice", 0), v.get("position", 0), v.get("temperature", 1.0), v.get("top_k", 0), v.get("top_p", 1.0), v.get("min_p", 0.0))
    return {**v, "id": chosen, "logprob": logprob.hex()}


def vectors():
    out = []
    for seed, choice, position, v in FIXED[0][1]:
        word = random_word(row_stream(seed, choice, position), v)
        out.append({"seed": seed, "choice": choice, "position": position, "token": v, "word": f"{word:016x}", "gumbel": gumbel(word).hex()})
    return out + [expected(v) for v in FIXED[1][1]]


def random_case(r):
    n = r.choice([1, 2, 3, 15, 16, 17, 33, 100, 700])
    scale = r.choice([0.0, 0.1, 1.0, 5.0, 30.0, 1e4])
    row = [f32(r.gauss(0, scale)) for _ in range(n)]
    if r.random() < 0.4:  # ties
        row = [float(round(x)) for x in row]
    if r.random() < 0.2:
        row = [-0.0 if x == 0 and r.random() < 0.5 else x for x in row]
    if r.random() < 0.3:
        row = [x if r.random() < 0.7 else -math.inf for x in row]
        row[r.randrange(n)] = f32(r.gauss(0, scale))
    return {"row": row, "seed": r.choice([0, 1, 2**63 - 1, r.randrange(2**63)]), "choice": r.randrange(128), "position": r.choice([0, 1, r.randrange(2**20)]),
            "temperature": r.choice([0.0, 1e-5, 0.1, 0.7, 1.0, 1.0, 1.3, 5.0, 100.0]), "top_k": r.choice([0, 0, -1, 1, 2, 5, 50, 1000]), "top_p": r.choice([1.0, 1.0, 0.999999999, 0.95, 0.5, 0.1, 1e-9]),
            "min_p": r.choice([0.0, 0.0, 0.0, 0.05, 0.5, 1.0])}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("driver", nargs="?")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--print", action="store_true")
    args = parser.parse_args()
    if args.print:
        for v in vectors():
            print(json.dumps(v))
        return 0
    failed = 0
    with open(args.page, encoding="utf-8") as f:
        on_page = [json.loads(line) for line in f if line.startswith("{")]
    for v, want in zip(on_page, vectors()):
        if v != want:
            failed += 1
            print(f"page {v}\ntwin {want}")
    if len(on_page) != len(vectors()):
        failed += 1
        print(f"{len(on_page)} vectors on the page, {len(vectors())} here")
    print(f"{len(on_page)} vectors on the page, {failed} differ")
    if args.driver is None:
        return 1 if failed else 0
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {args.count} rows")
    r = random.Random(seed)
    cases = [random_case(r) for _ in range(args.count)]
    lines = "".join(" ".join([str(c["seed"]), str(c["choice"]), str(c["position"]), c["temperature"].hex(), str(c["top_k"]), c["top_p"].hex(), c["min_p"].hex()] +
                             [x.hex() for x in c["row"]]) + "\n" for c in cases)
    ours = subprocess.run([args.driver], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")[:-1]
    if len(ours) != len(cases):
        print(f"{len(ours)} answers to {len(cases)} rows")
        return 1
    different = 0
    for c, answer in zip(cases, ours):
        chosen, logprob = sample(**c)
        got = answer.split()
        if got[0] != str(chosen) or float.fromhex(got[1]).hex() != logprob.hex():
            different += 1
            if different <= 5:
                print(f"{c}\n  engine {answer}\n  twin   {chosen} {logprob.hex()}")
    print(f"{len(cases)} rows, {different} differ")
    return 1 if failed or different else 0


if __name__ == "__main__":
    sys.exit(main())
