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

START_SECONDS = 40


def option(arguments, name):
    return int(arguments[arguments.index(name) + 1])


class Steps:
    """elastic_steps: whose content after each step is known exactly."""

    def __init__(self, build, folder, plan):
        self.build, self.folder, self.plan = build, folder, plan
        self.command = ["elastic_steps", *plan.arguments, "--record", f"{folder}/record"]

    def undisturbed(self, environment):
        arguments = list(self.plan.arguments)
        arguments[arguments.index("--work") + 1] = "0"
        return subprocess.run(["bellows-run", "-n", "1", "elastic_steps", *arguments],
                              env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120, check=True).stdout

    def faults(self, job):
        yield checks.same_result(job.output(), self.undisturbed(job.environment))
        yield checks.shares_of_steps(f"{self.folder}/record", option(self.plan.arguments, "--steps"),
                                     option(self.plan.arguments, "--batch"))


class Train:
    """bellows-train on a few small images."""

    def __init__(self, build, folder, plan):
        self.build, self.folder = build, folder
        tiny_data = os.path.join(os.path.dirname(__file__), "..", "lib", "tiny_data")
        os.makedirs(f"{folder}/data")
        subprocess.run([sys.executable, tiny_data, f"{folder}/data"], check=True)
        self.common = ["bellows-train", *plan.arguments, "--threads", "1", "--data",
                       f"fashion-mnist:{folder}/data/mnist"]
        self.command = self.common + self.files("run")

    def files(self, name):
        return ["--checkpoint-dir", f"{self.folder}/{name}", "--record-samples",
                f"{self.folder}/{name}.samples", "--metrics", f"{self.folder}/{name}.metrics"]

    def samples(self, name):
        return checks.glob.glob(f"{self.folder}/{name}.samples.*")

    def faults(self, job):
        done = subprocess.run(["bellows-run", "-n", "1", *self.common, *self.files("undisturbed")],
                              env=job.environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=300, check=False)
        if done.returncode != 0:
            yield f"the undisturbed run ends with {done.returncode}: {done.stderr[-2000:]}"
            return
        yield checks.samples_of_steps(self.samples("run"), self.samples("undisturbed"))
        yield checks.same_parameters(self.build, f"{self.folder}/run",
                                     f"{self.folder}/undisturbed")


def play(job, plan, limit, log):
    """All events. Returns what is wrong already."""
    if not job.wait_for_world(START_SECONDS):
        return "the job has ended before its first step" if not job.alive() else "no first step"
    for event in plan.events:
        if not job.run_for(event.gap):
            log("the job has ended before all had happened")
            break
        log(f"{event.kind}: {job.happen(event)}")
    if job.run_for(limit):
        job.stacks()
        return f"still running {limit} s after the last event"
    job.settle_requests()
    if job.launcher.returncode != 0:
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
        program = {"steps": Steps, "train": Train}[plan.program](options.build, folder, plan)
        job = Job(options.build, folder, plan, program.command, log)
        try:
            fault = play(job, plan, options.limit, log) or next(filter(None, program.faults(job)), "")
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
