#!/usr/bin/env python3
"""Write src/text/unicode_classes.inc: the letter, mark, number, punctuation and symbol classes of Unicode 16.0.

usage: make_unicode_classes.py > src/text/unicode_classes.inc

Needs PyPI unicodedata2 16.0.0, since the classes must be those of one Unicode version whatever Python or C library is at hand.
"""
import sys

import unicodedata2

LETTERS = "LMNPS"  # bit i of the class is LETTERS[i]; everything else (separators, control, unassigned, ...) is 0


def main():
    if unicodedata2.unidata_version != "16.0.0":
        sys.exit(f"unicodedata2 has Unicode {unicodedata2.unidata_version}, 16.0.0 is needed")
    entries, last = [], None
    for c in range(0x110000):
        at = LETTERS.find(unicodedata2.category(chr(c))[0])
        bits = 0 if at < 0 else 1 << at
        if bits != last:
            entries.append(c << 5 | bits)
            last = bits
    print("// Made by tools/make_unicode_classes.py from Unicode 16.0: code point << 5 | class, where a class begins.")
    for i in range(0, len(entries), 11):
        print(" ".join(f"{e:#x}," for e in entries[i:i + 11]))


main()
