# SPDX-License-Identifier: Apache-2.0
"""A job of bellows-run on this machine, its nodes being agents."""
import os
import signal
import subprocess
from dataclasses import dataclass

import checks
from job import RANK_TIMEOUT, SILENCE, Job

MARK = "BELLOWS_CHAOS_MARK"

# An agent that the launcher's SIGKILL does not reach, as one behind srun on a node that is cut off.
FAR_AGENT = """#!/bin/sh
bellows-agent "$@" &
wait
"""


@dataclass
class Process:
    name: str
    parent: int


def processes(mark):
    """Those that carry the mark in their environment, by id."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if f"{MARK}={mark}".encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        name = text[text.index("(") + 1:text.rindex(")")]
        state, parent = text[text.rindex(")") + 2:].split()[:2]
        if state not in "ZX":
            found[int(entry)] = Process(name, int(parent))
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


class Node:
    """An agent and its ranks, as they were found."""

    has_launcher = False

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


class LocalJob(Job):
    def __init__(self, build, folder, plan, arguments, log):
        super().__init__(folder, log)
        self.build = build
        self.environment = dict(
            os.environ, PATH=f"{build}/bin:{build}/tests:{os.environ['PATH']}",
            TMPDIR=f"{folder}/tmp", BELLOWS_CONTROL_DIR=f"{folder}/ctl", OMP_NUM_THREADS="1",
            BELLOWS_CHECK_STATE="1", **{MARK: folder})
        for name in [n for n in self.environment if n.startswith("SLURM_")]:
            del self.environment[name]
        os.makedirs(f"{folder}/tmp")
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

    def await_end(self, seconds):
        try:
            self.launcher.wait(max(seconds, 0.001))
            return True
        except subprocess.TimeoutExpired:
            return False

    def bellows(self, *arguments):
        return subprocess.Popen(["bellows", *arguments], env=self.environment, cwd=self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def run(self, command):
        """Beside the job. Returns the output; CalledProcessError when it fails."""
        return subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300, check=True).stdout

    def read(self, name):
        with open(f"{self.folder}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()

    def touch(self, name):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8"):
            pass

    def nodes(self, ranks):
        table = processes(self.folder)
        named = {p for p, one in table.items() if one.name == "bellows-agent"}
        # (A rank has that name, too, until it is its program.)
        agents = sorted(p for p in named - self.silenced if table[p].parent not in named)
        return [Node(self, agent, [r for r in ranks
                                   if r["pid"] in table and table[r["pid"]].parent == agent])
                for agent in agents]

    def signal(self, ranks, number):
        """Returns those that it reached."""
        return [r for r in ranks if send(r["pid"], number)]

    def kill_launcher(self):
        self.launcher.kill()
        self.launcher.wait(10)

    def take_over(self):
        """Another launcher."""
        self.start_launcher(["--reattach", self.name, "--start-timeout", "6", "-v"])

    def end_signal(self):
        self.launcher.send_signal(signal.SIGUSR1)

    # ---- the end -----------------------------------------------------------------------------

    def exit_code(self):
        return self.launcher.returncode

    def left(self):
        """Processes and files that should not be there any more."""
        table = processes(self.folder)
        if self.killed_agent and not any(p.name == "bellows-agent" for p in table.values()):
            # What a killed agent leaves is the next one's to remove.
            self.run(["bellows-run", "-n", "1", "true"])
            table = processes(self.folder)
        return [f"process {pid} ({one.name})" for pid, one in table.items()] + checks.files(
            f"{self.folder}/tmp/*", f"{self.folder}/ctl/*.sock", f"{self.folder}/ctl/*.job",
            f"/dev/shm/*{os.getuid()}-local-*")

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
