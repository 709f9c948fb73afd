# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Random resizes of JOB in a row (tests/lib/elastic_job.sh), one rank per node of n1 to n4, RESIZES
# of them (10). After each, what Slurm, sinfo and bellows say of its nodes must be the same, and what
# the answer made it. SEED=NUMBER plays the same requests again.
# shellcheck disable=SC2154 # HOST, OUT, … are the test's
# shellcheck disable=SC2086,SC2046 # lists of nodes are words
# shellcheck disable=SC2016 # scripts for the nodes

ALL="n1 n2 n3 n4"
HELD=''   # the job's nodes, in order
DEAD=''   # one of them whose rank was killed
REQUEST='' WANTED=''
KILLER='' # the process that kills a rank in the middle of a request

draw() { DRAWN=$((RANDOM % $1)); }
sorted() { tr ' ' '\n' <<<"$*" | sed '/^$/d' | sort -u | xargs; }
less() { comm -23 <(tr ' ' '\n' <<<"$1" | sort) <(tr ' ' '\n' <<<"$2" | sort) | xargs; }
count() { wc -w <<<"$1"; }
holds() { [[ " $HELD " == *" $1 "* ]]; }
listed() { sed -n "s/.*\"$1\":\[\([^]]*\)\].*/\1/p" <<<"$OUT" | tr -d '"' | tr , ' '; }

# Each of these nodes by chance; at least the first where there is one.
draw_some() {
  SOME=''
  local node
  for node in "$@"; do
    draw 2
    ((DRAWN)) || SOME+=" $node"
  done
  SOME=$(sorted "${SOME:-${1:-}}")
}

# grants NODES: whether one allocation can have them. With PLACES=features, one has fast nodes only,
# the odd ones, or slow ones only.
grants() {
  [[ ${PLACES:-} != features ]] || ! [[ $1 == *[13]* && $1 == *[24]* ]]
}
# grants_count NUMBER: the same, for so many of those that are idle.
grants_count() {
  local idle slow
  idle=$(less "$ALL" "$HELD")
  slow=$(tr -dc 24 <<<"$idle" | wc -c)
  if [[ ${PLACES:-} == features ]]; then
    (($1 <= slow || $1 <= $(count "$idle") - slow))
  else
    (($1 <= $(count "$idle")))
  fi
}

# The size of the job after so many nodes more, or `refused`.
set_wanted() {
  local size=$(($(count "$HELD") + $1))
  WANTED=$size
  if ((size < 1 || size > 4)) || { (($1 > 0)) && ! grants_count "$1"; }; then WANTED=refused; fi
}

# REQUEST, and WANTED of it: a number of nodes, names of nodes, or `refused`.
draw_request() {
  local more
  draw 12
  case $DRAWN in
    0 | 1) REQUEST=+1 && set_wanted 1 ;;
    2 | 3) REQUEST=-1 && set_wanted -1 ;;
    4) REQUEST=+2 && set_wanted 2 ;;
    5) REQUEST=-2 && set_wanted -2 ;;
    6)
      draw 5
      REQUEST=$((DRAWN + 1))
      set_wanted $((REQUEST - $(count "$HELD")))
      ;;
    7 | 8)
      draw_some n2 n3 n4
      WANTED="n1 $SOME"
      REQUEST=${WANTED// /,}
      more=$(less "$WANTED" "$HELD")
      grants "$more" || WANTED=refused
      ;;
    9) # these more; n9 is no node, and one that the job has is refused
      draw_some n9 $ALL
      more=$SOME
      REQUEST=+${more// /,}
      WANTED=$(sorted "$HELD $more")
      [[ $more != *n9* && -z $(less "$more" "$(less "$ALL" "$HELD")") ]] && grants "$more" || WANTED=refused
      ;;
    10) # these fewer; one that the job does not have, or that of its script
      draw_some $ALL
      REQUEST=-${SOME// /,}
      WANTED=$(less "$HELD" "$SOME")
      [[ $SOME != *n1* && -z $(less "$SOME" "$HELD") ]] || WANTED=refused
      ;;
    11) # all that there are
      draw_some $(less "$ALL" "$HELD")
      WANTED=$(sorted "$HELD $SOME")
      REQUEST=+${SOME// /,}
      [[ $SOME ]] || { REQUEST=-n1 WANTED=refused; }
      grants "$SOME" || WANTED=refused
      ;;
  esac
}

# kill_a_rank [SECONDS]: of a node that the job has; from then on without waiting for it.
kill_a_rank() {
  local nodes
  read -ra nodes <<<"$HELD"
  draw "${#nodes[@]}"
  DEAD=${nodes[DRAWN]}
  echo "    the rank on $DEAD is killed${1:+ after $1 s}"
  if [[ ${1:-} ]]; then
    { sleep "$1" && on "root@$DEAD" pkill -KILL -x elastic_steps; } & # it may have left by then
    KILLER=$!
  else
    on "root@$DEAD" pkill -KILL -x elastic_steps
  fi
}

# The node has a rank again.
fill() {
  ! holds "$DEAD" || expect_exit 0 control resize +1 --on "$DEAD"
  DEAD=''
}

_in_slurm() {
  on ctl squeue -h -t R -o '%i %N %k' |
    awk -v job="$JOB" '$1 == job || ($3 " " $4 == "bellows brick" && $NF == job) { print $2 }' | paste -sd,
}
# What Slurm has for the job, what is not idle, and where bellows-run has ranks; each in one line.
seen() {
  local names
  names=$(_in_slurm)
  on ctl bash -c 'scontrol show hostnames "$1" | sort | xargs
    sinfo -h -N -p main -o "%N %T" | awk "\$2 != \"idle\" { print \$1 }" | sort | xargs' - "$names"
  control status --json | python3 -c 'import json, sys
status = json.load(sys.stdin)
print(*sorted(node["name"] for node in status["allocation"]))
print(*sorted(rank["node"] for rank in status["ranks"]), status["state"])'
}
_agree() { [[ $(seen) == "$HELD"$'\n'"$HELD"$'\n'"$HELD"$'\n'"$HELD steady" ]]; }

# Nodes that Slurm calls idle and takes for used all the same (docs/admin.md).
lost_to_slurm() {
  on ctl scontrol -o show nodes | sed -n 's/^NodeName=\([^ ]*\) .* CPUAlloc=[1-9].* State=IDLE .*/\1/p' | xargs
}

# settle: until all say the same, and Slurm can use what is idle.
settle() {
  local until=$((SECONDS + 20))
  until _agree && [[ -z $(lost_to_slurm) ]]; do
    ((SECONDS < until)) || fail "the job should have $HELD; Slurm, sinfo, bellows-run and its ranks say: $(seen); \
Slurm has lost count of: $(lost_to_slurm)"
    sleep 0.1
  done
}

# Whether what was refused could have been done, as far as the row knows.
check_refusal() {
  [[ $WANTED != refused ]] || return 0
  [[ $ERR != *"holds companion job"* ]] || return 0 # a brick's first node goes last
  # Ranks that have died are not counted: the others may be too few to let some go.
  [[ $DEAD && $ERR == *"rank"* && $REQUEST != +* ]] || fail "--nodes=$REQUEST with $HELD was refused: $ERR"
}

check_answer() {
  local before=$HELD
  [[ $WANTED != refused ]] || fail "--nodes=$REQUEST with $HELD was not refused: $OUT"
  HELD=$(sorted "$(less "$HELD" "$(listed removed)") $(listed added)")
  if [[ $WANTED == *n* ]]; then
    expect_equal "$HELD" "$WANTED"
  else
    [[ $(count "$HELD") == "$WANTED" ]] || fail "--nodes=$REQUEST with $before made $HELD: $OUT"
  fi
}

# How many nodes there are before and after the request, whichever is less.
least() {
  local now after
  now=$(count "$HELD") after=$WANTED
  [[ $WANTED != *n* ]] || after=$(count "$WANTED")
  [[ $WANTED != refused ]] || after=$now
  echo $((now < after ? now : after))
}

# one_resize NUMBER
one_resize() {
  local limit=60
  KILLER=''
  draw_request
  draw 5
  if ((DRAWN == 0)) && (($(least) > 1)); then # one must be left
    draw 3
    case $DRAWN in
      0) kill_a_rank && fill && settle ;;
      1) kill_a_rank ;; # the repair and the request meet
      2) draw 5 && kill_a_rank 0.$DRAWN ;;
    esac
  fi
  echo "$1: $HELD; --nodes=$REQUEST, to be ${WANTED// /,}"
  [[ $WANTED != refused ]] || limit=6
  run control resize --nodes="$REQUEST" --wait=$limit --json
  [[ -z $KILLER ]] || wait "$KILLER" || true
  echo "    ${OUT:0:100}${ERR:0:100}"
  case $CODE in
    0) check_answer ;;
    1) check_refusal ;;
    *) fail "exit code $CODE of bellows resize --nodes=$REQUEST: $OUT$ERR" ;;
  esac
  [[ -z $DEAD ]] || fill
  settle
}

# row_of_resizes: of JOB, which has just begun.
row_of_resizes() {
  local i
  RANDOM=${SEED:=$RANDOM}
  echo "SEED=$SEED"
  HELD=$(nodes_of "$JOB")
  settle
  for ((i = 1; i <= ${RESIZES:-10}; i++)); do one_resize $i; done
}
