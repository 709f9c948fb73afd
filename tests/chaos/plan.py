# SPDX-License-Identifier: Apache-2.0
"""What a seed stands for: the size of the job, its options, and what happens to it, and when. The
same seed gives the same plan; whom an event hits is drawn from the seed too, among those who are
there at that moment."""
import random
from dataclasses import dataclass, field

# What can happen, and how often.
KINDS = {
    "join": 24,    # one to three ranks more
    "leave": 12,   # one or two named ranks go
    "shrink": 8,   # so many go, the launcher says which
    "kill": 22,    # one rank, kill -9; joiners too
    "abort": 5,    # one rank, SIGABRT
    "massacre": 8,  # several at once, up to all but one
    "node": 8,     # an agent, kill -9: its ranks die with it
    "stop": 6,     # SIGSTOP a rank, for good
    "handover": 6,  # new ranks are asked for, and all others to leave
    "pause": 8,    # SIGSTOP a rank, and SIGCONT before anybody can hold it for dead
    "launcher": 6,  # kill -9 of bellows-run, and another takes over; ranks may die in between
    "freeze": 6,   # SIGSTOP an agent: its ranks go on until its silence is noticed
    "cut": 8,      # SIGSTOP an agent and its ranks, and SIGCONT, as a rule too late
}

# On a cluster: not the launcher, whose end is Slurm's for the job; but whole nodes.
CLUSTER_KINDS = {
    "join": 20, "leave": 8, "shrink": 5, "kill": 18, "abort": 4, "massacre": 6, "node": 8, "stop": 4,
    "handover": 4, "pause": 5, "freeze": 4,
    "cut": 8,      # no packet comes or goes; it is over too late
    "power": 8,    # kill -9 of the node; it is started again some seconds later
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
    arguments: list    # of the program
    batch: int
    ends_itself: bool  # after `steps`, whether all has happened by then or not; else when it is told
    steps: int         # about as many as the events need here
    code: int          # with which a training ends that is told to
    events: list
    end_gap: float     # from the last event to the word to end
    late: list         # events after that word
    patient: bool      # not to be told to end before silence has been noticed
    far_agents: bool   # that the launcher's SIGKILL does not reach

    @property
    def silences(self):
        return any(e.kind in ("freeze", "cut") for e in self.events + self.late)

    def __str__(self):
        kinds = [e.kind for e in self.events]
        kinds += [f"({self.steps} steps)"] if self.ends_itself else ["end"]
        kinds += [e.kind for e in self.late]
        return (f"{self.program}, {self.ranks} ranks on {self.nodes} "
                f"{'far ' if self.far_agents else ''}nodes, "
                f"{' '.join(self.arguments)}: {' '.join(kinds)}")


def draw_gap(draw):
    """Often so soon that the change before is still going on."""
    span = draw.choice([(0, 0.05), (0.05, 0.4), (0.05, 0.4), (0.4, 1.5), (0.4, 1.5)])
    return round(draw.uniform(*span), 3)


def draw_event(draw, kinds, key):
    kind = draw.choices(list(kinds), list(kinds.values()))[0]
    return Event(draw_gap(draw), kind, random.Random(f"bellows {key}"))


def make_plan(seed, program, only=None, cluster=False):
    draw = random.Random(f"bellows {seed}")
    if program == "both":
        program = draw.choice(["steps", "train"])
    ranks, nodes = draw.randint(1, 5), draw.randint(1, 3)
    if cluster:
        ranks, nodes = draw.randint(2, 7), 4
    kinds = CLUSTER_KINDS if cluster else KINDS
    kinds = {k: w for k, w in kinds.items() if only is None or k in only}
    ends_itself = draw.random() < 0.15 and kinds.keys() != {"launcher"}
    if ends_itself:  # if it ends without its launcher, nobody is there to tell how
        kinds.pop("launcher", None)
    events = [draw_event(draw, kinds, f"{seed} {i}") for i in range(draw.randint(1, 6))]
    if any(e.kind in ("freeze", "cut") for e in events):  # there must be a node that can be lost
        nodes = max(nodes, 2)
        ranks = max(ranks, nodes)
    seconds = sum(e.gap for e in events) + 1.5
    if program == "steps":
        work = draw.choice([2, 5, 10])
        size = draw.choice([8, 1 << 16, 1 << 20, 1 << 22])
        rate = 1000 / (work + 2 + size / (1 << 17))
        batch = draw.choice([5, 64, 100])
        arguments = ["--work", str(work), "--buckets", str(draw.randint(1, 3)),
                     "--bytes", str(size)]
    else:
        # So low a rate that rounding is not blown up to what a missing batch would do (checks.py).
        model, width, rate = draw.choice([("mlp", 256, 80)] * 3 + [("cnn", 16, 25)])
        batch = draw.choice([24, 50])
        arguments = ["--model", model, "--width", str(width), "--lr", "0.0005"]
        if draw.random() < 0.4:
            arguments += ["--checkpoint-every", str(draw.randint(5, 40))]
    arguments += ["--batch", str(batch)]
    late = []
    if draw.random() < 0.3 and not ends_itself:
        others = {k: w for k, w in kinds.items() if k != "launcher"} or kinds
        late = [draw_event(draw, others, f"{seed} late {i}") for i in range(draw.randint(1, 2))]
    return Plan(seed, program, ranks, nodes, arguments, batch, ends_itself, int(seconds * rate),
                draw.choice([85, 85, 7]), events, draw_gap(draw), late,
                draw.random() < 0.8, not cluster and draw.random() < 0.5)
