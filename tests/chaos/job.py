# SPDX-License-Identifier: Apache-2.0
"""A running job of bellows-run: what is known of it, wherever it runs."""
import json
import time

SILENCE = 3.0  # --silence-timeout of jobs in which a node is silent
RANK_TIMEOUT = 3.0


class Job:
    """Who holds the job's state is kept in `holders`: while one of them lives and is not asked to
    leave, the job must go on. Those that are about to end are in `doomed`.

    Where a job runs is up to the classes that derive from this one: `bellows`, `await_end`, `nodes`,
    `signal`, `read`, `touch`, `run` and what is needed at the end."""

    short_cuts = True  # a node can be cut off for so short a time that nothing is noticed

    def __init__(self, folder, log):
        self.folder, self.log = folder, log
        self.doomed, self.holders, self.begun = set(), set(), False
        self.requests = []         # of `bellows` that are not done
        self.due = []              # (when, what) that follows from earlier events
        self.silenced = set()      # agents or nodes of which nobody hears
        self.patient_until = 0     # a silence will have been noticed
        self.killed_agent = False

    # ---- time --------------------------------------------------------------------------------

    def alive(self):
        return not self.await_end(0)

    def run_for(self, seconds):
        """Until then what is due happens. False when the job ends before."""
        until = time.monotonic() + seconds
        while True:
            self.due.sort(key=lambda one: one[0])
            stop = min([until] + [when for when, _ in self.due[:1]])
            if self.await_end(max(stop - time.monotonic(), 0)):
                return False
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

    # ---- ranks -------------------------------------------------------------------------------

    def status(self):
        """None where there is no job, or none yet."""
        asked = self.bellows("status", "--json")
        text = asked.communicate(timeout=30)[0]
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
        if not self.begun:  # they begin it; later ones hold it when they have made a step
            self.holders = {self.key(r) for r in there if r["state"] == "running"}
            self.begun = bool(self.holders)
        self.holders |= {self.key(r) for r in there if r["step"] > 0}
        for rank in there:
            if rank["state"] == "leaving":
                self.holders.discard(self.key(rank))
        return there

    def doom(self, ranks):
        self.doomed |= {self.key(r) for r in ranks}
        self.holders -= self.doomed
