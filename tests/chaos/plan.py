# SPDX-License-Identifier: Apache-2.0
"""What a seed stands for: the size of the job, its options, and what happens to it, and when. The
same seed gives the same plan; whom an event hits is drawn from the seed too, among those who are
there at that moment."""
import random
from dataclasses import dataclass, field

MOST_RANKS = 8

# What can happen, and how often.
KINDS = {
    "join": 24,    # one to three ranks more
    "leave": 12,   # one or two named ranks go
    "shrink": 8,   # so many go, the launcher says which
    "kill": 26,    # one rank, kill -9; joiners too
    "massacre": 8,  # several at once, up to all but one
    "node": 8,     # an agent, kill -9: its ranks die with it
    "stop": 6,     # SIGSTOP a rank, for good
    "handover": 6,  # new ranks are asked for, and all others to leave
    "pause": 8,    # SIGSTOP a rank, and SIGCONT before anybody can hold it for dead
}


@dataclass
class Event:
    gap: float  # seconds after the one before
    kind: str
    draw: random.Random = field(repr=False)


@dataclass
class Plan:
    seed: int
    program: str
    ranks: int
    nodes: int
    arguments: list  # of the program
    seconds: float   # that the job should last at least, for all events to find it
    events: list

    def __str__(self):
        kinds = " ".join(e.kind for e in self.events)
        return (f"{self.program}, {self.ranks} ranks on {self.nodes} nodes, "
                f"{' '.join(self.arguments)}: {kinds}")


def draw_gap(draw):
    """Often so soon that the change before is still going on."""
    span = draw.choice([(0, 0.05), (0.05, 0.4), (0.05, 0.4), (0.4, 1.5), (0.4, 1.5)])
    return round(draw.uniform(*span), 3)


def make_plan(seed, program, only=None):
    draw = random.Random(f"bellows {seed}")
    if program == "both":
        program = draw.choice(["steps", "train"])
    ranks, nodes = draw.randint(1, 5), draw.randint(1, 3)
    kinds = {k: w for k, w in KINDS.items() if only is None or k in only}
    events = []
    for i in range(draw.randint(1, 6)):
        kind = draw.choices(list(kinds), list(kinds.values()))[0]
        events.append(Event(draw_gap(draw), kind, random.Random(f"bellows {seed} {i}")))
    seconds = sum(e.gap for e in events) + 1.5
    if program == "steps":
        work = draw.choice([2, 5, 10])
        steps = int(seconds * 1000 / (work + 2))
        arguments = ["--steps", str(steps), "--work", str(work),
                     "--buckets", str(draw.randint(1, 3)),
                     "--bytes", str(draw.choice([8, 1 << 16, 1 << 20, 1 << 22])),
                     "--batch", str(draw.choice([5, 64, 100]))]
    else:
        # So low a rate that rounding is not blown up to what a missing batch would do (checks.py).
        model, width, rate = draw.choice([("mlp", 256, 80)] * 3 + [("cnn", 16, 25)])
        arguments = ["--model", model, "--width", str(width), "--lr", "0.0005",
                     "--batch", str(draw.choice([24, 50])), "--steps", str(int(seconds * rate))]
        if draw.random() < 0.4:
            arguments += ["--checkpoint-every", str(draw.randint(5, 40))]
    return Plan(seed, program, ranks, nodes, arguments, seconds, events)
