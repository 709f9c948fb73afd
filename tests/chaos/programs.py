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
        self.plan = plan
        steps = str(plan.steps) if plan.ends_itself else ENDLESS
        self.command = ["elastic_steps", *plan.arguments, "--steps", steps, "--record",
                        f"{folder}/record", "--end", f"{folder}/end"]
        self.codes = (0,)

    def end(self, job):
        job.touch("end")

    def undisturbed(self, job, steps):
        arguments = list(self.plan.arguments)
        arguments[arguments.index("--work") + 1] = "0"
        return job.run(["bellows-run", "-n", "1", "elastic_steps", *arguments, "--steps", str(steps)])

    def faults(self, job):
        record = checks.lines(job.read("record"))
        steps = max((line["step"] for line in record if line["event"] == "commit"), default=0)
        if self.plan.ends_itself and steps != self.plan.steps:
            yield f"the last step is {steps}, not {self.plan.steps}"
        yield checks.same_result(job.read("out"), self.undisturbed(job, steps),
                                 checks.end_was_lost(job.read("err")))
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
        if self.plan.ends_itself and job.exit_code() == 0 and steps != self.plan.steps:
            yield f"the last checkpoint is of step {steps}, not {self.plan.steps}"
        job.run(["bellows-run", "-n", "1", *self.common, "--steps", str(steps),
                 *self.files("undisturbed")])
        yield checks.samples_of_steps(self.samples("run"), self.samples("undisturbed"))
        yield checks.same_parameters(self.build, f"{self.folder}/run",
                                     f"{self.folder}/undisturbed")


PROGRAMS = {"steps": Steps, "train": Train}
