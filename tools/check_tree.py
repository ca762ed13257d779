#!/usr/bin/env python3
"""House rules that a compiler does not see: includes follow the arrows between layers, every test is built, every operation has its files,
public types and functions are documented, files stay readable. Prints what is wrong and exits 1, else prints one line."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A layer may include itself and these. Arrows point down only.
LAYERS = {
    "base": [],
    "numerics": ["base"],
    "checkpoint": ["base", "numerics"],
    "text": ["base"],
    "sampling": ["base", "numerics"],
    "backend": ["base", "numerics"],
    "state": ["base", "numerics", "checkpoint", "backend"],
    "model": ["base", "numerics", "checkpoint", "backend", "state"],
    "engine": ["base", "numerics", "checkpoint", "text", "sampling", "backend", "state", "model"],
    "verify": ["base", "numerics", "checkpoint", "text", "sampling", "backend", "state", "model", "engine"],
    "cli": ["base", "numerics", "checkpoint", "text", "sampling", "backend", "state", "model", "engine", "verify"],
}
MAX_LINES = 450


def sources(*folders):
    for folder in folders:
        yield from sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cc"))


def check_includes():
    for path in sources("src", "include"):
        relative = path.relative_to(ROOT)
        layer = relative.parts[1] if relative.parts[0] == "src" else "public"
        if layer != "public" and layer not in LAYERS:
            yield f"{relative}: folder src/{layer} is not listed in tools/check_tree.py"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'#include "([a-z_]+)/', line)
            if not match or match[1] == "deepinfer":
                continue
            target = match[1]
            if layer == "public":
                yield f"{relative}:{number}: a public header includes {target}/"
            elif target != layer and target not in LAYERS[layer]:
                yield f"{relative}:{number}: {layer} must not include {target}/"
        if layer == "public" and re.search(r"#include <(fmt|spdlog|nlohmann|CLI|utf8proc|boost)", path.read_text()):
            yield f"{relative}: a third-party header in the public API"


def check_tests():
    for path in sorted((ROOT / "tests").rglob("*_test.*")):
        if path.suffix not in (".cc", ".py"):
            continue
        listing = path.parent / "CMakeLists.txt"
        if not listing.exists() or path.name not in listing.read_text():
            yield f"{path.relative_to(ROOT)}: not in {listing.relative_to(ROOT)}, so it is never run"


def check_operations():
    for header in sorted((ROOT / "src/backend/ops").glob("*.h")):
        if header.name == "types.h":
            continue
        for folder in ("reference", "cpu"):
            if not (ROOT / "src/backend" / folder / (header.stem + ".cc")).exists():
                yield f"src/backend/ops/{header.name}: no src/backend/{folder}/{header.stem}.cc"


def check_documentation():
    for path in sources("include", "src"):
        relative = path.relative_to(ROOT)
        text = path.read_text()
        if path.suffix == ".h" and not text.startswith("//"):
            yield f"{relative}: a header begins with a comment that says what it is for"
        if len(text.splitlines()) > MAX_LINES:
            yield f"{relative}: {len(text.splitlines())} lines, at most {MAX_LINES}"
        if relative.parts[0] != "include":
            continue
        yield from undocumented(relative, text.splitlines())


def undocumented(relative, lines):
    """Public declarations whose block of lines does not begin with a comment and that have none at their end."""
    private = False
    for number, raw in enumerate(lines):
        line = raw.strip()
        if re.match(r"(private|public):", line):
            private = line.startswith("private")
        if line == "};":
            private = False
        if private or raw.startswith("    ") or not re.match(r"((enum )?(class|struct) \w+.*\{|.*\w\(.*\)( const)?;$)", line) or "= default" in line:
            continue
        above = number
        while above > 0 and lines[above - 1].strip() and not lines[above - 1].strip().startswith("//"):
            above -= 1
        documented = above > 0 and lines[above - 1].strip().startswith("//")
        type_of_file = not any(re.match(r"(enum )?(class|struct) \w+.*\{", x) for x in lines[:number])
        if not documented and "//" not in line and not type_of_file:
            yield f"{relative}:{number + 1}: not documented: {line}"


def main():
    problems = [p for check in (check_includes, check_tests, check_operations, check_documentation) for p in check()]
    for problem in problems:
        print(problem)
    if not problems:
        print("tree: includes follow the arrows, every test is built, every operation has its files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
