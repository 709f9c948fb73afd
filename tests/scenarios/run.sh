# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bellows-run without Slurm: worlds on one and several local nodes, placement, options, exit codes.
export TIME_LIMIT=150
. "$ROOT/tests/lib/launcher.sh"

# hello RANKS NODES: every rank reports, and all are in one world.
hello() {
  local i expected
  expect_exit 0 launch -n "$1" --local-nodes "$2" mpi_hello
  expected=$(for ((i = 0; i < $1; i++)); do echo "rank $i of $1, sum $(($1 * ($1 - 1) / 2))"; done | sort)
  expect_equal "$(sort <<<"$OUT")" "$expected"
  expect_equal "$ERR" ""
  expect_clean
}

test_a_world_on_one_node() { hello 4 1; }
test_a_world_on_two_nodes() { hello 4 2; }
test_a_world_on_four_nodes() { hello 4 4; }
test_a_world_of_one() { hello 1 1; }
test_a_world_on_32_nodes() { LIMIT=120 hello 32 32; }

test_worlds_from_mpi_sessions() {
  expect_exit 0 launch -n 4 --local-nodes 2 world_hello
  expect_equal "$OUT" "all good on 4 ranks, 2 on this node"
  expect_exit 0 launch -n 3 world_hello
  expect_equal "$OUT" "all good on 3 ranks, 3 on this node"
  expect_exit 0 launch -n 1 world_hello
  expect_equal "$OUT" "all good on 1 ranks, 1 on this node"
}

# shellcheck disable=SC2016 # for the ranks' shell
test_ranks_know_their_place() {
  expect_exit 0 launch -n 5 --local-nodes 2 sh -c 'echo $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK $OMPI_COMM_WORLD_LOCAL_SIZE'
  expect_equal "$(sort <<<"$OUT")" $'0 5 0 3\n1 5 1 3\n2 5 2 3\n3 5 0 2\n4 5 1 2'
  expect_exit 0 launch -n 3 --local-nodes 2 --ranks-per-node 2 sh -c 'echo $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_LOCAL_RANK'
  expect_equal "$(sort <<<"$OUT")" $'0 0\n1 1\n2 0'
  expect_exit 0 launch --local-nodes 3 sh -c 'echo $OMPI_COMM_WORLD_RANK'
  expect_equal "$(sort <<<"$OUT")" $'0\n1\n2'
}

test_without_a_number_it_is_a_rank_per_core() {
  expect_exit 0 launch echo x
  expect_equal "$(wc -l <<<"$OUT")" "$(env -u OMP_NUM_THREADS nproc)"
}

test_ranks_are_bound_where_there_are_cores_enough() {
  expect_exit 0 launch -n 1 --report-bindings grep Cpus_allowed_list /proc/self/status
  expect_equal "$OUT" "$(grep Cpus_allowed_list /proc/self/status)"
  expect_contains "$ERR" "rank 0 on "
  local cores
  cores=$(env -u OMP_NUM_THREADS nproc)
  expect_exit 0 launch -n $((cores + 1)) --report-bindings true
  expect_equal "$(grep -c 'not bound' <<<"$ERR")" $((cores + 1))
  expect_exit 1 launch -n $((cores + 1)) --bind-to core true
  expect_contains "$(last_line)" "only $cores cores may be used on this node"
}

test_the_folder_of_the_ranks() {
  mkdir sub
  printf '#!/bin/sh\npwd\n' >sub/where && chmod +x sub/where
  expect_exit 0 launch -n 1 -D "$PWD/sub" ./where
  expect_equal "$OUT" "$(realpath sub)"
  expect_exit 0 launch -n 1 sub/where
  expect_equal "$OUT" "$(realpath .)"
  expect_exit '!0' launch -n 1 -D /no/such/folder hostname
  expect_contains "$(last_line)" "cannot enter folder '/no/such/folder': No such file or directory"
}

test_a_program_that_does_not_exist_is_127() {
  expect_exit 127 launch -n 2 --local-nodes 2 no-such-program
  expect_matches "$(last_line)" "^bellows-run: rank [01] on .*: cannot start 'no-such-program': no such program in PATH"
  expect_exit 127 launch -n 1 ./nothing-here
  expect_contains "$(last_line)" "No such file or directory"
  expect_clean
}

test_a_file_that_cannot_be_run_is_126() {
  echo text >plain
  expect_exit 126 launch -n 2 ./plain
  expect_contains "$(last_line)" "/plain': not an executable file"
  printf '\x7fnothing' >odd && chmod +x odd
  expect_exit 126 launch -n 1 ./odd
  expect_contains "$(last_line)" "Exec format error"
}

# shellcheck disable=SC2016 # for the ranks' shell
test_the_exit_code_is_the_programs_and_the_last_line_says_why() {
  expect_exit 0 launch -n 2 true
  expect_equal "$ERR" ""
  expect_exit 7 launch -n 3 sh -c '[ $OMPI_COMM_WORLD_RANK != 1 ] || exit 7; sleep 30'
  expect_matches "$(last_line)" "^bellows-run: rank 1 on $(hostname) \(pid [0-9]+\) ended with exit code 7 after [0-9.]+ s; the other 2 ranks were stopped$"
  expect_exit 139 launch -n 2 sh -c '[ $OMPI_COMM_WORLD_RANK != 1 ] || kill -SEGV $$; sleep 30'
  expect_matches "$(last_line)" "rank 1 .* was killed by SIGSEGV after [0-9.]+ s; the other rank was stopped$"
  expect_clean
}

test_the_ends_of_mpi_programs() {
  expect_exit 7 launch -n 3 mpi_ends exit
  expect_matches "$(last_line)" "rank 1 .* ended with exit code 7"
  expect_exit 42 launch -n 3 --local-nodes 3 mpi_ends abort
  expect_matches "$(last_line)" "rank 1 .* called MPI_Abort with status 42"
  expect_exit 1 launch -n 2 mpi_ends no-finalize
  expect_matches "$(last_line)" "rank 1 .* ended without calling MPI_Finalize"
  expect_exit 1 launch -n 2 --local-nodes 2 world_hello die-in-second
  expect_matches "$(last_line)" "rank 1 .* ended without calling MPI_Finalize"
  expect_exit 139 launch -n 2 --local-nodes 2 mpi_ends segv
  expect_matches "$(last_line)" "rank 1 .* was killed by SIGSEGV"
  expect_exit 9 launch -n 3 --local-nodes 3 mpi_ends before-init
  expect_matches "$(last_line)" "rank 1 .* ended with exit code 9"
  expect_clean
}

test_wrong_use_is_told_with_the_option_and_code_2() {
  expect_exit 2 launch
  expect_contains "$ERR" "no program named"
  expect_exit 2 launch -n 0 true
  expect_contains "$ERR" "--ranks=0: must be at least 1"
  expect_exit 2 launch --frobnicate true
  expect_contains "$ERR" "--frobnicate"
  expect_exit 2 launch --on-failure maybe true
  expect_contains "$ERR" "'maybe' is not one of stop, continue"
  expect_exit 1 launch -n 5 --ranks-per-node 2 --local-nodes 2 true
  expect_contains "$ERR" "-n 5 ranks do not fit --ranks-per-node=2 on 2 nodes"
  expect_exit 0 launch --help
  expect_contains "$OUT" "--tag-output"
  expect_exit 0 launch --version
  expect_matches "$OUT" '^bellows-run [0-9.]+$'
}

test_the_users_mpi_parameters_hold() {
  OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp OMPI_MCA_coll_tuned_priority=20 \
    expect_exit 0 launch -n 2 sh -c 'env | grep ^OMPI_MCA | sort'
  expect_contains "$OUT" "OMPI_MCA_btl=self,tcp"$'\n'
  expect_contains "$OUT" "OMPI_MCA_coll_tuned_priority=20"
  expect_contains "$OUT" "OMPI_MCA_mpi_ft_enable=1"
  OMPI_MCA_btl=self,tcp expect_exit 0 launch -n 2 mpi_hello
}

# shellcheck disable=SC2016 # for the ranks' shell
test_a_launcher_inside_a_rank_works() {
  expect_exit 0 launch -n 2 sh -c 'bellows-run -n 2 mpi_hello </dev/null'
  expect_equal "$(grep -c 'of 2, sum 1' <<<"$OUT")" 4
}

test_two_launchers_side_by_side_do_not_mix() {
  start -n 2 --local-nodes 2 sh -c 'echo up; sleep 2; exec mpi_hello'
  started up 2
  expect_exit 0 launch -n 3 --local-nodes 3 mpi_hello
  expect_equal "$(grep -c 'of 3, sum 3' <<<"$OUT")" 3
  expect_end 0
  expect_equal "$(grep -c 'of 2, sum 1' <<<"$OUT")" 2
}
