# SPDX-License-Identifier: Apache-2.0
"""A running job of bellows-run on this machine: what is known of it, and its end."""
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass

MARK = "BELLOWS_CHAOS_MARK"
SILENCE = 3.0        # --silence-timeout of jobs in which a node is silent
RANK_TIMEOUT = 3.0

# An agent that the launcher's SIGKILL does not reach, as one behind srun on a node that is cut off.
FAR_AGENT = """#!/bin/sh
bellows-agent "$@" &
wait
"""


@dataclass
class Process:
    name: str
    parent: int
    node: str  # an agent's


def processes(mark):
    """Those that carry the mark in their environment, by id."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                environment = file.read().split(b"\0")
            if f"{MARK}={mark}".encode() not in environment:
                continue
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        name = text[text.index("(") + 1:text.rindex(")")]
        state, parent = text[text.rindex(")") + 2:].split()[:2]
        node = next((v[13:].decode() for v in environment if v.startswith(b"BELLOWS_NODE=")), "")
        if state not in "ZX":
            found[int(entry)] = Process(name, int(parent), node)
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


class Node:
    """An agent and its ranks, as they were found."""

    def __init__(self, job, agent, ranks):
        self.job, self.agent, self.ranks = job, agent, ranks
        self.name = f"agent {agent}"

    def kill_agent(self):
        self.job.killed_agent = True
        send(self.agent, signal.SIGKILL)

    def freeze(self):
        self.job.silenced.add(self.agent)
        send(self.agent, signal.SIGSTOP)

    def cut(self):
        self.job.silenced.add(self.agent)
        for pid in [self.agent] + [r["pid"] for r in self.ranks]:
            send(pid, signal.SIGSTOP)

    def heal(self):
        self.job.silenced.discard(self.agent)
        for pid in [r["pid"] for r in self.ranks] + [self.agent]:
            send(pid, signal.SIGCONT)


class Job:
    """Who holds the job's state is kept in `holders`: while one of them lives and is not asked to
    leave, the job must go on. Those that are about to end are in `doomed`."""

    short_cuts = True  # a cut that is too short to be noticed can be made

    def __init__(self, build, folder, plan, arguments, log):
        self.build, self.folder, self.log = build, folder, log
        self.environment = dict(
            os.environ, PATH=f"{build}/bin:{build}/tests:{os.environ['PATH']}",
            TMPDIR=f"{folder}/tmp", BELLOWS_CONTROL_DIR=f"{folder}/ctl", OMP_NUM_THREADS="1",
            BELLOWS_CHECK_STATE="1", **{MARK: folder})
        for name in [n for n in self.environment if n.startswith("SLURM_")]:
            del self.environment[name]
        os.makedirs(f"{folder}/tmp")
        self.doomed, self.holders, self.requests, self.due = set(), set(), [], []
        self.silenced = set()  # agents
        self.killed_agent = self.ending = False
        self.patient_until = 0
        command = ["--elastic", "1-8", "-n", str(plan.ranks), "--local-nodes", str(plan.nodes),
                   "--rank-timeout", str(RANK_TIMEOUT), "-v"]
        if plan.silences:
            command += ["--silence-timeout", str(SILENCE), "--launcher-grace", "8"]
        if plan.far_agents:
            with open(f"{folder}/agent", "w", encoding="utf-8") as file:
                file.write(FAR_AGENT)
            os.chmod(f"{folder}/agent", 0o755)
            command += ["--agent", f"{folder}/agent"]
        self.start_launcher(command + arguments)
        self.name = f"local-{self.launcher.pid}"

    def start_launcher(self, arguments):
        # The agents go on writing to the files of the launcher before.
        with open(f"{self.folder}/out", "ab") as out, open(f"{self.folder}/err", "ab") as err:
            self.launcher = subprocess.Popen(["bellows-run", *arguments], stdin=subprocess.DEVNULL,
                                             stdout=out, stderr=err, env=self.environment,
                                             cwd=self.folder)

    def output(self):
        with open(f"{self.folder}/out", encoding="utf-8", errors="replace") as file:
            return file.read()

    def errors(self):
        with open(f"{self.folder}/err", encoding="utf-8", errors="replace") as file:
            return file.read()

    def alive(self):
        return self.launcher.poll() is None

    def run_for(self, seconds):
        """Until then what is due happens. False when the job ends before."""
        until = time.monotonic() + seconds
        while True:
            self.due.sort(key=lambda one: one[0])
            stop = min([until] + [when for when, _ in self.due[:1]])
            try:
                self.launcher.wait(max(stop - time.monotonic(), 0.001))
                return False
            except subprocess.TimeoutExpired:
                pass
            if stop == until:
                return True
            self.due.pop(0)[1]()

    def do_all_that_is_due(self):
        while self.due:
            self.due.pop(0)[1]()

    def wait_for_world(self, seconds):
        until = time.monotonic() + seconds
        while self.alive() and time.monotonic() < until:
            if any(rank["step"] > 0 for rank in self.ranks()):
                return True
            time.sleep(0.02)
        return False

    # ---- what is known -----------------------------------------------------------------------

    def bellows(self, *arguments, **more):
        return subprocess.Popen(["bellows", *arguments], env=self.environment, cwd=self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, **more)

    def status(self):
        """None where there is no job, or none yet."""
        asked = self.bellows("status", "--json")
        text = asked.communicate(timeout=15)[0]
        if asked.returncode in (1, 3):
            return None
        if asked.returncode != 0:
            raise RuntimeError(f"bellows status ended with {asked.returncode}: {text}")
        return json.loads(text)

    @staticmethod
    def key(rank):
        return rank["node"], rank["pid"]

    def ranks(self):
        """Of the living, and not about to end. Keeps the list of holders."""
        status = self.status() or {"ranks": []}
        there = [r for r in status["ranks"] if r["pid"] > 0 and self.key(r) not in self.doomed]
        if not self.holders:
            self.holders = {self.key(r) for r in there if r["state"] == "running"}
        self.holders |= {self.key(r) for r in there if r["step"] > 0}
        for rank in there:
            if rank["state"] == "leaving":
                self.holders.discard(self.key(rank))
        return there

    def doom(self, ranks):
        self.doomed |= {self.key(r) for r in ranks}
        self.holders -= self.doomed

    def nodes(self, ranks):
        table = processes(self.folder)
        agents = sorted(p for p, one in table.items()
                        if one.name == "bellows-agent" and p not in self.silenced)
        return [Node(self, agent, [r for r in ranks
                                   if r["pid"] in table and table[r["pid"]].parent == agent])
                for agent in agents]

    def signal(self, ranks, number):
        """Returns those that it reached."""
        return [r for r in ranks if send(r["pid"], number)]

    def take_over(self):
        """Another launcher."""
        self.start_launcher(["--reattach", self.name, "--start-timeout", "6", "-v"])
        if self.ending:
            self.end_signal()

    def end_signal(self):
        self.ending = True
        self.launcher.send_signal(signal.SIGUSR1)

    # ---- the end -----------------------------------------------------------------------------

    def exit_code(self):
        return self.launcher.returncode

    def stacks(self):
        """Where everybody is, for a job that hangs."""
        for pid, one in sorted(processes(self.folder).items()):
            if one.name == "bellows":
                continue
            done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=60, check=False)
            with open(f"{self.folder}/stack.{one.name}.{pid}", "w", encoding="utf-8") as file:
                file.write(done.stdout)

    def end_all(self):
        """Ends what is left of the job."""
        for pid in processes(self.folder):
            send(pid, signal.SIGKILL)
        self.launcher.wait(10)
