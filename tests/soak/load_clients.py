"""Closed-loop clients of an engine on loopback: `python load_clients.py URL CLIENTS`, for at most half an hour."""

from __future__ import annotations

import random
import sys
import threading
import time

import httpx

# Real traffic repeats its beginnings: this one is what most of the requests share.
SHARED_PREFIX = "the tide comes in and the tide goes out, and the gate opens and closes with it. " * 4
LONGEST_SECONDS = 1800


def client(url: str, seed: int) -> None:
    dice = random.Random(seed)
    until = time.monotonic() + LONGEST_SECONDS
    # A client of its own, kept: a new one for each request would cost more than the engine's answer.
    with httpx.Client(base_url=url, timeout=120) as http:
        while time.monotonic() < until:
            words = " ".join(str(dice.randrange(1000)) for _ in range(dice.randrange(4, 60)))
            prompt = (SHARED_PREFIX if dice.random() < 0.7 else "") + words
            body = {"model": "tiny", "prompt": prompt, "max_tokens": dice.randrange(300, 800), "ignore_eos": True}
            try:
                http.post("/v1/completions", json=body)
            except httpx.HTTPError:
                time.sleep(0.5)


def main() -> None:
    url, clients = sys.argv[1], int(sys.argv[2])
    threads = [threading.Thread(target=client, args=(url, seed)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
