# SPDX-License-Identifier: Apache-2.0
"""What the two benchmarks of starting have in common."""
import statistics
import subprocess
import sys
import time


def milliseconds(command, environment, ranks, tries=1):
    """From the launch of mpi_hello on so many ranks to its end, which must be in order: at the last
    of `tries` at the latest. Others' launchers may fail now and then; that is said, not measured."""
    for attempt in range(1, tries + 1):
        begun = time.monotonic()
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)
        took = 1000 * (time.monotonic() - begun)
        if done.returncode == 0 and done.stdout.count(f"of {ranks}, sum") == ranks:
            return took
        report = f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        if attempt < tries:
            print(f"attempt {attempt} failed: {report}", file=sys.stderr)
    sys.exit(report)


def row(name, times, command, peer=None, peer_times=None):
    """A result; `ratio` is how many times longer the peer took."""
    low, median, high = statistics.quantiles(times, n=4)
    return {"name": name, "value": median, "unit": "ms", "n": len(times), "median": median,
            "p25": low, "p75": high, "max": max(times), "peer": peer,
            "ratio": statistics.median(peer_times) / median if peer else None, "command": command}
