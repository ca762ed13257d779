"""Random conversations rendered by DeepInfer and by DeepSeek's own library (PyPI deepseek-recipe 0.2.0): prompts and ranges of
control tokens must be the same bytes.

Usage: chat_oracle_test.py DRIVER [--count N] [--seed N]      DRIVER: the built chat_render_driver
Exit code 77 with the reason where the library is not installed. The seed is printed; without --seed it is fresh.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys

ORACLES = pathlib.Path(__file__).resolve().parents[2] / "build/oracles/bin/python"  # tools/install-python-oracles
VERSION = "0.2.0"
EFFORTS = {"minimal": 50, "low": 50, "medium": 75, "high": 75, "xhigh": 75, "max": 100, "ultra": 100}
LIBRARY_EFFORT = {50: "low", 75: "high", 100: "max"}
SPECIAL = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜System｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜",
           "<｜latest_reminder｜>", "<｜deepseek_image｜>", "<｜image｜>", "</｜DSML｜ calls>", "<tool_result>", "</tool_result>"]
TEXTS = ["", " ", "\n", "\n\n", "Hello", "What is 17 + 25?", "日本語", "שלום", "👩‍💻🏳️‍🌈", "é", "e\u0301", "\u0000", "\u0001\u001f\u007f", "\u2028\u2029", "\ufeff", "\uffff",
         "\U0010ffff", "a\tb\r\nc", "\"quoted\" \\ and / slash", "2>&1 </p> <in", "x" * 300, "{\"json\": 1}", "{}", "%s {0} $NAME", "\u0085\u00a0"]


def text(r, depth=3):
    parts = [r.choice(TEXTS) if r.random() < 0.7 else r.choice(SPECIAL) for _ in range(r.choice([0, 1, 1, 1, 2, 3]))]
    return "".join(parts)


def name(r):
    return r.choice(["f", "get_weather", "搜索", "deep.name-1", "a b", "q\"uote", "</think>", "｜DSML｜", "x" * 128])


def number(r):
    return r.choice([0, 1, -1, 42, 2**53, -(2**53) - 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.0, -0.0, 0.1, 1.5, -2.25, 1e15, 1e16, 1e17, 1e22, 1.5e300, 1e-4, 1e-5, 5e-324,
                     1.7976931348623157e308, 123456.789, r.random(), r.uniform(-1e6, 1e6), r.uniform(-1, 1) * 10.0 ** r.randint(-300, 300), r.randint(-(2**63), 2**64 - 1)])


def value(r, depth):
    kind = r.randrange(8 if depth > 0 else 5)
    if kind == 0:
        return r.choice([None, True, False])
    if kind in (1, 2):
        return number(r)
    if kind in (3, 4):
        return text(r)
    if kind == 5:
        return [value(r, depth - 1) for _ in range(r.randrange(4))]
    return {text(r): value(r, depth - 1) for _ in range(r.randrange(4))}


def number_text(r):
    """JSON numbers that Python would not write."""
    return r.choice(["-0", "1.50", "1e5", "1E+2", "100000000000000000000", "-9223372036854775809", "123456789012345678901234567890", "1e-400", "0.1e1", "12e-1", "1.0", "-0.0e-0", "0e0",
                     "18446744073709551616", "9007199254740993.0", "0.30000000000000004", "2.2250738585072011e-308"])


def arguments(r):
    if r.random() < 0.25:
        deep = r.choice([125, 126, 127, 128, 200])
        return r.choice(["", "{", "[1]", "null", "42", "true", '"Haifa"', "{not json", '{"a":1,}', '{"a":01}', '{"a":NaN}', '{"a":1}x', ' {"a" : 1 } ', '\ufeff{"a":1}', '{"a":"\n"}',
                         '{"a":1,"b":2,"a":{"c":1,"c":2}}', '{"a":"\\ud800"}', '{"a":"\\ud83d\\ude00\\u0000\\u00e9\\/"}', '{"a":1e400}', '{"a":-1e999}', '{"a":"\\x"}', "{'a':1}", '{"a":.5}',
                         '{"a":5.}', '{"a":+1}', '{"a":1e}', '{"a" 1}', '{"a":1 "b":2}', '{"a":tru}', '{"a":{"b":[{}, [], ""]}}', '{"a":' + "[" * deep + "]" * deep + "}"])
    items = {text(r) if r.random() < 0.3 else r.choice("abcxyz"): value(r, 3) for _ in range(r.randrange(4))}
    out = json.dumps(items, ensure_ascii=r.random() < 0.5, separators=r.choice([(",", ":"), (", ", ": "), (" ,\n", "\t:")]), indent=r.choice([None, None, 2]))
    if r.random() < 0.3:
        out = json.dumps({"k": "@@", "l": ["@@"]}).replace('"@@"', number_text(r))
    return out


def tool(r, names):
    function = {"name": name(r)}
    while function["name"] in names:
        function["name"] += "_"
    names.add(function["name"])
    if r.random() < 0.7:
        function["description"] = text(r)
    if r.random() < 0.8:
        function["parameters"] = value(r, 3) if r.random() < 0.3 else {"type": "object", "properties": {text(r): value(r, 2)}, "required": ["a"]}
        if not isinstance(function["parameters"], dict):
            del function["parameters"]
    return {"type": "function", "function": function}


def conversation(r):
    messages, ids = [], []
    for _ in range(r.choice([1, 1, 2, 3, 4, 6, 9])):
        role = r.choices(["system", "user", "assistant", "tool", "latest_reminder"], [1, 4, 4, 3, 1])[0]
        m = {"role": role, "content": text(r)}
        if role == "system" and r.random() < 0.3:
            names = set()
            m["tools"] = [tool(r, names) for _ in range(r.randrange(3))]
        if role == "assistant":
            if r.random() < 0.6:
                m["reasoning_content"] = text(r)
            if r.random() < 0.5:
                ids = [r.choice(["", "1", "2", "3", "call_%d" % i]) for i in range(r.randrange(4))]
                m["tool_calls"] = [{"id": i, "type": "function", "function": {"name": name(r), "arguments": arguments(r)}} for i in ids]
        if role == "tool" and r.random() < 0.9:
            m["tool_call_id"] = r.choice(ids or ["1"]) if r.random() < 0.9 else "unknown"
        messages.append(m)
    if messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls") and r.random() < 0.6:
        messages[-1]["prefix"] = True
    out = {"messages": messages, "thinking": r.random() < 0.6}
    if r.random() < 0.5:
        names = set()
        out["tools"] = [tool(r, names) for _ in range(r.randrange(4))]
        prefix = messages[-1].get("prefix", False)
        # Forcing a call while thinking is no valid request for the library; see docs/requests.md for what we do.
        forced = [] if out["thinking"] or prefix or not out["tools"] else ["required"]
        out["tool_choice"] = r.choice([None, "auto", "none"] + forced)
    if r.random() < 0.3:
        out["response_format"] = r.choice([{"type": "text"}, {"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "s", "schema": value(r, 3)}}, {"type": "regex", "regex": "a+"}])
    if r.random() < 0.6:
        out["reasoning_effort"] = r.choice(list(EFFORTS) + [r.randint(1, 100)])
    return out


def by_library(lib, c):
    # A request object's first system message may carry the request's own tools (docs/requests.md); the library has no such form.
    first = c["messages"][0]
    if first.get("tools") and not c.get("tools"):
        c = {**c, "tools": first["tools"], "messages": [{**first, "tools": None}] + c["messages"][1:]}

    def tools(items):
        return None if items is None else [lib.ToolDefinition(t["function"]["name"], t["function"].get("description"), t["function"].get("parameters")) for t in items]

    messages = []
    for m in c["messages"]:
        if m["role"] == "system":
            messages.append(lib.SystemMessage(m["content"], None, tools(m.get("tools"))))
        elif m["role"] == "user":
            messages.append(lib.UserMessage(m["content"]))
        elif m["role"] == "assistant":
            calls = m.get("tool_calls")
            calls = None if calls is None else [lib.ToolCall(t["id"], t["function"]["name"], t["function"]["arguments"]) for t in calls]
            messages.append(lib.AssistantMessage(m["content"], m.get("reasoning_content"), calls, m.get("prefix", False)))
        elif m["role"] == "tool":
            messages.append(lib.ToolMessage(m["content"], m.get("tool_call_id")))
        else:
            messages.append(lib.LatestReminderMessage(m["content"]))
    effort = c.get("reasoning_effort", 75)
    level = EFFORTS.get(effort, effort)
    kept = level if level in LIBRARY_EFFORT else 75
    extra, kind = {}, c.get("response_format", {"type": "text"})
    if kind["type"] == "json_object":
        extra["response_format"] = "json_object"
    elif kind["type"] == "json_schema":
        extra["response_schema"] = kind["json_schema"]["schema"]
    elif kind["type"] == "regex":
        extra["response_regex"] = kind["regex"]
    p = lib.DeepseekV41Encoding().render_conversation(lib.Conversation(
        messages, thinking_mode=c["thinking"], tools=tools(c.get("tools")), tool_choice=c.get("tool_choice") or "auto", reasoning_effort=LIBRARY_EFFORT[kept], **extra))
    at = [0]
    for character in p.prompt:
        at.append(at[-1] + len(character.encode()))
    prompt, ranges = p.prompt, [[at[s], at[e]] for s, e in p.special_ranges]
    line = "Reasoning Effort: %d (range"
    start = "<｜begin▁of▁sentence｜><｜System｜>" + line % kept
    if kept != level and c["thinking"] and prompt.startswith(start):  # the library takes names only
        prompt = prompt.replace(line % kept, line % level, 1)
        shift = len(str(level)) - len(str(kept))
        ranges = [[s, e] if i < 2 else [s + shift, e + shift] for i, (s, e) in enumerate(ranges)]
    return prompt, ranges


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("driver")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    try:
        import importlib.metadata
        import deepseek_recipe as lib
        found = importlib.metadata.version("deepseek-recipe")
    except ImportError:
        if ORACLES.exists() and pathlib.Path(sys.prefix) != ORACLES.parents[1]:
            sys.stdout.flush()
            os.execv(ORACLES, [str(ORACLES), *sys.argv])
        print(f"skipped: Python package deepseek-recipe {VERSION} is not installed")
        return 77
    if found != VERSION:
        print(f"skipped: deepseek-recipe {found} is installed; this test is written for {VERSION}")
        return 77
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {args.count} conversations")
    r = random.Random(seed)
    # A schema of null means "none given" to the library, and to us.
    cases = []
    while len(cases) < args.count:
        c = conversation(r)
        if c.get("response_format", {}).get("json_schema", {}).get("schema", 0) is not None:
            cases.append(c)
    lines = "".join(json.dumps(c, ensure_ascii=r.random() < 0.5) + "\n" for c in cases)
    ours = subprocess.run([args.driver], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")[:-1]
    if len(ours) != len(cases):
        print(f"{len(ours)} answers to {len(cases)} conversations")
        return 1
    failed = 0
    for i, (c, answer) in enumerate(zip(cases, ours)):
        got = json.loads(answer)
        prompt, ranges = by_library(lib, c)
        if got.get("prompt") != prompt or got.get("special_ranges") != ranges:
            failed += 1
            if failed <= 5:
                print(f"conversation {i}: {json.dumps(c, ensure_ascii=False)}\n  library {prompt!r}\n  ours    {got.get('prompt', got)!r}\n  ranges equal: {got.get('special_ranges') == ranges}")
    print(f"{len(cases)} conversations, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
