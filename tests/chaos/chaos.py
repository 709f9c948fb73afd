# SPDX-License-Identifier: Apache-2.0
"""Jobs to which things happen: ranks join, leave, stop and are killed, nodes are lost, at moments
that a seed fixes; and afterwards the result must be that of a job to which nothing happened, and
nothing may be left behind. `make chaos SEEDS=20` plays the seeds 1 to 20; FIRST=17 SEEDS=1 plays
number 17 again. What a failed one has said is kept."""
import argparse
import os
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import checks  # noqa: E402
from job import Job  # noqa: E402
from plan import KINDS, make_plan  # noqa: E402
from programs import PROGRAMS  # noqa: E402

START_SECONDS = 40


def play(job, program, plan, limit, log):
    """All events. Returns what is wrong already."""
    if not job.wait_for_world(START_SECONDS) and not (plan.ends_itself and not job.alive()):
        return "no first step" if job.alive() else "the job has ended before its first step"
    for event in plan.events:
        if not job.run_for(event.gap):
            break
        log(f"{event.kind}: {job.happen(event)}")
    if job.run_for(plan.end_gap) and not plan.ends_itself:
        log("told to end")
        program.end(job)
        for event in plan.late:
            if not job.run_for(event.gap):
                break
            log(f"{event.kind}: {job.happen(event)}")
    elif not job.alive() and not plan.ends_itself:
        return f"the job has ended by itself, with {job.launcher.returncode}"
    if job.run_for(limit):
        job.stacks()
        return f"still running {limit} s after the last event"
    job.settle_requests()
    if job.launcher.returncode not in program.codes:
        return f"exit code {job.launcher.returncode}"
    return ""


def run_seed(options, seed):
    """Returns a line of what was played, and what is wrong with it."""
    plan = make_plan(seed, options.program, options.only)
    folder = f"{options.keep}/seed-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    begun = time.monotonic()
    with open(f"{folder}/events", "w", encoding="utf-8", buffering=1) as events:
        def log(text):
            events.write(f"{time.monotonic() - begun:8.3f}  {text}\n")

        log(plan)
        program = PROGRAMS[plan.program](options.build, folder, plan)
        job = Job(options.build, folder, plan, program.command, log)
        try:
            fault = play(job, program, plan, options.limit, log)
            fault = fault or next(filter(None, program.faults(job)), "")
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as failed:
            fault = f"{type(failed).__name__}: {failed}"
        finally:
            if job.alive():
                job.end_all()
        fault = fault or checks.nothing_left(job)
        job.end_all()
        log(fault or "as it should be")
    if not fault:
        shutil.rmtree(folder)
    return plan, fault, time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--seeds", type=int, default=10, help="how many (10)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--program", choices=["steps", "train", "both"], default="both")
    parser.add_argument("--only", type=lambda text: text.split(","),
                        help="only these events: " + ", ".join(KINDS))
    parser.add_argument("--limit", type=float, default=90, help="seconds for a job to end after "
                        "its last event; repairs that wait for a limit included (90)")
    parser.add_argument("--keep", help="folder for what failed runs have left (BUILD/chaos)")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.keep = os.path.abspath(options.keep or f"{options.build}/chaos")
    os.environ["PATH"] = f"{options.build}/bin:{options.build}/tests:{os.environ['PATH']}"
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        plan, fault, seconds = run_seed(options, seed)
        print(f"{'FAIL' if fault else 'ok  '}  seed {seed}: {plan} ({seconds:.1f} s)", flush=True)
        if fault:
            failed += 1
            print(f"      {fault}\n      see {options.keep}/seed-{seed}", flush=True)
    print(f"{options.seeds - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
