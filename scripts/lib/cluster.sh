# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A Slurm cluster of containers: the controller `ctl` and the nodes n1, n2, … on a network of their
# own. Everything a cluster has lies in build/clusters/NAME and in containers and a network whose
# names start with PREFIX, so that `down` can leave nothing behind, whatever happened before.
# Sourced after common.sh, engine.sh and image.sh.

CPUS_PER_NODE=4
NODE_LIMIT=200
UP_SECONDS=60

# cluster_select NAME: sets what all functions here work on.
cluster_select() {
  NAME=$1
  [[ $NAME =~ ^[a-z0-9]([a-z0-9-]{0,30})$ ]] || die "cluster name '$NAME': small letters, digits and - only, 31 at most"
  DIR=$ROOT/build/clusters/$NAME
  # Two checkouts on one machine may use the same names.
  PREFIX=bellows-$(printf %s "$ROOT" | sha256sum | cut -c1-6)-$NAME
}

cluster_containers() { engine ps -a --filter "label=bellows.cluster=$PREFIX" --format '{{.Names}}'; }
cluster_running() { engine ps --filter "label=bellows.cluster=$PREFIX" --format '{{.Names}}'; }
cluster_is_up() { [[ -f $DIR/ready ]]; }
cluster_need_up() { cluster_is_up || die "cluster '$NAME' is not up (scripts/cluster up --name $NAME)"; }

# on_ctl COMMAND…: as root on the controller.
on_ctl() { engine exec "$PREFIX-ctl" "$@"; }

cluster_nodes() { cat "$DIR/nodes"; }
cluster_need_node() {
  cluster_need_up
  [[ $1 == ctl ]] || grep -qx -- "$1" "$DIR/nodes" || die "cluster '$NAME' has no node '$1' (it has: ctl $(cluster_nodes | xargs))"
}

# write_slurm_conf: from the template, with the nodes in $DIR/nodes. Odd nodes are fast, even ones
# slow. Jobs in `main` may preempt those in `spot`, which get 10 seconds' notice.
write_slurm_conf() {
  local node kind
  {
    sed "s/@NAME@/$NAME/" "$ROOT/scripts/cluster.d/slurm.conf.in"
    while read -r node; do
      kind=slow
      ((${node#n} % 2 == 0)) || kind=fast
      echo "NodeName=$node CPUs=$CPUS_PER_NODE Boards=1 SocketsPerBoard=1 CoresPerSocket=$CPUS_PER_NODE ThreadsPerCore=1 RealMemory=4000 Features=$kind"
    done <"$DIR/nodes"
    echo "PartitionName=main Default=YES Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF"
    echo "PartitionName=spot Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=10"
  } >"$DIR/etc/slurm.conf.new"
  # Written over, not replaced: containers that have it mounted would keep the old file.
  cat "$DIR/etc/slurm.conf.new" >"$DIR/etc/slurm.conf"
  rm "$DIR/etc/slurm.conf.new"
}

write_folders() {
  local i
  mkdir -p "$DIR"/{etc,secret,log,home}
  chmod 755 "$DIR/etc" "$DIR/home"
  chmod 700 "$DIR/secret"
  chmod 1777 "$DIR/log"
  head -c 1024 /dev/urandom >"$DIR/secret/munge.key"
  echo "CgroupPlugin=disabled" >"$DIR/etc/cgroup.conf"
  : >"$DIR/etc/plugstack.conf"
  if [[ -f $BUILD/lib/spank_bellows.so ]]; then
    echo "required /bellows${BUILD#"$ROOT"}/lib/spank_bellows.so" >"$DIR/etc/plugstack.conf"
  fi
  {
    echo "127.0.0.1 localhost"
    echo "$NET.10 ctl"
    for ((i = 1; i <= NODE_LIMIT; i++)); do echo "$NET.$((10 + i)) n$i"; done
  } >"$DIR/etc/hosts"
}

# Makes the network on the first free subnet, and sets NET to its first three numbers.
network_create() {
  local try error=
  for ((try = 0; try < 100; try++)); do
    NET=10.201.$(((0x$(printf %s "$PREFIX" | sha256sum | cut -c1-4) + try) % 250))
    if error=$(engine network create --internal --subnet "$NET.0/24" "$PREFIX" 2>&1); then
      echo "$NET" >"$DIR/net"
      return
    fi
    [[ $error == *subnet* || $error == *"ool overlaps"* ]] || break
  done
  die "cannot make a network: $error"
}

# container_start NODE: a new container of the cluster.
container_start() {
  local node=$1 number=10 role=ctl
  if [[ $node != ctl ]]; then
    number=$((10 + ${node#n}))
    role=node
  fi
  engine run -d --init --name "$PREFIX-$node" --hostname "$node" --label "bellows.cluster=$PREFIX" \
    --network "$PREFIX" --ip "$(cat "$DIR/net").$number" --cap-add NET_ADMIN --cap-add SYS_PTRACE \
    --shm-size 1g -v "$DIR/etc/hosts:/etc/hosts:ro" -v "$DIR/etc:/etc/slurm:ro" \
    -v "$DIR/secret:/run/bellows-secret:ro" -v "$DIR/log:/var/log/slurm" \
    -v "$DIR/home:/home/ember" -v "$ROOT:/bellows:ro" \
    "$IMAGE" /bellows/scripts/cluster.d/boot "$role" >"$DIR/log/start-$node" 2>&1 9<&- || {
    sed "s/^/  | $node: /" "$DIR/log/start-$node" >&2
    return 1
  }
}

# cluster_wait PATTERN NODE…: until Slurm has these nodes in such a state; else says what slurmctld
# logged, and fails.
cluster_wait() {
  local pattern=$1
  shift
  on_ctl /bellows/scripts/cluster.d/wait-nodes "$pattern" "$UP_SECONDS" "$@" >"$DIR/wait.log" 2>&1 || {
    sed 's/^/  /' "$DIR/wait.log" >&2
    say "the end of $DIR/log/slurmctld.log:"
    tail -n 20 "$DIR/log/slurmctld.log" 2>/dev/null | sed 's/^/  | /' >&2 || true
    engine logs --tail 5 "$PREFIX-ctl" 2>&1 | sed 's/^/  | /' >&2 || true
    return 1
  }
}

# Containers are made by one script at a time: one that was killed may still have some in the making,
# which hold the lock as well.
cluster_lock() {
  exec 9<"$ROOT/scripts/cluster"
  flock 9
}

cluster_up() {
  local count=$1 node pids=() failed=0 pid i
  if cluster_is_up; then
    (($(cluster_nodes | wc -l) == count)) || die "cluster '$NAME' is up with $(cluster_nodes | wc -l) nodes; take it down first"
    (($(cluster_running | wc -l) == count + 1)) || die "cluster '$NAME' is up, but not all of its containers run (scripts/cluster status --name $NAME)"
    return
  fi
  cluster_lock
  cluster_down # what an earlier attempt may have left
  mkdir -p "$DIR"
  trap 'cluster_down' EXIT
  for ((i = 1; i <= count; i++)); do echo "n$i"; done >"$DIR/nodes"
  network_create
  write_folders
  write_slurm_conf
  for node in ctl $(cluster_nodes); do
    container_start "$node" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  ((failed == 0)) || die "a container did not start"
  on_ctl bash -c 'cp -rn /etc/skel/. /home/ember && chown -R ember:ember /home/ember &&
    runuser -u ember -- test -r /bellows/scripts/cluster.d/boot' ||
    die "the owner of jobs cannot read the tree: chmod -R o+rX $ROOT"
  # shellcheck disable=SC2046 # one word a node
  cluster_wait idle $(cluster_nodes) || die "cluster '$NAME' did not come up"
  touch "$DIR/ready"
  exec 9<&-
  trap - EXIT
}

# Takes away whatever is there of the cluster, complete or not.
cluster_down() {
  local containers
  rm -f "$DIR/ready"
  mapfile -t containers < <(cluster_containers)
  if ((${#containers[@]})); then engine rm -f -t 0 "${containers[@]}" >/dev/null 2>&1 || engine rm -f "${containers[@]}" >/dev/null; fi
  if engine network inspect "$PREFIX" >/dev/null 2>&1; then engine network rm -f "$PREFIX" >/dev/null 2>&1 || engine network rm "$PREFIX" >/dev/null; fi
  [[ -d $DIR ]] || return 0
  # Files of the job's owner may belong to a user whom only the engine can map.
  rm -rf "$DIR" 2>/dev/null || {
    engine run --rm --network none -v "$ROOT/build/clusters:/clusters" "$IMAGE" rm -rf "/clusters/$NAME" || true
    rm -rf "$DIR"
  }
  rmdir "$ROOT/build/clusters" 2>/dev/null || true
}

cluster_add() {
  local node=$1
  cluster_need_up
  if [[ $node != n* ]] || ! is_number "${node#n}" "$NODE_LIMIT"; then die "node '$node': n1 to n$NODE_LIMIT"; fi
  ! grep -qx -- "$node" "$DIR/nodes" || die "cluster '$NAME' has a node '$node' already"
  cluster_lock
  echo "$node" >>"$DIR/nodes"
  write_slurm_conf
  on_ctl scontrol reconfigure
  container_start "$node"
  cluster_wait idle "$node" || die "node '$node' did not join"
}

# A silent partition: packets vanish, no connection is refused or closed.
cluster_cut() {
  cluster_need_node "$1"
  # shellcheck disable=SC2016 # expanded in the container
  engine exec "$PREFIX-$1" sh -c 'for chain in INPUT OUTPUT; do
    iptables -A $chain -i lo -j ACCEPT 2>/dev/null || iptables -A $chain -o lo -j ACCEPT
    iptables -A $chain -j DROP
  done'
}

cluster_heal() {
  cluster_need_node "$1"
  engine exec "$PREFIX-$1" iptables -F
}

cluster_kill() {
  cluster_need_node "$1"
  engine kill -s KILL "$PREFIX-$1" >/dev/null
}

# Boots a node or the controller again; returns when it has reported.
cluster_restart() {
  local node=$1 started=0 running
  cluster_need_node "$node"
  if [[ $node != ctl ]]; then
    started=$(on_ctl scontrol show node "$node" | grep -o 'SlurmdStartTime=[^ ]*') || die "the controller does not answer"
  fi
  engine kill -s KILL "$PREFIX-$node" >/dev/null 2>&1 || true # it may be dead already
  engine start "$PREFIX-$node" >/dev/null
  if [[ $node == ctl ]]; then
    mapfile -t running < <(cluster_running | sed -n "s/^$PREFIX-n/n/p")
    cluster_wait '[^u].*' "${running[@]}" || die "the controller did not come back"
  else
    on_ctl /bellows/scripts/cluster.d/wait-boot "$UP_SECONDS" "$node" "${started#*=}" ||
      die "'$node' did not come back within $UP_SECONDS seconds"
  fi
}

cluster_status() {
  cluster_need_up
  engine ps -a --filter "label=bellows.cluster=$PREFIX" --format 'table {{.Names}}  {{.Status}}'
  on_ctl sinfo -N -o '%8N %10P %8t %6c %8f %E'
  on_ctl squeue
}
