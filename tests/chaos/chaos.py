# SPDX-License-Identifier: Apache-2.0
"""Jobs to which things happen: ranks join, leave, stop and are killed, nodes are lost, the launcher
dies, at moments that a seed fixes; and afterwards the result must be that of a job to which nothing
happened, and nothing may be left behind. `make chaos SEEDS=20` plays the seeds 1 to 20;
FIRST=17 SEEDS=1 plays number 17 again. What a failed one has said is kept."""
import argparse
import collections
import json
import os
import resource
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import checks  # noqa: E402
from events import Events  # noqa: E402
from cluster_job import ClusterJob, cluster  # noqa: E402
from local_job import LocalJob  # noqa: E402
from plan import CLUSTER_KINDS, KINDS, make_plan  # noqa: E402
from programs import PROGRAMS  # noqa: E402

START_SECONDS = 40


class Play:
    """One seed. `counts` has how often each kind of event has hit somebody."""

    def __init__(self, plan, job, program, log):
        self.plan, self.job, self.program, self.log = plan, job, program, log
        self.events = Events(job)
        self.counts = collections.Counter()

    def happen(self, event):
        done = self.events.happen(event)
        self.counts[event.kind] += bool(done)
        self.log(f"{event.kind}: {done or 'nothing'}")

    def happen_all(self, events):
        """False when the job ends before all have happened."""
        for event in events:
            if not self.job.run_for(event.gap):
                return False
            self.happen(event)
        return True

    def play(self, limit):
        """Returns what is wrong already."""
        job, plan = self.job, self.plan
        there = job.wait_for_world(START_SECONDS)
        if not there and (job.alive() or not plan.ends_itself):
            return "no first step" if job.alive() else "the job has ended before its first step"
        if self.happen_all(plan.events) and job.run_for(plan.end_gap) and not plan.ends_itself:
            job.run_for(max(job.patient_until - time.monotonic(), 0) if plan.patient else 0)
            self.log("told to end")
            self.program.end(job)
            self.happen_all(plan.late)
        elif not job.alive() and not plan.ends_itself:
            return f"the job has ended by itself, with {job.exit_code()}"
        if job.run_for(limit):
            job.stacks()
            return f"still running {limit} s after the last event"
        job.do_all_that_is_due()
        self.events.settle_requests()
        if job.exit_code() not in self.program.codes:
            return f"exit code {job.exit_code()}"
        return ""

    def fault(self, limit):
        try:
            return (self.play(limit) or next(filter(None, self.program.faults(self.job)), "")
                    or checks.no_false_alarms(self.job, self.plan)
                    or checks.nothing_left(self.job))
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as failed:
            return f"{type(failed).__name__}: {failed}"
        finally:
            self.job.end_all()


def run_seed(options, seed, where):
    """Returns the plan, what is wrong, what has hit somebody, and the seconds it took."""
    plan = make_plan(seed, options.program, options.only, where is not None)
    folder = f"{options.keep}/seed-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    begun = time.monotonic()
    with open(f"{folder}/events", "w", encoding="utf-8", buffering=1) as events:
        def log(text):
            events.write(f"{time.monotonic() - begun:8.3f}  {text}\n")

        log(plan)
        if where:
            program = PROGRAMS[plan.program](options.build, f"/home/ember/chaos-{seed}", plan)
            job = ClusterJob(where, folder, plan, program.command, log)
        else:
            program = PROGRAMS[plan.program](options.build, folder, plan)
            job = LocalJob(options.build, folder, plan, program.command, log)
        play = Play(plan, job, program, log)
        fault = play.fault(options.limit)
        log(fault or "as it should be")
    if not fault and not options.keep_all:
        shutil.rmtree(folder)
    return plan, fault, play.counts, time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--seeds", type=int, default=10, help="how many (10)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--program", choices=["steps", "train", "both"], default="both")
    parser.add_argument("--only", type=lambda text: text.split(","),
                        help="only these events: " + ", ".join(KINDS | CLUSTER_KINDS))
    parser.add_argument("--cluster", nargs="?", const="", metavar="NAME",
                        help="jobs of elastic_steps on the Slurm cluster NAME (scripts/cluster), "
                        "which is up, or on one that is made for it")
    parser.add_argument("--limit", type=float, default=90, help="seconds for a job to end after "
                        "its last event; repairs that wait for a limit included (90)")
    parser.add_argument("--keep", help="folder for what failed runs have left, and for "
                        "summary.json (BUILD/chaos)")
    parser.add_argument("--keep-all", action="store_true", help="of all runs")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.keep = os.path.abspath(options.keep or f"{options.build}/chaos")
    os.environ["PATH"] = f"{options.build}/bin:{options.build}/tests:{os.environ['PATH']}"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if options.cluster is None:
        return play_all(options, None)
    options.program = "steps"
    with cluster(options.cluster, options.build) as where:
        return play_all(options, where)


def play_all(options, where):
    summary = {"passed": 0, "failed": [], "programs": collections.Counter(),
               "events": collections.Counter(), "seconds": 0}
    for seed in range(options.first, options.first + options.seeds):
        plan, fault, counts, seconds = run_seed(options, seed, where)
        print(f"{'FAIL' if fault else 'ok  '}  seed {seed}: {plan} ({seconds:.1f} s)", flush=True)
        if fault:
            summary["failed"].append(seed)
            print(f"      {fault}\n      see {options.keep}/seed-{seed}", flush=True)
        summary["passed"] += not fault
        summary["programs"][plan.program] += 1
        summary["events"] += counts
        summary["seconds"] = round(summary["seconds"] + seconds, 1)
        with open(f"{options.keep}/summary.json", "w", encoding="utf-8") as file:
            json.dump(summary, file, indent=2)
    print("events: " + ", ".join(f"{n} {kind}" for kind, n in summary["events"].most_common()))
    print(f"{summary['passed']} passed, {len(summary['failed'])} failed")
    return 1 if summary["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
