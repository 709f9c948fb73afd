# SPDX-License-Identifier: Apache-2.0
"""A cluster of containers for the time of a benchmark: for programs on the host, not in the image."""
import os
import subprocess
import sys

ROOT = os.environ["ROOT"]
BUILD = os.environ["BUILD"]
SKIPPED = 77


class BenchCluster:
    """with BenchCluster() as cluster: …"""

    def __init__(self, more=""):
        """`more`: distinguishes it from others of the same benchmark."""
        self.name = f"bench-{os.getpid()}{more}"
        self.etc = os.path.join(ROOT, "build", "clusters", self.name, "etc")
        self.programs = "/bellows/" + os.path.relpath(BUILD, ROOT)  # as its nodes see them

    def __enter__(self):
        if os.environ.get("BELLOWS_IN_IMAGE") == "1":
            print("starts a cluster of containers: call it on the host", file=sys.stderr)
            sys.exit(SKIPPED)
        try:
            self.call("up")
        except SystemExit:
            self.call("down")
            raise
        return self

    def __exit__(self, *_):
        self.call("down")

    def call(self, command, *words, limit=120):
        """What `scripts/cluster COMMAND` prints; the benchmark ends where it fails."""
        done = subprocess.run([os.path.join(ROOT, "scripts", "cluster"), command, "--name",
                               self.name, *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=limit, env={**os.environ, "BELLOWS_BUILD": BUILD})
        if done.returncode != 0:
            sys.exit(f"scripts/cluster {command} {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def configure(self, file, change):
        """Replaces the text of one of Slurm's files by what `change` makes of it."""
        path = os.path.join(self.etc, file)
        with open(path, encoding="utf-8") as stored:
            text = change(stored.read())
        with open(path, "w", encoding="utf-8") as stored:  # in place: it is mounted
            stored.write(text)
        self.on("root@ctl", "scontrol", "reconfigure")

    def on(self, where, *command, limit=120):
        """The command's output, on NODE or root@NODE."""
        node = where.removeprefix("root@")
        root = ["--root"] if node != where else []
        return self.call("exec", "--on", node, *root, *command, limit=limit)
