"""A small recipe or more of every dataset, and their digests: ``python -m … FOLDER`` prints them.

The files are written as bytes: what is read back must not depend on the process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pytest_llmperf import custom, multi_turn, prefix_repetition, random, sharegpt, trace
from pytest_llmperf.replay.build import build_traffic
from pytest_llmperf.tokens import tokenizer_for

WORDS = "Grüße aus İstanbul, ıssız — 世界 🙂 naïve façade, Straße"  # noqa: RUF001
"""Letters that other encodings break, and that a Turkish locale would case otherwise."""


def write_files(folder):
    """Write the files that the recipes read."""
    talks = [
        {
            "conversations": [
                turn
                for more in range(1 + i % 3)
                for turn in (
                    {"from": "Human", "value": f"{i} {WORDS} {more} " * (1 + i % 5)},
                    {"from": "GPT", "value": f"{WORDS} {i} {more} " * (1 + i % 7)},
                )
            ]
        }
        for i in range(30)
    ]
    own = [
        {"prompt": f"{i}: {WORDS}", "output_tokens": 5 + i}
        if i % 2
        else {"messages": [{"role": "user", "content": WORDS * i + "?"}], "output_len": 9}
        for i in range(12)
    ]
    requests = [
        {"timestamp": 500 * i, "input_length": 40 + i, "output_length": 3 + i,
         "hash_ids": [0, 1 + i % 3, 10 + i]}
        for i in range(8)
    ]  # fmt: skip
    files = {
        "list.json": json.dumps(talks, ensure_ascii=False),
        "lines.jsonl": "\n".join(json.dumps(talk, ensure_ascii=False) for talk in talks),
        "own.jsonl": "\n".join(json.dumps(line, ensure_ascii=False) for line in own),
        "mooncake.jsonl": "\n".join(map(json.dumps, requests)),
        "azure.csv": (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n"
            "2023-11-16 18:17:03.9799600,48,10\n"
            "2023-11-16 18:17:04.0319600,31,8\n"
            "2024-03-31 02:30:00.5+02:00,20,5\n"
        ),
        "burstgpt.csv": (
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
            "5,ChatGPT,47,18,65,Conversation log\n"
            "45,GPT-4,30,0,30,API log\n"
            "118.25,GPT-4,41,27,68,Conversation log\n"
        ),
    }
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())


def recipes(folder):
    """Return recipes that together cover every dataset and every arrival process."""
    ramp = {"start_rps": 1, "end_rps": 9, "strategy": "exponential"}
    return [
        random("even", num_prompts=6, input_len=20, output_len=5),
        random("around", num_prompts=6, input_len=20, range_ratio={"input": 0.5, "output": 0.2},
               prefix_len=4, seed=3, request_rate=8),
        prefix_repetition("prefixes", num_prompts=7, num_prefixes=3, prefix_len=9, suffix_len=4,
                          request_rate=3, arrival="constant"),
        sharegpt("list", path=folder / "list.json", num_prompts=12, seed=5, request_rate=4,
                 arrival="gamma", arrival_options={"burstiness": 0.3}),
        sharegpt("lines", path=folder / "lines.jsonl", num_prompts=40, by_role=True,
                 endpoint="chat", arrival="ramp_up", arrival_options=ramp,
                 headers={"b": "1", "a": "2"}),
        custom("own", path=folder / "own.jsonl", num_prompts=15, seed=2, endpoint="chat",
               ignore_eos=False, stop=["ö"], sampling={"top_p": 0.9, "seed": 1}),
        multi_turn("talks", path=folder / "list.json", num_prompts=20, turns=(1, 2), seed=4,
                   endpoint="chat", request_rate=2, think_s=1.5, think="exponential"),
        multi_turn("text", path=folder / "lines.jsonl", num_prompts=9, think_s=0.25),
        multi_turn("ids", num_prompts=9, input_len=6, output_len=3, system_len=4,
                   max_concurrency=2),
        trace("mooncake", path=folder / "mooncake.jsonl", format="mooncake", num_prompts=8,
              block_tokens=16, speed=3),
        trace("azure", path=folder / "azure.csv", format="azure", num_prompts=3),
        trace("burstgpt", path=folder / "burstgpt.csv", format="burstgpt", num_prompts=2,
              arrival="poisson", request_rate=2),
    ]  # fmt: skip


def digests(folder):
    """Return {dataset: {recipe: digest}}."""
    write_files(folder)
    found = {}
    for spec in recipes(folder):
        traffic = build_traffic(spec, tokenizer_for(None))
        found.setdefault(spec.dataset, {})[spec.name] = traffic.digest
    return found


if __name__ == "__main__":
    print(json.dumps(digests(Path(sys.argv[1]))))
