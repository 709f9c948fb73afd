# SPDX-License-Identifier: Apache-2.0
"""What must be true when a job has ended. Each check returns what is wrong, in words, or nothing."""
import glob
import json
import re
import subprocess
import time


def files(*patterns):
    return [path for pattern in patterns for path in glob.glob(pattern)]


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def read_lines(paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            yield from lines(file.read())


# ---- elastic_steps ---------------------------------------------------------------------------


def end_was_lost(said):
    """Whether the node of the last world's rank 0 was lost with what rank 0 had to say at the end."""
    since_last_world = re.split(r"\bworld \d+: \d+ ranks ", said)[-1]
    return re.search(r"\brank 0 on \S+ was lost with its node", since_last_world) is not None


def same_result(output, undisturbed, may_be_lost=False):
    """All ranks that came to the end, in whatever world, must say the same."""
    finals = set(re.findall(r"^final .*$", output, re.MULTILINE))
    expected = set(re.findall(r"^final .*$", undisturbed, re.MULTILINE))
    if finals != expected and not (may_be_lost and not finals):
        return f"the result is {finals or 'missing'}, not {expected}"
    return ""


def shares_of_steps(record, steps, batch):
    """Each step's batch was used once: the shares in the last world that committed it are all of it."""
    shares, committed = {}, {}
    for line in record:
        key = line["step"], line["epoch"]
        if line["event"] == "share":
            shares.setdefault(key, []).append((line["first"], line["last"]))
        elif line["event"] == "commit":
            committed[line["step"]] = max(line["epoch"], committed.get(line["step"], 0))
    for step in range(1, steps + 1):
        if step not in committed:
            return f"nobody has committed step {step}"
        at = 0
        for first, last in sorted(shares.get((step, committed[step]), [])):
            if first != at:
                return f"step {step}, epoch {committed[step]}: samples {at} to {first} are " + (
                    "in nobody's share" if first > at else "in two shares")
            at = last
        if at != batch:
            return f"step {step}, epoch {committed[step]}: samples from {at} are in nobody's share"
    return ""


# ---- bellows-train ---------------------------------------------------------------------------


def samples_of_steps(paths, undisturbed):
    """As above, from the samples' ids. A rank that died after it had given its share has not noted
    it, so of the last world some may be missing; but nothing twice, and nothing of another step."""
    def by_step(files):
        steps = {}
        for line in read_lines(files):
            steps.setdefault(line["step"], {}).setdefault(line["epoch"], []).append(line["ids"])
        return steps

    expected = by_step(undisturbed)
    found = by_step(paths)
    if sorted(found) != sorted(expected):
        missing = sorted(set(expected) - set(found))
        return f"steps that nobody has committed: {missing}"
    for step, worlds in found.items():
        ids = [i for share in worlds[max(worlds)] for i in share]
        whole = [i for shares in expected[step].values() for share in shares for i in share]
        if len(set(ids)) != len(ids):
            return f"step {step}, epoch {max(worlds)}: a sample is used twice"
        if not set(ids) <= set(whole):
            return f"step {step}, epoch {max(worlds)}: a sample of another step"
    return ""


def same_parameters(build, folder, undisturbed):
    """Of the newest checkpoints. Another number of ranks rounds otherwise: 300 steps on one rank and
    on four differ by 6e-8 to 1e-7. One batch that is left out or done twice is 7e-4."""
    done = subprocess.run([f"{build}/bin/bellows-ckpt", "diff", "--tolerance", "1e-5", "--only",
                           "parameters", folder, undisturbed],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"bellows-ckpt diff ends with {done.returncode}: {done.stdout[-2000:]}{done.stderr}"
    return ""


# ---- any job ---------------------------------------------------------------------------------


def no_false_alarms(job, plan):
    """Nobody is held for silent but those who were made to be."""
    silent = len(re.findall(r"node .* is lost: no sign of life", job.read("err")))
    made = sum(e.kind in ("freeze", "cut", "power") for e in plan.events + plan.late)
    return f"{silent} nodes were silent, not {made}" if silent > made else ""


def nothing_left(job):
    until = time.monotonic() + 20
    left = job.left()
    while left and time.monotonic() < until:
        time.sleep(0.05)
        left = job.left()
    return "left behind: " + " ".join(left) if left else ""
