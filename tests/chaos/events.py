# SPDX-License-Identifier: Apache-2.0
"""What can happen to a job. Each returns what was done, in words, or nothing where nobody could be
hit: the last one that has the job's state is spared."""
import signal
import time

from job import RANK_TIMEOUT, SILENCE


def names(ranks):
    return ", ".join(f"rank {r['rank']} on {r['node']} (pid {r['pid']}, {r['state']})" for r in ranks)


class Events:
    def __init__(self, job):
        self.job = job
        # Until then one that is stopped counts for the launcher as one that has the state, and can
        # be all that stays of those who have.
        self.stopped_until = 0

    def happen(self, event):
        return getattr(self, event.kind)(event.draw)

    def keeper(self, draw, ranks):
        """One of those that hold the state. Whom the launcher lets go for a request that is not
        done yet is not known; rank 0 it is not."""
        holders = [r for r in ranks if self.job.key(r) in self.job.holders]
        if not holders:
            return None
        if any("-" in argument for _, arguments, _ in self.job.requests for argument in arguments):
            return min(holders, key=lambda r: (r["rank"] < 0, r["rank"]))
        return draw.choice(holders)

    def victims(self, draw, most):
        ranks = self.job.ranks()
        keeper = self.keeper(draw, ranks)
        others = [r for r in ranks if keeper and r != keeper]
        return draw.sample(others, min(most, len(others)))

    def victim_node(self, draw, whole=False):
        """`whole`: more than its agent, so not the launcher's."""
        ranks = self.job.ranks()
        keeper = self.keeper(draw, ranks)
        nodes = self.job.nodes(ranks)
        if not keeper or not any(keeper in n.ranks for n in nodes):
            return None
        nodes = [n for n in nodes if keeper not in n.ranks and not (whole and n.has_launcher)]
        return draw.choice(nodes) if nodes else None

    # ---- requests ----------------------------------------------------------------------------

    def request(self, draw, *arguments):
        wait = draw.choice(["0", "0", "20"])
        asked = self.job.bellows(*arguments, f"--wait={wait}")
        if wait == "0":
            self.settle(asked, arguments, 15)
        else:
            self.job.requests.append((asked, arguments, time.monotonic() + 35))
        return " ".join(arguments) + (", waiting" if wait != "0" else "")

    def settle(self, asked, arguments, seconds):
        text = asked.communicate(timeout=max(seconds, 0.1))[0].strip()
        self.job.log(f"bellows {' '.join(arguments)}: {asked.returncode}: {text}")
        if asked.returncode not in (0, 1, 3):
            raise RuntimeError(f"bellows {' '.join(arguments)} ended with {asked.returncode}")

    def settle_requests(self):
        for asked, arguments, until in self.job.requests:
            self.settle(asked, arguments, until - time.monotonic())
        self.job.requests = []

    def join(self, draw):
        return self.request(draw, "resize", f"+{draw.randint(1, 3)}")

    def shrink(self, draw):
        if self.stopped_until > time.monotonic():
            return ""
        return self.request(draw, "resize", f"-{draw.randint(1, 2)}")

    def leave(self, draw):
        named = [r for r in self.victims(draw, draw.randint(1, 2))
                 if r["state"] == "running" and r["rank"] >= 0]
        if not named:
            return ""
        self.job.holders -= {self.job.key(r) for r in named}
        return self.request(draw, "leave", "--ranks=" + ",".join(str(r["rank"]) for r in named))

    def handover(self, draw):
        """Those who leave have the state; nobody else has it yet."""
        if self.stopped_until > time.monotonic():
            return ""
        old = [r for r in self.job.ranks() if r["state"] == "running" and r["rank"] >= 0]
        if not old:
            return ""
        grown = self.request(draw, "resize", f"+{draw.randint(1, 3)}")
        self.job.run_for(draw.choice([0, 0.1, 0.2, 0.3, 0.5]))
        self.job.holders -= {self.job.key(r) for r in old}
        return grown + "; " + self.request(
            draw, "leave", "--ranks=" + ",".join(str(r["rank"]) for r in old))

    # ---- ranks -------------------------------------------------------------------------------

    def strike(self, victims, number):
        self.job.doom(victims)
        return names(self.job.signal(victims, number))

    def kill(self, draw):
        return self.strike(self.victims(draw, 1), signal.SIGKILL)

    def abort(self, draw):
        return self.strike(self.victims(draw, 1), signal.SIGABRT)

    def massacre(self, draw):
        return self.strike(self.victims(draw, draw.randint(2, 7)), signal.SIGKILL)

    def stop(self, draw):
        self.stopped_until = time.monotonic() + RANK_TIMEOUT + 1
        return self.strike(self.victims(draw, 1), signal.SIGSTOP)

    def pause(self, draw):
        victims = self.job.signal(self.victims(draw, 1), signal.SIGSTOP)
        self.job.run_for(draw.uniform(0.01, 1.5))
        self.job.signal(victims, signal.SIGCONT)
        return names(victims)

    # ---- nodes -------------------------------------------------------------------------------

    def hit_node(self, draw, how, whole=False):
        node = self.victim_node(draw, whole)
        if not node:
            return None, ""
        self.job.doom(node.ranks)
        how(node)
        return node, f"{node.name} with {names(node.ranks) or 'no ranks'}"

    def node(self, draw):
        return self.hit_node(draw, lambda node: node.kill_agent())[1]

    def power(self, draw):
        """On a cluster: everything there dies without a word, and the node is back later."""
        node, text = self.hit_node(draw, lambda node: node.power_off(), whole=True)
        if node:
            self.later(draw.uniform(1, 8), node.restart)
        return text

    def silent(self, seconds):
        """So long nobody says anything; the job goes on until that has been noticed."""
        self.job.patient_until = max(self.job.patient_until, time.monotonic() + seconds)

    def later(self, seconds, what):
        self.job.due.append((time.monotonic() + seconds, what))

    def freeze(self, draw):
        """The agent stops, and its ranks do not."""
        node, text = self.hit_node(draw, lambda node: node.freeze())
        if node:
            self.silent(SILENCE + 1)
            self.later(SILENCE + draw.uniform(0.5, 3), node.heal)
        return text

    def cut(self, draw):
        """Agent and ranks are silent; when that ends they are nobody's any more, or nothing has
        been noticed."""
        if draw.random() < 0.3 and self.job.short_cuts:
            seconds = draw.uniform(0.1, SILENCE / 3)
            node = self.victim_node(draw)
            if not node:
                return ""
            node.cut()
            self.job.run_for(seconds)
            node.heal()
            return f"{node.name} for {seconds:.1f} s"
        node, text = self.hit_node(draw, lambda node: node.cut(), whole=True)
        if node:
            self.silent(SILENCE + 1)
            self.later(SILENCE + draw.uniform(0.5, 3), node.heal)
        return text

    # ---- the launcher ------------------------------------------------------------------------

    def launcher(self, draw):
        """It dies, and another takes over, at once or after a while in which somebody dies too."""
        victims, node = [], None
        if draw.random() < 0.4:
            victims = self.victims(draw, draw.randint(1, 2))
        elif draw.random() < 0.3:
            node = self.victim_node(draw)
        self.job.kill_launcher()
        text = self.strike(victims, signal.SIGKILL)
        if node:
            self.job.doom(node.ranks)
            node.kill_agent()
            text = f"{node.name} with {names(node.ranks) or 'no ranks'}"
        gap = draw.choice([0, 0, 0.05, 0.3, 1.5])
        time.sleep(gap)
        self.job.take_over()
        return f"killed, and {text or 'nobody else'}; the next one {gap} s later"
