"""The server under load: two clients on loopback, one request after another, then batches of 256.

Then the sliders of its page in Chromium, if playwright and Debian's chromium are installed.

    python benchmarks/bench_serving.py [RUN] [--seconds 60]

Prints requests per second, p50 and p99, errors, and the server's memory before and after. Without a RUN, one is trained
on ml10m first. Server and clients share the machine.
"""

import argparse
import json
import multiprocessing
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from paper_data import data_folder

CLIENTS = 2
MOVES = """async () => {
  const slider = document.getElementById('item'), first = () => document.querySelector('#now-list li');
  const taken = [];
  for (let move = 0; move < 100; move++) {
    const before = first(), start = performance.now();
    slider.value = move % 21;
    slider.dispatchEvent(new Event('input'));
    const figures = performance.now() - start;
    while (first() === before) await new Promise((done) => setTimeout(done, 1));
    taken.push([figures, performance.now() - start]);
  }
  return taken;
}"""
BATCH = 256


def exchange(connection: socket.socket, request: bytes) -> tuple[int, bytes]:
    """Status and body of a request on a connection that is kept open."""
    connection.sendall(request)
    data = connection.recv(1 << 16)
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += connection.recv(1 << 16)
    length = int(data[:end].lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    parts, got = [data[end + 4 :]], len(data) - end - 4
    while got < length:
        parts.append(connection.recv(1 << 20))
        got += len(parts[-1])
    return int(data[9:12]), b"".join(parts)


def get(user: int, k: int = 20) -> bytes:
    return f"GET /recommend?user={user}&k={k} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def post(users: list[int], k: int = 20) -> bytes:
    body = json.dumps({"users": users, "k": k})
    head = "POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def client(port: int, users: int, batch: int, seconds: float, seed: int, results: "multiprocessing.Queue") -> None:  # type: ignore[type-arg]
    """Asks for random users until the time is up; puts the seconds of each request, and the errors."""
    draw = random.Random(seed)
    taken, errors = [], 0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        stop = time.perf_counter() + seconds
        while (start := time.perf_counter()) < stop:
            request = get(draw.randrange(users)) if batch == 1 else post(draw.sample(range(users), batch))
            status, body = exchange(connection, request)
            taken.append(time.perf_counter() - start)
            errors += status != 200 or body.count(b'"score"') != 20 * batch
    results.put((taken, errors))


def load(port: int, users: int, batch: int, seconds: float) -> tuple[float, list[float], int]:
    """Users answered per second, the sorted seconds of all requests, and the errors."""
    results = multiprocessing.Queue()  # type: ignore[var-annotated]
    clients = [
        multiprocessing.Process(target=client, args=(port, users, batch, seconds, seed, results))
        for seed in range(CLIENTS)
    ]
    for process in clients:
        process.start()
    done = [results.get() for _ in clients]
    for process in clients:
        process.join()
    taken = sorted(t for each, _ in done for t in each)
    return batch * len(taken) / seconds, taken, sum(errors for _, errors in done)


def memory(pid: int) -> float:
    """Resident memory of a process in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def move_sliders(base: str) -> None:
    """Prints how long a move takes until the figures are shown, and until the user's lists are."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("sliders: not measured (playwright or chromium is missing)")
        return
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(base)
        page.wait_for_selector("#now-list li")
        figures, lists = (sorted(column) for column in zip(*page.evaluate(MOVES), strict=True))
        browser.close()
    print(
        f"sliders, {len(figures)} moves: figures p50 {figures[50]:.1f} ms, longest {figures[-1]:.1f} ms; "
        f"with the user's lists p50 {lists[50]:.1f} ms, longest {lists[-1]:.1f} ms"
    )


def train(folder: str) -> str:
    words = [sys.executable, "-m", "counterpop"]
    source, split, run = str(data_folder() / "ml10m.npz"), f"{folder}/split", f"{folder}/run"
    for command in (
        ["split", source, "--protocol", "as-given", "--out", split],
        ["train", split, "--no-refit", "--out", run],
        ["tune", run],
    ):
        subprocess.run([*words, *command, "--json"], stdout=subprocess.DEVNULL, check=True)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?")
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run or train(folder)
        words = [sys.executable, "-m", "counterpop", "serve", run, "--port", "0"]
        server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        try:
            port = next(int(found[1]) for line in server.stderr if (found := re.search(r":(\d+)/", line)))  # type: ignore[union-attr]
            base = f"http://127.0.0.1:{port}"
            with urllib.request.urlopen(f"{base}/readyz") as answer:
                users = json.load(answer)["users"]
            start = time.perf_counter()
            while urllib.request.urlopen(f"{base}/measures").status == 202:  # which takes some seconds after a start
                time.sleep(0.2)
            print(f"sliders measured {time.perf_counter() - start:.1f} s after the start")
            load(port, users, 1, 2.0)
            before = memory(server.pid)
            for batch in (1, BATCH):
                rate, taken, errors = load(port, users, batch, arguments.seconds)
                p50, p99 = (1e3 * taken[int(part * len(taken))] for part in (0.5, 0.99))
                name = "single users" if batch == 1 else f"batches of {batch}"
                print(
                    f"{name}: {rate:,.0f} users/s over {arguments.seconds:g} s, p50 {p50:.2f} ms, "
                    f"p99 {p99:.2f} ms, longest {1e3 * taken[-1]:.1f} ms, {errors} errors; "
                    f"memory {before:.0f} -> {memory(server.pid):.0f} MB",
                    flush=True,
                )
                before = memory(server.pid)
            move_sliders(base)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
