# SPDX-License-Identifier: Apache-2.0
"""A running job of bellows-run, and what can be done to it."""
import json
import os
import signal
import subprocess
import time

MARK = "BELLOWS_CHAOS_MARK"


def processes(mark):
    """Those that carry the mark in their environment, by id, with the names of their programs."""
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
            found[int(entry)] = (name, int(parent))
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


class Job:
    """`holders` are the processes that have the job's state: while one of them lives and is not
    asked to leave, the job must go on. Those that are about to end are in `doomed`."""

    def __init__(self, build, folder, plan, arguments, log):
        self.build, self.folder, self.log = build, folder, log
        self.environment = dict(
            os.environ, PATH=f"{build}/bin:{build}/tests:{os.environ['PATH']}",
            TMPDIR=f"{folder}/tmp", BELLOWS_CONTROL_DIR=f"{folder}/ctl", OMP_NUM_THREADS="1",
            BELLOWS_CHECK_STATE="1", **{MARK: folder})
        for name in [n for n in self.environment if n.startswith("SLURM_")]:
            del self.environment[name]
        os.makedirs(f"{folder}/tmp")
        self.doomed, self.holders, self.requests = set(), set(), []
        self.killed_agent = False
        self.command = ["bellows-run", "--elastic", "1-8", "-n", str(plan.ranks), "--local-nodes",
                        str(plan.nodes), "--rank-timeout", "3", "-v"] + arguments
        with open(f"{folder}/out", "wb") as out, open(f"{folder}/err", "wb") as err:
            self.launcher = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out,
                                             stderr=err, env=self.environment, cwd=folder)

    def output(self):
        with open(f"{self.folder}/out", encoding="utf-8", errors="replace") as file:
            return file.read()

    def alive(self):
        return self.launcher.poll() is None

    def run_for(self, seconds):
        """False when the job ends before."""
        try:
            self.launcher.wait(seconds)
            return False
        except subprocess.TimeoutExpired:
            return True

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

    def ranks(self):
        """Of the living, and not about to end. Keeps the list of holders."""
        status = self.status() or {"ranks": []}
        there = [r for r in status["ranks"] if r["pid"] > 0 and r["pid"] not in self.doomed]
        if not self.holders:
            self.holders = {r["pid"] for r in there if r["state"] == "running"}
        self.holders |= {r["pid"] for r in there if r["step"] > 0}
        for rank in there:
            if rank["state"] == "leaving":
                self.holders.discard(rank["pid"])
        return there

    def agents(self):
        return sorted(p for p, (name, _) in processes(self.folder).items()
                      if name == "bellows-agent")

    # ---- what can happen ---------------------------------------------------------------------

    def happen(self, event):
        """Returns what was done, in words; "nothing" where nobody could be hit."""
        return getattr(self, "do_" + event.kind)(event.draw) or "nothing"

    def victims(self, draw, most):
        """Up to `most`, never the last holder."""
        ranks = self.ranks()
        holders = [r["pid"] for r in ranks if r["pid"] in self.holders]
        if not holders:
            return []
        keeper = draw.choice(holders)
        others = [r for r in ranks if r["pid"] != keeper]
        return draw.sample(others, min(most, len(others)))

    def request(self, draw, *arguments):
        wait = draw.choice(["0", "0", "20"])
        asked = self.bellows(*arguments, f"--wait={wait}")
        if wait == "0":
            self.settle(asked, arguments, 15)
        else:
            self.requests.append((asked, arguments, time.monotonic() + 35))
        return " ".join(arguments) + (", waiting" if wait != "0" else "")

    def settle(self, asked, arguments, seconds):
        text = asked.communicate(timeout=max(seconds, 0.1))[0].strip()
        self.log(f"bellows {' '.join(arguments)}: {asked.returncode}: {text}")
        if asked.returncode not in (0, 1, 3):
            raise RuntimeError(f"bellows {' '.join(arguments)} ended with {asked.returncode}")

    def settle_requests(self):
        for asked, arguments, until in self.requests:
            self.settle(asked, arguments, until - time.monotonic())
        self.requests = []

    def do_join(self, draw):
        return self.request(draw, "resize", f"+{draw.randint(1, 3)}")

    def do_shrink(self, draw):
        return self.request(draw, "resize", f"-{draw.randint(1, 2)}")

    def do_leave(self, draw):
        named = [r for r in self.victims(draw, draw.randint(1, 2)) if r["state"] == "running"]
        if not named:
            return ""
        self.holders -= {r["pid"] for r in named}
        return self.request(draw, "leave", "--ranks=" + ",".join(str(r["rank"]) for r in named))

    def do_handover(self, draw):
        """Those who leave have the state; nobody else has it yet."""
        old = [r for r in self.ranks() if r["state"] == "running" and r["rank"] >= 0]
        if not old:
            return ""
        grown = self.request(draw, "resize", f"+{draw.randint(1, 3)}")
        self.run_for(draw.choice([0, 0.1, 0.2, 0.3, 0.5]))
        self.holders -= {r["pid"] for r in old}
        return grown + "; " + self.request(
            draw, "leave", "--ranks=" + ",".join(str(r["rank"]) for r in old))

    def signal(self, victims, number):
        hit = [r for r in victims if send(r["pid"], number)]
        return ", ".join(f"rank {r['rank']} (pid {r['pid']}, {r['state']})" for r in hit)

    def doom(self, victims):
        self.doomed |= {r["pid"] for r in victims}
        self.holders -= self.doomed

    def do_kill(self, draw):
        victims = self.victims(draw, 1)
        self.doom(victims)
        return self.signal(victims, signal.SIGKILL)

    def do_massacre(self, draw):
        victims = self.victims(draw, draw.randint(2, 7))
        self.doom(victims)
        return self.signal(victims, signal.SIGKILL)

    def do_stop(self, draw):
        victims = self.victims(draw, 1)
        self.doom(victims)
        return self.signal(victims, signal.SIGSTOP)

    def do_pause(self, draw):
        victims = self.victims(draw, 1)
        names = self.signal(victims, signal.SIGSTOP)
        self.run_for(draw.uniform(0.01, 1.5))
        self.signal(victims, signal.SIGCONT)
        return names

    def do_node(self, draw):
        """Any but that of a holder."""
        ranks, table = self.ranks(), processes(self.folder)
        holders = [r["pid"] for r in ranks if r["pid"] in self.holders and r["pid"] in table]
        agents = self.agents()
        if not holders or not agents:
            return ""
        agents = [a for a in agents if a != table[draw.choice(holders)][1]]
        if not agents:
            return ""
        agent = draw.choice(agents)
        there = [r for r in ranks if r["pid"] in table and table[r["pid"]][1] == agent]
        self.doom(there)
        self.killed_agent = True
        send(agent, signal.SIGKILL)
        return f"agent {agent} with ranks " + " ".join(str(r["rank"]) for r in there)

    # ---- the end -----------------------------------------------------------------------------

    def stacks(self):
        """Where everybody is, for a job that hangs."""
        for pid, (name, _) in sorted(processes(self.folder).items()):
            if name == "bellows":
                continue
            done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=60, check=False)
            with open(f"{self.folder}/stack.{name}.{pid}", "w", encoding="utf-8") as file:
                file.write(done.stdout)

    def end_all(self):
        """Ends what is left of the job."""
        for pid in processes(self.folder):
            send(pid, signal.SIGKILL)
        self.launcher.wait(10)
