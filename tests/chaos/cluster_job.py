# SPDX-License-Identifier: Apache-2.0
"""A job of Slurm's on a cluster of containers (scripts/cluster), with bellows-run in its script."""
import contextlib
import os
import re
import shlex
import subprocess
import time

from job import RANK_TIMEOUT, SILENCE, Job

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
NODES = ("n1", "n2", "n3", "n4")
QUEUE_SECONDS = 40


class Cluster:
    def __init__(self, name, build):
        self.name = name
        self.build = build
        self.programs = "/bellows/" + os.path.relpath(build, ROOT)  # as its nodes see them

    def command(self, command, *arguments):
        done = subprocess.run([f"{ROOT}/scripts/cluster", command, "--name", self.name, *arguments],
                              env=dict(os.environ, BELLOWS_BUILD=self.build), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=150,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError(f"scripts/cluster {command} {' '.join(arguments)}: {done.stderr}")

    def on(self, where, *command):
        """NODE or root@NODE."""
        node = where.removeprefix("root@")
        root = ["--root"] if node != where else []
        return subprocess.Popen([f"{ROOT}/scripts/cluster", "exec", "--name", self.name, "--on", node,
                                 *root, *command], stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, where, *command, good=(0,)):
        started = self.on(where, *command)
        text = started.communicate(timeout=300)[0]
        if good and started.returncode not in good:
            raise RuntimeError(f"{' '.join(command)} on {where} ends with {started.returncode}: "
                               f"{text}")
        return text

    def await_idle(self):
        until = time.monotonic() + 90
        while time.monotonic() < until:
            if set(self.run("ctl", "sinfo", "-h", "-N", "-p", "main", "-o", "%t").split()) == {"idle"}:
                return
            time.sleep(0.5)
        raise RuntimeError("the nodes do not become idle: " + self.run("ctl", "sinfo"))


@contextlib.contextmanager
def cluster(name, build):
    """The one of this name, or if there is no name one that is made, and removed afterwards."""
    one = Cluster(name or "chaos", build)
    if not name:
        one.command("up")
    try:
        yield one
    finally:
        if not name:
            one.command("down")


class Node:
    def __init__(self, job, name, ranks):
        self.job, self.name, self.ranks = job, name, ranks
        self.has_launcher = name == job.host

    def agent(self, signal):
        self.job.cluster.run(f"root@{self.name}", "pkill", f"-{signal}", "-x", "bellows-agent",
                             good=())

    def kill_agent(self):
        self.agent("KILL")

    def freeze(self):
        self.job.silenced.add(self.name)
        self.agent("STOP")

    def cut(self):
        self.job.silenced.add(self.name)
        self.job.cluster.command("cut", self.name)

    def power_off(self):
        self.job.silenced.add(self.name)
        self.job.cluster.command("kill", self.name)

    def heal(self):
        self.job.log(f"{self.name} is heard again")
        self.job.silenced.discard(self.name)
        self.job.cluster.command("heal", self.name)
        self.agent("CONT")

    def restart(self):
        self.job.cluster.command("restart", self.name)
        self.job.silenced.discard(self.name)
        self.job.log(f"{self.name} is back")


class ClusterJob(Job):
    short_cuts = False  # TCP waits longer after a cut than the cut was

    def __init__(self, where, folder, plan, arguments, log):
        super().__init__(folder, log)
        self.cluster = where
        self.there = f"/home/ember/chaos-{plan.seed}"
        self.code = None
        self.cleared = False
        self.cluster.await_idle()
        self.cluster.run("ctl", "rm", "-rf", self.there)
        self.cluster.run("ctl", "mkdir", self.there)
        command = ["bellows-run", "--elastic", "1-8", "-n", str(plan.ranks), "--ranks-per-node",
                   "1" if plan.ranks <= plan.nodes else "2",
                   "--rank-timeout", str(RANK_TIMEOUT), "--silence-timeout", str(SILENCE),
                   "--launcher-grace", "8", "--start-timeout", "20", "-v", *arguments]
        script = (f"export PATH={self.cluster.programs}/bin:{self.cluster.programs}/tests:$PATH\n"
                  f"{shlex.join(command)}\ncode=$?; echo $code >{self.there}/code.new\n"
                  f"mv {self.there}/code.new {self.there}/code; exit $code")
        self.id = self.cluster.run(
            "ctl", "sbatch", "--parsable", "--no-kill", f"-N{plan.nodes}",
            f"--output={self.there}/out", f"--error={self.there}/err", "--wrap", script).strip()
        until = time.monotonic() + QUEUE_SECONDS
        self.host = ""
        while not re.fullmatch(r"n\d", self.host):
            if time.monotonic() > until:
                raise RuntimeError(f"Slurm has not started the job: {self.host}")
            self.host = self.cluster.run("ctl", "squeue", "-h", "-j", self.id, "-o", "%B").strip()

    def await_end(self, seconds):
        until = time.monotonic() + seconds
        while True:
            if self.code is None:
                text = self.cluster.run("ctl", "cat", f"{self.there}/code", good=())
                self.code = int(text) if text.strip().isdigit() else None
            if self.code is not None:
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(min(0.3, max(until - time.monotonic(), 0)))

    def bellows(self, *arguments):
        return self.cluster.on(self.host, "timeout", "60", "bellows", "--job", self.id, *arguments)

    def run(self, command):
        return self.cluster.run("ctl", "env", f"PATH={self.cluster.programs}/bin:"
                                f"{self.cluster.programs}/tests:/usr/bin:/bin", *command)

    def read(self, name):
        return self.cluster.run("ctl", "cat", f"{self.there}/{name}")

    def touch(self, name):
        self.cluster.run("ctl", "touch", f"{self.there}/{name}")

    def nodes(self, ranks):
        """Those with ranks: of the others nothing is known."""
        found = [Node(self, name, [r for r in ranks if r["node"] == name]) for name in NODES
                 if name not in self.silenced]
        return [node for node in found if node.ranks]

    def signal(self, ranks, number):
        return [r for r in ranks if not self.cluster.run(
            f"root@{r['node']}", "kill", f"-{int(number)}", str(r["pid"]), good=())]

    # ---- the end -----------------------------------------------------------------------------

    def exit_code(self):
        return self.code

    def left(self):
        found = self.found()
        if any("/bellows-" in line for line in found) and not self.cleared:
            # What dies with its agent or node is the next agent's to remove there.
            self.cleared = True
            self.cluster.run("ctl", "salloc", "-Q", "-N4", f"{self.cluster.programs}/bin/bellows-run",
                             "-n", "4", "--ranks-per-node", "1", "true")
            found = self.found()
        return found

    def found(self):
        asked = [(name, self.cluster.on(name, "sh", "-c", "ps -u ember -o pid=,args=; "
                                        "ls -d /tmp/bellows-[0-9]* /dev/shm/bellows-*"))
                 for name in NODES]
        found = []
        for name, one in asked:
            lines = one.communicate(timeout=60)[0].splitlines()
            found += [f"{name}: {line}" for line in lines if not re.search(r"ps -u|No such file", line)]
        return found

    def stacks(self):
        """Where everybody is, for a job that hangs."""
        for name in NODES:
            text = self.cluster.run(f"root@{name}", "sh", "-c", "for p in $(pgrep 'bellows-|elastic_'"
                                    "); do timeout 30 gdb -p $p -batch -ex 'thread apply all bt'; done",
                                    good=())
            with open(f"{self.folder}/stacks.{name}", "w", encoding="utf-8") as file:
                file.write(text)

    def end_all(self):
        """Ends what is left of the job, and keeps what it has written."""
        self.do_all_that_is_due()
        self.cluster.run("ctl", "scancel", self.id, good=())
        for name in ("out", "err", "record"):
            with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
                file.write(self.cluster.run("ctl", "cat", f"{self.there}/{name}", good=()))
