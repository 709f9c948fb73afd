# SPDX-License-Identifier: Apache-2.0
"""resize_cluster.py PROGRAMS resize|restart ROUNDS STEP: what tests/bench/resize measures, on a node
of its cluster. Prints the values by name. The containers have one clock, so the moments in the
ranks' record can be compared with those of this program."""
import json
import os
import statistics
import subprocess
import sys
import threading
import time

LIMIT = 60
STEPS_BETWEEN = 8  # of each world, for an ordinary step's time
POLL = 0.005


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT).stdout


def until(what, condition):
    end = time.monotonic() + LIMIT
    while not (found := condition()):
        if time.monotonic() > end:
            sys.exit(f"no {what} in {LIMIT} s")
        time.sleep(POLL)
    return found


class Job:
    """elastic_steps on so many nodes."""

    def __init__(self, programs, nodes, step, elastic):
        options = "--elastic auto" if elastic else f"-n {nodes} --ranks-per-node 1"
        script = (f"{programs}/bin/bellows-run {options} {programs}/tests/elastic_steps --steps "
                  f"100000000 --bytes 4096 --work {step} --record $HOME/bench-$SLURM_JOB_ID.steps")
        environment = dict(os.environ, BELLOWS_ELASTIC="1-3") if elastic else None
        chosen = ["-w", "n1"] if elastic else []
        self.id = subprocess.run(
            ["sbatch", "--parsable", "--no-kill", "--exclusive", f"-N{nodes}", *chosen,
             "--output=bench-%j.out", "--wrap", script],
            env=environment, check=True, capture_output=True, text=True,
            timeout=LIMIT).stdout.strip()
        self.record = os.path.expanduser(f"~/bench-{self.id}.steps")
        self.read, self.rest, self.seen = 0, "", []

    def commits(self):
        """(epoch, step, ranks, seconds) of all commits so far."""
        if os.path.exists(self.record):
            with open(self.record, encoding="utf-8") as record:
                record.seek(self.read)
                text = self.rest + record.read()
                self.read = record.tell()
            *lines, self.rest = text.split("\n")
            for line in lines:
                if '"commit"' in line:
                    one = json.loads(line)
                    self.seen.append((one["epoch"], one["step"], one["ranks"],
                                      one["microseconds"] / 1e6))
        return self.seen

    def steps(self, epoch):
        """When each step of this epoch was first committed."""
        first = {}
        for number, step, _, moment in self.commits():
            if number == epoch:
                first[step] = min(moment, first.get(step, moment))
        return sorted(first.values())

    def world(self, ranks):
        """The newest epoch, once it has so many ranks and some steps."""
        def stands():
            commits = self.commits()
            epoch = max((c[0] for c in commits), default=0)
            size = {c[2] for c in commits if c[0] == epoch}
            return epoch if size == {ranks} and len(self.steps(epoch)) >= STEPS_BETWEEN else None
        return until(f"world of {ranks} ranks", stands)

    def resize(self, size):
        """Moments of the request and of its answer, and its report."""
        begun = time.time()
        report = json.loads(output("bellows", "--job", self.id, "resize", f"--nodes={size}",
                                   "--json"))
        return begun, time.time(), report

    def cancel(self):
        output("scancel", self.id)

    def is_over(self):
        return not output("squeue", "-h", "-j", self.id)


class IdleWatch(threading.Thread):
    """Notes when sinfo first shows a node idle."""

    def __init__(self, node):
        super().__init__()
        self.node, self.moment = node, None
        self.start()

    def run(self):
        until(f"idle {self.node}", lambda: output("sinfo", "-h", "-n", self.node, "-p", "main", "-o",
                                                  "%T").strip() == "idle")
        self.moment = time.time()


def stop(job, before, after):
    times = job.steps(after)
    ordinary = statistics.median(b - a for a, b in zip(times, times[1:]))
    return max(times[0] - job.steps(before)[-1] - ordinary, 0)


def resizes(programs, rounds, step):
    measured = {}

    def keep(name, value):
        measured.setdefault(name, []).append(value)

    job = Job(programs, 2, step, True)
    small = job.world(2)
    for _ in range(rounds):
        begun, answered, report = job.resize("+1")
        large = job.world(3)
        parts = report["seconds"]
        keep("grow, to the first step", job.steps(large)[0] - begun)
        keep("grow, answered", answered - begun)
        for part, name in (("allocation", "Slurm"), ("agents", "agents"), ("warm_up", "warm-up"),
                           ("join", "join")):
            keep(f"grow, {name}", parts[part])
        keep("grow, stop", stop(job, small, large))
        watch = IdleWatch(report["added"][0])
        begun, answered, report = job.resize("-1")
        watch.join()
        parts = report["seconds"]
        small = job.world(2)
        keep("shrink, answered", answered - begun)
        keep("shrink, ranks leave", parts["leave"])
        keep("shrink, Slurm", parts["give_back"])
        keep("shrink, stop", stop(job, large, small))
        keep("release to idle, from the request", watch.moment - begun)
        keep("release to idle, from the answer", max(watch.moment - answered, 0))
    job.cancel()
    until("end", job.is_over)
    return measured


def restarts(programs, rounds, step):
    measured = []
    job = Job(programs, 2, step, False)
    job.world(2)
    for turn in range(rounds):
        size = 3 if turn % 2 == 0 else 2
        begun = time.time()
        job.cancel()
        job = Job(programs, size, step, False)
        measured.append(job.steps(job.world(size))[0] - begun)
    job.cancel()
    until("end", job.is_over)
    return {"restart, to the first step": measured}


def main():
    programs, kind, rounds, step = sys.argv[1:]
    measure = resizes if kind == "resize" else restarts
    print(json.dumps(measure(programs, int(rounds), step)))


main()
