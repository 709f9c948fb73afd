# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Programs of users with bellows.h: what comes out is what comes out of a run with one rank, whatever
# happens to the ranks, and mistakes are named.
export TIME_LIMIT=180
# shellcheck source=../lib/elastic.sh
. "$ROOT/tests/lib/elastic.sh"

# library RANKS WORDS…
library() {
  local ranks=$1
  shift
  launch -n "$ranks" library_steps "$@" </dev/null
}
# state: the last words of a run, which rank 0 prints.
state() { grep '^steps ' <<<"$OUT" | tail -n 1; }
# expect_near STATE STATE: in double precision, to what another order of summation makes of it.
expect_near() {
  python3 - "$1" "$2" <<'END' || fail "the states differ: ${1:0:80}… and ${2:0:80}…"
import sys
a, b = (line.split()[1:] for line in sys.argv[1:])
sys.exit(not (len(a) == len(b) > 40 and a[0] == b[0]
              and all(abs(float(x) - float(y)) < 1e-9 for x, y in zip(a, b))))
END
}
_logged() { grep -qs "$1" log; }
# begin_library MIN-MAX RANKS WORDS…: in the background, until `finish_library`.
begin_library() {
  LIMIT=100 BELLOWS_CHECK_STATE=1 start --elastic "$1" -n "$2" library_steps end="$PWD/end" log="$PWD/log" \
    --epochs 1000000 --checkpoint-dir c --checkpoint-every 1 --keep 1000000 "${@:3}"
  wait_until 60 _logged 'tested 2'
}
# The state must be that of one rank which began with the same parameters: those of the first
# checkpoint.
finish_library() {
  touch end
  expect_end 0
  local mine steps
  mine=$(state)
  steps=$(cut -d ' ' -f 2 <<<"$mine")
  expect_exit 0 library 1 --resume "c/checkpoint-000000000001.h5" --epochs 1000000 --steps "$steps" "$@"
  expect_near "$mine" "$(state)"
  # Each epoch has been tested, once unless something happened in its test, on all samples.
  python3 - "$steps" log <<'END' || fail "epochs or tests are missing"
import sys
steps = int(sys.argv[1])
lines = [line.split() for line in open(sys.argv[2])]
tested = [int(l[1]) for l in lines if l[0] == "tested"]
assert all(float(l[2]) == 90 for l in lines if l[0] == "tested"), lines
assert sorted(set(tested)) == list(range(1, steps // 3 + 1)), (steps, tested)
assert tested == sorted(tested), tested
END
}

test_ten_lines_make_the_example_elastic() {
  cd "$ROOT/docs"
  local changes shown
  changes=$(diff -wU0 <(grep -v '^//' examples/mnist.cc) <(grep -v '^//' examples/mnist_elastic.cc) |
    grep '^[-+]' | grep -v '^[-+][-+]') || true
  # shellcheck disable=SC2016 # Markdown's
  shown=$(sed -n '/^```diff/,/^```/p' library.md | sed '1d;$d')
  expect_equal "$shown" "$changes"
  # A line that is changed counts once, and so does one that is gone.
  local new gone
  new=$(grep -c '^+' <<<"$changes") gone=$(grep -c 'zero_grad' <<<"$changes")
  ((new + gone <= 10)) || fail "$((new + gone)) lines differ"
}

# images: (Fashion-)MNIST unpacked, as libtorch's class wants it.
images() {
  local from=${BELLOWS_DATA:-/usr/share/datasets}/fashion-mnist file
  [[ -e $from/train-images-idx3-ubyte.gz ]] || skip "no Fashion-MNIST in $from"
  mkdir images
  for file in "$from"/*.gz; do gunzip -c "$file" >"images/$(basename "$file" .gz)"; done
}

test_the_example_learns_in_worlds_that_change() {
  images
  LIMIT=150 start --elastic 1-4 -n 2 mnist_elastic images --steps 300 --log-every 5
  started 'step 10 '
  expect_exit 0 ctl resize 3
  started '^join: 3 ranks'
  kill -9 "$(rank_pid 1)"
  started '^repair: 2 ranks'
  expect_end 0
  expect_matches "$OUT" 'result: accuracy=0\.[78][0-9]+ .*ranks=2 passes=0\.32 steps=300 '
}

test_the_number_of_ranks_does_not_show() {
  expect_exit 0 library 1 --checkpoint-dir c --checkpoint-every 1 --keep 100
  local alone
  alone=$(state)
  expect_matches "$alone" '^steps 9 '
  local begin=(--resume c/checkpoint-000000000001.h5)
  expect_exit 0 library 3 "${begin[@]}"
  expect_near "$(state)" "$alone"
  # More ranks than samples of a step; passes of parts.
  expect_exit 0 library 2 --micro-batch 7 "${begin[@]}"
  expect_near "$(state)" "$alone"
  expect_exit 0 library 3 --batch 2 --accept-changes "${begin[@]}" --steps 20
  alone=$(state)
  expect_exit 0 library 1 --batch 2 --accept-changes "${begin[@]}" --steps 20
  expect_near "$(state)" "$alone"
}

test_every_optimizer_is_carried_over() {
  local optimizer
  for optimizer in sgd adam adamw rmsprop adagrad; do
    rm -rf c
    expect_exit 0 library 2 optimizer=$optimizer --checkpoint-dir c --checkpoint-every 1 --keep 100
    local whole
    whole=$(state)
    expect_exit 0 library 3 optimizer=$optimizer --resume c/checkpoint-000000000004.h5
    expect_near "$(state)" "$whole"
  done
}

test_joins_leaves_and_deaths_do_not_show() {
  begin_library 1-4 2 optimizer=adam pause=0.005
  expect_exit 0 ctl resize 4
  kill -9 "$(rank_pid 0)"
  wait_until 30 _size_is 3
  expect_exit 0 ctl leave --ranks 0
  expect_exit 0 ctl resize 3
  kill -9 "$(rank_pid 2)"
  wait_until 30 _size_is 2
  finish_library optimizer=adam
}

test_deaths_and_joins_in_a_test_repeat_the_test() {
  begin_library 1-4 3 test=0.3 stop=2,9
  started '^repair: 2 ranks'
  expect_exit 0 ctl resize 3
  finish_library
}

test_a_process_that_replaces_itself_goes_on() {
  export BELLOWS_STUCK_SECONDS=0.000001
  begin_library 1-3 3 pause=0.1
  local before after=()
  before=("$(rank_pid 0)" "$(rank_pid 2)")
  kill -9 "$(rank_pid 1)"
  wait_until 30 _size_is 2
  local pid
  for pid in "${before[@]}"; do
    ! grep -qz '^BELLOWS_STATE_FD=' "/proc/$pid/environ" || after+=("$pid")
  done
  ((${#after[@]} > 0)) || fail "nobody has replaced itself"
  finish_library
}

test_a_body_that_swallows_everything_is_left_all_the_same() {
  begin_library 1-3 2 swallow
  expect_exit 0 ctl resize 3
  kill -9 "$(rank_pid 0)"
  wait_until 30 _size_is 2
  finish_library
}

test_a_stop_and_a_resumption_do_not_show() {
  begin_library 1-3 2
  kill -TERM "$LAUNCHER"
  expect_end 85
  rm -f end
  local from
  from=$(find c -name 'checkpoint-*' | sort | tail -n 1)
  expect_exit 0 library 3 --resume "$from" --epochs 1000000 --steps 300
  local resumed
  resumed=$(state)
  expect_exit 0 library 1 --resume c/checkpoint-000000000001.h5 --epochs 1000000 --steps 300
  expect_near "$(state)" "$resumed"
}

test_buffers_are_those_of_the_state_before_the_first_step() {
  expect_exit 0 library 2 --checkpoint-dir c
  expect_contains "$OUT" "count 9"
  # Nothing is left to do, but what comes behind the loop.
  expect_exit 0 library 2 --checkpoint-dir c
  expect_contains "$OUT" "count 9"
}

test_a_change_that_is_wanted_in_the_last_step_is_one_too_late() {
  LIMIT=60 start --elastic 1-2 -n 2 library_steps --epochs 2 log="$PWD/log" leave=0,5
  expect_end 0
  expect_contains "$(<log)" "tested 2 90"
  expect_contains "$(<log)" "done"
  expect_matches "$(state)" '^steps 6 '
}

test_batch_and_rate_follow_the_ranks() {
  begin_library 1-3 1 --batch-rule per-rank --lr-rule linear --lr-ramp 1 --metrics m.jsonl --log-every 1
  expect_exit 0 ctl resize 3
  wait_until 30 grep -qs '"batch":90.*"ranks":3' m.jsonl
  touch end
  expect_end 0
  expect_contains "$OUT" 'batch 30 -> 90 '
  python3 - <<'END' || fail "the rate has not followed: $(tail -n 3 m.jsonl)"
import json
steps = [s for s in map(json.loads, open("m.jsonl")) if s["event"] == "step"]
assert abs(steps[0]["lr"] - 0.05) < 1e-12 and abs(steps[-1]["lr"] - 0.15) < 1e-12, steps[-1]
END
}

test_noise_is_measured() {
  expect_exit 0 library 2 --measure-noise --noise-interval 1 --metrics m.jsonl --log-every 1 optimizer=adam --epochs 8
  grep -q '"noise_scale":[0-9]' m.jsonl || fail "no noise scale: $(tail -n 3 m.jsonl)"
  expect_exit 2 library 2 --measure-noise optimizer=adagrad
  expect_contains "$ERR" "gradient noise cannot be measured with adagrad: use sgd, adam or adamw"
}

test_errors_of_a_body_name_the_rank_and_hang_nobody() {
  expect_exit 1 library 3 throw=1,4
  expect_matches "$ERR" 'library_steps: rank 1 of 3, after step 4 on [^:]+: the sky is falling'
  expect_exit 1 library 2 odd=0,2
  expect_matches "$ERR" 'rank 0 of 2, after step 2 on .*an exception that is no std::exception'
}

test_the_others_go_on_without_a_rank_whose_body_fails() {
  begin_library 1-3 3 throw=2,9 test=0.01
  started '^repair: 2 ranks'
  expect_contains "$(<err)" "rank 2 of 3, after step 9 on"
  finish_library
}

test_mistakes_are_named() {
  expect_exit 1 library 2 misuse=next
  expect_contains "$ERR" "the loader's next batch was called where backward() of the last batch is due"
  expect_exit 1 library 2 misuse=step
  expect_contains "$ERR" "where step() after backward() is due"
  expect_exit 1 library 2 misuse=backward
  expect_contains "$ERR" "backward() needs the mean loss, a single number"
  expect_exit 1 library 2 misuse=break
  expect_contains "$ERR" "an epoch was left before its end; to stop earlier use --steps"
  expect_exit 1 library 2 misuse=unused
  expect_contains "$ERR" "no gradient for unused.weight"
  expect_exit 1 library 2 misuse=unfreeze
  expect_contains "$ERR" "5 parameters require gradients now, and 4 did at run()"
  expect_exit 2 library 2 misuse=stranger
  expect_contains "$ERR" "the optimizer has a parameter that the model does not have"
  expect_exit 2 library 2 misuse=twice
  expect_contains "$ERR" "loader(): there is one already"
  expect_exit 1 library 2 misuse=empty
  expect_contains "$ERR" "after step 3: evaluated() was called, but no rank has looked at a sample"
  expect_exit 2 library 2 misuse=outside
  expect_contains "$ERR" "sum() and evaluated() are for the body of run() only"
  expect_exit 2 library 2 misuse=again
  expect_contains "$ERR" "run() can be called once only"
  expect_exit 2 library 2 optimizer=lbfgs
  expect_contains "$ERR" "take SGD, Adam, AdamW, RMSprop or Adagrad"
}

test_ranks_that_differ_in_their_calls_are_named() {
  local same="all ranks have to make the same calls in the same order"
  expect_exit 1 library 3 early=1,4
  expect_contains "$ERR" "after step 4: 2 ranks call backward(), rank 1 has left the body of run(); $same"
  expect_exit 1 library 2 early=0,4 --checkpoint-dir c
  expect_contains "$ERR" "rank 1 calls backward(), rank 0 has left the body of run()"
  expect_lacks "$OUT" "result:"
  expect_exit 1 library 2 early=0,4 --checkpoint-dir c --checkpoint-every 1 --resume none
  expect_contains "$ERR" "rank 1 asks the loader for the next batch, rank 0 has left the body of run()"
  expect_exit 1 library 3 more=2,3
  expect_contains "$ERR" "after step 3: rank 2 calls sum(), 2 ranks call evaluated(); $same"
  expect_exit 1 library 3 between=0,5
  expect_contains "$ERR" "after step 5: 2 ranks call backward(), rank 0 calls sum(); $same"
  expect_exit 1 library 2 longer=1,6
  expect_contains "$ERR" "after step 6: the ranks give sum() different numbers of values; $same"
  # It is no death, which the others would outlive.
  expect_exit 1 launch --elastic 1-2 -n 2 library_steps more=0,5 </dev/null
  expect_contains "$ERR" "after step 5: rank 1 calls backward(), rank 0 calls sum(); $same"
  expect_exit 1 launch --elastic 1-2 -n 2 library_steps between=1,5 </dev/null
  expect_contains "$ERR" "after step 5: rank 0 calls backward(), rank 1 calls sum(); $same"
}

test_a_difference_in_calls_is_noticed_before_the_world_changes() {
  LIMIT=60 expect_exit 1 launch --elastic 1-3 -n 3 library_steps --epochs 8 leave=0,7 more=2,8 </dev/null
  expect_matches "$ERR" 'after step 8: 2 ranks ask the loader for the next batch, rank 2 calls sum\(\)'
}

test_ranks_with_other_options_are_named() {
  # shellcheck disable=SC2016 # for the shell of each rank
  local odd='if [[ $PMIX_RANK == 1 ]]; then set -- $ODD; fi; exec library_steps "$@"'
  export ODD
  for ODD in "--clip 0.5" "--steps 4" "--checkpoint-dir c" "--metrics m.jsonl"; do
    expect_exit 2 launch -n 2 bash -c "$odd" odd </dev/null
    expect_matches "$ERR" "rank 0 has ${ODD%% *} .* and rank 1 has ${ODD%% *} .*: all ranks need the same options"
  done
}

test_a_test_behind_the_last_step_is_made_again() {
  # The limit comes within an epoch.
  expect_exit 85 library 2 --steps 4 --checkpoint-dir c log="$PWD/log" term=1,2
  expect_lacks "$(<log)" "tested 2"
  expect_exit 0 library 2 --steps 4 --checkpoint-dir c log="$PWD/log"
  expect_equal 1 "$(grep -c 'tested 2' log)"
  # It is noted, too.
  expect_exit 0 library 2 --steps 4 --checkpoint-dir c log="$PWD/log"
  expect_equal 1 "$(grep -c 'tested 2' log)"
  expect_exit 0 launch --elastic 1-3 -n 3 library_steps --steps 4 log="$PWD/again" stop=1,4 </dev/null
  expect_contains "$(<again)" "tested 2 90"
}

test_a_test_that_a_stop_prevents_is_made_after_the_resumption() {
  # Heard of in the last step of the second epoch: nothing of it is left but the test.
  expect_exit 85 library 2 term=1,4 log="$PWD/log" --epochs 4 --checkpoint-dir c --checkpoint-every 1000
  expect_lacks "$(<log)" "tested 2"
  expect_exit 0 library 2 log="$PWD/log" --epochs 4 --checkpoint-dir c
  python3 - <<'END' || fail "epochs or tests are missing: $(<log)"
tested = [int(line.split()[1]) for line in open("log") if line.startswith("tested")]
assert tested == [1, 2, 3, 4], tested
END
}

test_a_process_says_itself_what_only_it_finds() {
  # shellcheck disable=SC2016 # for the shell of each rank
  local odd='if [[ $PMIX_RANK == 1 ]]; then set -- --batch-rule never; fi; exec library_steps "$@"'
  expect_exit 2 launch -n 2 bash -c "$odd" odd --epochs 1 </dev/null
  expect_matches "$ERR" 'library_steps: rank 1 on [^:]+: --batch-rule never: use one of'
  # Of what all find, one speaks.
  expect_exit 2 library 3 --batch-rule never
  expect_lacks "$ERR" "rank 1 on"
}

test_options_are_shared_with_the_program() {
  expect_exit 2 library 1 --batch-rule never
  expect_contains "$ERR" "library_steps: --batch-rule never: use one of"
  expect_exit 2 library 1 --epochs 0
  expect_contains "$ERR" "--passes: must be positive"
  expect_exit 2 library 1 --lr-rule adamscale
  expect_contains "$ERR" "--lr-rule adamscale: is for adam and adamw"
  expect_exit 0 library 1 --bellows-help
  expect_contains "$OUT" "--batch-rule"
  expect_lacks "$OUT" "--momentum"
  # What is the program's stays with it, and so does what stands behind --.
  expect_exit 0 library 1 optimizer=adam --epochs 1 --lr 7 -x -- --batch-rule never
  expect_matches "$(state)" '^steps 3 '
  expect_exit 2 library_steps
  expect_contains "$ERR" "not started by a launcher; use: bellows-run [-n RANKS] library_steps ..."
}

test_it_builds_from_an_installed_tree() {
  local make_in=$BUILD
  [[ -e $BUILD/Makefile ]] || make_in=$ROOT
  expect_exit 0 make -s -C "$make_in" install DESTDIR="$PWD/root" PREFIX=/opt/bellows
  mv root/opt/bellows moved
  cp "$ROOT/docs/examples/mnist_elastic.cc" .
  export PKG_CONFIG_PATH=$PWD/moved/lib/pkgconfig
  # shellcheck disable=SC2046 # words for the compiler
  LIMIT=170 expect_exit 0 mpicxx -std=c++20 -O1 -o mnist_elastic mnist_elastic.cc $(pkg-config --cflags --libs bellows)
  images
  expect_exit 0 ./moved/bin/bellows-run -n 2 ./mnist_elastic images --steps 20
  expect_matches "$OUT" 'result: accuracy='
}
