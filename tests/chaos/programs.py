# SPDX-License-Identifier: Apache-2.0
"""The programs that are played: how each is started and told to end, and what must have come of it.
Most go on until they are told, so that all events find them on a machine of any speed; the others
have a number of steps that a machine of two cores needs about as long for."""
import glob
import os
import re
import subprocess
import sys

import checks

ENDLESS = str(10**8)


class Steps:
    """elastic_steps: whose content after each step is known exactly."""

    def __init__(self, _build, folder, plan):
        self.folder, self.plan = folder, plan
        self.own_steps = ["--steps", str(plan.steps) if plan.ends_itself else ENDLESS]
        self.command = ["elastic_steps", *plan.arguments, *self.own_steps, "--record",
                        f"{folder}/record", "--end", f"{folder}/end"]
        self.codes = (0,)

    def end(self, _job):
        with open(f"{self.folder}/end", "w", encoding="utf-8"):
            pass

    def undisturbed(self, environment, steps):
        arguments = list(self.plan.arguments)
        arguments[arguments.index("--work") + 1] = "0"
        return subprocess.run(["bellows-run", "-n", "1", "elastic_steps", *arguments, "--steps",
                               str(steps)], env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=True).stdout

    def faults(self, job):
        record = list(checks.read_lines([f"{self.folder}/record"]))
        steps = max((line["step"] for line in record if line["event"] == "commit"), default=0)
        if self.plan.ends_itself and steps != self.plan.steps:
            yield f"the last step is {steps}, not {self.plan.steps}"
        yield checks.same_result(job.output(), self.undisturbed(job.environment, steps))
        yield checks.shares_of_steps(record, steps, self.plan.batch)


class Train:
    """bellows-train on a few small images."""

    def __init__(self, build, folder, plan):
        self.build, self.folder, self.plan = build, folder, plan
        tiny_data = os.path.join(os.path.dirname(__file__), "..", "lib", "tiny_data")
        os.makedirs(f"{folder}/data")
        subprocess.run([sys.executable, tiny_data, f"{folder}/data"], check=True)
        self.common = ["bellows-train", *plan.arguments, "--threads", "1", "--data",
                       f"fashion-mnist:{folder}/data/mnist"]
        steps = str(plan.steps) if plan.ends_itself else ENDLESS
        self.command = self.common + ["--steps", steps, "--requeue-code", str(plan.code),
                                      *self.files("run")]
        # Told to stop, it may have made its last step already.
        self.codes = (0, plan.code) if plan.ends_itself else (plan.code,)

    def end(self, job):
        job.end_signal()

    def files(self, name):
        return ["--checkpoint-dir", f"{self.folder}/{name}", "--record-samples",
                f"{self.folder}/{name}.samples", "--metrics", f"{self.folder}/{name}.metrics"]

    def samples(self, name):
        return glob.glob(f"{self.folder}/{name}.samples.*")

    def saved_step(self):
        steps = [int(re.findall(r"checkpoint-0*(\d+)\.h5$", path)[0])
                 for path in glob.glob(f"{self.folder}/run/checkpoint-*.h5")]
        return max(steps, default=0)

    def faults(self, job):
        steps = self.saved_step()
        yield "" if steps > 0 else "no checkpoint"
        if self.plan.ends_itself and job.launcher.returncode == 0 and steps != self.plan.steps:
            yield f"the last checkpoint is of step {steps}, not {self.plan.steps}"
        done = subprocess.run(["bellows-run", "-n", "1", *self.common, "--steps", str(steps),
                               *self.files("undisturbed")],
                              env=job.environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=300, check=False)
        if done.returncode != 0:
            yield f"the undisturbed run ends with {done.returncode}: {done.stderr[-2000:]}"
            return
        yield checks.samples_of_steps(self.samples("run"), self.samples("undisturbed"))
        yield checks.same_parameters(self.build, f"{self.folder}/run",
                                     f"{self.folder}/undisturbed")


PROGRAMS = {"steps": Steps, "train": Train}
