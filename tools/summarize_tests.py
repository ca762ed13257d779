#!/usr/bin/env python3
"""Prints the reason of every skipped test and, last, "N passed, N failed, N skipped", from CTest's JUnit file."""
import re
import sys
import xml.etree.ElementTree as ET


def reason(output):
    """The line after GoogleTest's "Skipped", or a line "skipped: reason" of a script."""
    lines = [line.strip() for line in output.splitlines()]
    for i, line in enumerate(lines):
        if re.search(r":\d+: Skipped$", line):
            return " ".join(x for x in lines[i + 1:i + 3] if x and not x.startswith("["))
        if line.lower().startswith("skipped:"):
            return line
    return "no reason printed"


def main(path):
    passed = failed = skipped = 0
    for case in ET.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        if status == "run":
            passed += 1
        elif status in ("notrun", "disabled"):
            skipped += 1
            print(f"skipped {case.get('name')}: {reason(case.findtext('system-out') or '')}")
        else:
            failed += 1
            print(f"failed {case.get('name')}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
