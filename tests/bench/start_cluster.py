# SPDX-License-Identifier: Apache-2.0
"""start_cluster.py [RESULTS.json]: from the launch of an MPI hello to its end, on 1, 2, 4 … nodes of
the Slurm allocation in which this is called: bellows-run, mpirun and srun --mpi=pmix, one rank per
node.

On the container cluster, with the tree built in build/:
  scripts/cluster exec sbatch --wait -N4 -o start.json --wrap \\
    'BUILD=/bellows/build python3 /bellows/tests/bench/start_cluster.py'
N=rounds (default 15). Without a file the results go to standard output.
"""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from start_common import milliseconds, row  # noqa: E402

ROUNDS = int(os.environ.get("N", "15"))
BUILD = os.environ.get("BUILD", "build")
HELLO = os.path.join(BUILD, "tests", "mpi_hello")
BELLOWS = os.path.join(BUILD, "bin", "bellows-run")
COMMAND = "tests/bench/start_cluster.py in an allocation"


def host_names():
    listed = os.environ.get("SLURM_JOB_NODELIST")
    if not listed:
        sys.exit("start_cluster.py: call it inside a Slurm allocation")
    done = subprocess.run(["scontrol", "show", "hostnames", listed], check=True,
                          capture_output=True, text=True)
    return done.stdout.split()


def commands(hosts):
    """By launcher: the command and its environment for one rank on each of `hosts`. bellows-run is
    told of an allocation of these alone; the others take hosts on their command line."""
    count, names = str(len(hosts)), ",".join(hosts)
    whole = dict(os.environ)
    part = dict(os.environ, SLURM_JOB_NODELIST=names, SLURM_NODELIST=names, SLURM_NNODES=count,
                SLURM_JOB_NUM_NODES=count, SLURM_JOB_CPUS_PER_NODE=f"1(x{count})",
                SLURM_TASKS_PER_NODE=f"1(x{count})")
    return {
        "bellows-run": ([BELLOWS, "-n", count, "--ranks-per-node", "1", HELLO], part),
        "mpirun": (["mpirun", "--host", ",".join(f"{h}:1" for h in hosts), "-n", count, HELLO],
                   whole),
        "srun --mpi=pmix": (["srun", "--overlap", "--mpi=pmix", f"--nodes={count}",
                             f"--ntasks={count}", f"--nodelist={names}", HELLO], whole),
    }


def main():
    hosts = host_names()
    counts = [n for n in (1, 2, 4, 8, 16, 32) if n <= len(hosts)]
    times = {}
    for count in counts:
        for i in range(ROUNDS + 1):
            for launcher, (command, environment) in commands(hosts[:count]).items():
                tries = 1 if launcher == "bellows-run" else 5
                took = milliseconds(command, environment, count, tries)
                if i > 0:  # the first is from a cold file cache
                    times.setdefault((launcher, count), []).append(took)

    rows = []
    for (launcher, count), measured in times.items():
        where = f"{count} node" + ("s" if count > 1 else "")
        if launcher == "bellows-run":
            for peer in ("mpirun", "srun --mpi=pmix"):
                rows.append(row(f"bellows-run, {where}, against {peer}", measured, COMMAND, peer,
                                times[peer, count]))
        else:
            rows.append(row(f"{launcher}, {where}", measured, COMMAND))
    text = json.dumps(rows, indent=1)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as results:
            results.write(text)
    else:
        print(text)


main()
