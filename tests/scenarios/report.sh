# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# `bellows report`: from what runs leave to a page, tables and numbers.
# shellcheck source=../lib/browser.sh
. "$ROOT/tests/lib/browser.sh"

data() { "$ROOT/tests/lib/report_data" "$@"; }
# reported RUN… [OPTION…]: the object of --json goes to report.json.
reported() {
  expect_exit 0 bellows report --json "$@"
  printf '%s' "$OUT" >report.json
}
# check PYTHON: with the object as `r`.
check() { python3 -c "import json; r = json.load(open('report.json'))
$1" || fail "$1"; }

# t(N) = 0.1/N + 0.02: the serial fraction is 0.02 / 0.12.
test_strong_scaling_is_what_the_times_say() {
  data run
  reported run
  check 's = r["scaling"][0]; assert s["kind"] == "strong" and s["base"] == 1'
  check 's = r["scaling"][0]; assert abs(s["amdahl_serial_fraction"] - 1/6) < 1e-6 and s["amdahl_error"] < 1e-6'
  check 'assert [z["ranks"] for z in r["scaling"][0]["sizes"]] == [1, 2, 4]'
  check 'for z in r["scaling"][0]["sizes"]:
  n = z["ranks"]; t = 0.1 / n + 0.02; e = 0.12 / (n * t)
  assert abs(z["step_seconds"]["median"] - t) < 1e-9, z  # the slow first steps do not count
  assert z["step_seconds"]["steps"] == 25, z
  assert abs(z["efficiency"] - e) < 1e-9 and abs(z["speedup"] - n * e) < 1e-9, z
  assert n == 1 or abs(z["karp_flatt"] - 1/6) < 1e-9, z
  assert abs(z["parts"]["backward"] - t / 2) < 1e-9 and abs(z["parts"]["other"] - t / 20 + 0.001) < 1e-9, z'
}

test_weak_scaling_is_what_the_times_say() {
  data run weak=1 work=0.1 fixed=0
  reported run
  check 's = r["scaling"][0]; assert s["kind"] == "weak" and s["amdahl_serial_fraction"] is None'
  check 's = r["scaling"][0]; assert abs(s["gustafson_serial_fraction"]) < 1e-9'
  check 'assert all(abs(z["efficiency"] - 1) < 1e-9 for z in r["scaling"][0]["sizes"])'
}

test_runs_of_one_size_each_are_compared_with_each_other() {
  data one sizes=1
  data two sizes=2
  reported one two
  check 's = r["scaling"]; assert len(s) == 1 and [z["ranks"] for z in s[0]["sizes"]] == [1, 2]'
}

test_the_summary_adds_up() {
  data run
  reported run
  check 'a = r["runs"][0]
assert (a["steps"], a["samples"], a["joins"], a["repairs"]) == (90, 90 * 64, 2, 0), a
assert abs(a["training_seconds"] - 33 * (0.1 * 1.75 + 0.06)) < 1e-6, a
assert abs(a["standstill_seconds"] - 0.4) < 1e-9 and abs(a["evaluation_seconds"] - 0.9) < 1e-9, a
assert abs(a["samples_per_second"] - 90 * 64 / a["training_seconds"]) < 1e-6, a'
  expect_exit 0 bellows report --price 0.36EUR run
  expect_contains "$OUT" 'cost '
  expect_contains "$OUT" ' EUR'
  expect_contains "$OUT" 'serial fraction of 0.1667'
}

test_csv_has_a_line_for_each_point() {
  data run
  expect_exit 0 bellows report --csv run
  expect_no_file report.html
  expect_equal "$(head -n 1 <<<"$OUT")" 'figure,series,x,y,low,high'
  expect_equal "$(grep -c '^loss,run,' <<<"$OUT")" 90
  expect_contains "$OUT" $'\nlearning-rate,run,90,0.1,,'
  expect_equal "$(grep -c '^breakdown,' <<<"$OUT")" 18
}

test_every_series_of_the_page_has_its_points() {
  data run
  data other lr=0.2
  reported run other
  expect_exit 0 bellows report --title 'A <b>bold</b> & "quoted" title' run other
  browse --dump-dom report.html >dom
  expect_contains "$(<dom)" '<h1>A &lt;b&gt;bold&lt;/b&gt; &amp; "quoted" title</h1>'
  python3 - <<'END_OF_CHECK' || fail "points are missing"
import html.parser, json, re
report = json.load(open("report.json"))

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.points, self.rows = [], [], {}, {}
    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        assert tag not in ("script", "link", "img", "iframe"), tag
        for name, value in a.items():
            assert not name.startswith("on"), (tag, name)
            assert name.startswith("xmlns") or "//" not in (value or ""), (tag, name, value)
        if "id" in a: self.ids.append(a["id"])
        if tag in ("g", "table"): self.open.append(a.get("id", ""))
        where = next((i for i in reversed(self.open) if re.search(r"_plot_\d+$|^table-", i)), "")
        if tag == "tr": self.rows[where] = self.rows.get(where, 0) + 1
        if tag == "use": self.points[where] = self.points.get(where, 0) + 1
        if tag == "path": self.points[where] = self.points.get(where, 0) + len(re.findall(r"[ML]", a["d"]))
        if tag in ("polygon", "rect"): self.points[where] = self.points.get(where, 0) + 1
    def handle_endtag(self, tag):
        if tag in ("g", "table"): self.open.pop()

page = Page()
page.feed(open("dom").read())
assert len(page.ids) == len(set(page.ids)), [i for i in page.ids if page.ids.count(i) > 1]
wanted = {"speedup", "efficiency", "breakdown", "timeline", "throughput", "loss", "test-loss",
          "test-accuracy", "batch", "learning-rate", "cost"}
assert {f["id"] for f in report["figures"]} == wanted, wanted ^ {f["id"] for f in report["figures"]}
for figure in report["figures"]:
    for number, series in enumerate(figure["series"], 1):
        drawn = page.points.get(f"{figure['id'].replace('-', '_')}_plot_{number}", 0)
        # Others than those of the points: the key's.
        assert drawn > len(series["points"]), (figure["id"], series["name"], drawn, len(series["points"]))
    assert page.rows[f"table-{figure['id']}"] > 1, figure["id"]
assert page.rows["table-changes"] == 7 and page.rows["table-events"] == 9
END_OF_CHECK
}

# ... as it did when somebody last looked at it: tests/lib/page_blocks PICTURE >REFERENCE makes a new one.
test_the_page_looks_as_it_should() {
  data run
  expect_exit 0 env TZ=UTC bellows report run
  picture report.html light.png 5000
  "$ROOT/tests/lib/page_blocks" light.png >blocks
  expect_exit 0 "$ROOT/tests/lib/page_blocks" light.png "$ROOT/tests/lib/report_page"
  picture report.html dark.png 5000 --force-dark-mode
  "$ROOT/tests/lib/page_blocks" dark.png >dark
  expect_equal "$(head -c 3 blocks)" fff
  expect_matches "$(head -c 3 dark)" '^[01]{3}$'
  expect_exit 1 "$ROOT/tests/lib/page_blocks" dark.png "$ROOT/tests/lib/report_page"
}

test_it_prints() {
  data run
  expect_exit 0 bellows report run
  browse --print-to-pdf=page.pdf report.html
  expect_equal "$(head -c 5 page.pdf)" '%PDF-'
  # A page for about every second plot: the numbers stay out.
  local pages
  pages=$(grep -ac '/Type /Page$' page.pdf) || pages=$(grep -aoc '/Type */Page[^s]' page.pdf)
  ((pages >= 3 && pages <= 12)) || fail "$pages pages"
}

test_truncated_files_are_read_up_to_the_damage() {
  data run
  local size
  size=$(stat -c %s run/metrics.jsonl)
  truncate -s $((size * 2 / 3)) run/metrics.jsonl
  printf '{"number":9,"ti' >>run/events.jsonl
  reported run
  expect_matches "$ERR" 'run/metrics.jsonl: line [0-9]+ is not whole, and left out'
  expect_contains "$ERR" 'run/events.jsonl: line 5 is not whole, and left out'
  check 'a = r["runs"][0]; assert 50 < a["steps"] < 70 and len(a["notes"]) == 2, a'
  sed -i '3s/.*/\x00\x01 {]/; 5s/.*/17/' run/metrics.jsonl
  reported run
  expect_contains "$ERR" 'lines are damaged, the first is line 3, and left out'
}

test_a_run_that_was_resumed_is_one_run() {
  data run sizes=2
  # The last ten steps are made again.
  python3 - <<'END_OF_EDIT'
import json
lines = [json.loads(l) for l in open("run/metrics.jsonl")]
steps = [l for l in lines if l["event"] == "step"]
later = lambda l: {**l, "time": l["time"] + 100, "seconds": l["seconds"]}
again = [{**lines[0], "step": 20, "time": lines[0]["time"] + 100}] + [later(s) for s in steps[20:]]
with open("run/metrics.jsonl", "a") as out:
    for line in again: print(json.dumps(line), file=out)
END_OF_EDIT
  reported run
  check 'a = r["runs"][0]; assert (a["steps"], a["redone_steps"]) == (30, 10), a'
  check 'f = [f for f in r["figures"] if f["id"] == "loss"][0]; assert [p[0] for p in f["series"][0]["points"]] == list(range(1, 31)), f'
  # A training that began anew in the same file is another one.
  data next sizes=2 steps=7
  cat next/metrics.jsonl >>run/metrics.jsonl
  reported run
  check 'assert r["runs"][0]["steps"] == 7, r["runs"]'
  expect_contains "$ERR" 'run: holds 1 training more, which began earlier, and is left out'
}

test_runs_of_different_programs_are_not_compared_silently() {
  data cnn
  data mlp model=mlp
  data mine program=mine
  expect_exit 2 bellows report cnn mlp
  expect_contains "$ERR" 'these runs differ in model (cnn, mlp): their speeds say nothing about each other (--any-program'
  expect_no_file report.html
  expect_exit 2 bellows report cnn mine
  expect_contains "$ERR" 'these runs differ in program (bellows-train, mine)'
  expect_exit 0 bellows report --any-program cnn mlp
  expect_contains "$ERR" 'Not the same work: the runs differ in model (cnn, mlp).'
  expect_contains "$(<report.html)" 'Not the same work'
  data slow lr=0.01
  expect_exit 0 bellows report cnn slow
  expect_contains "$ERR" 'The runs differ in lr (0.1, 0.01).'
}

test_events_alone_tell_of_the_world() {
  data run
  reported run/events.jsonl
  check 'f = [f for f in r["figures"] if f["id"] == "timeline"][0]; assert [p[1] for p in f["series"][0]["points"]] == [1, 2, 4, 4], f'
  check 'a = r["runs"][0]
assert (a["joins"], a["leaves"], a["repairs"]) == (2, 0, 0) and [w["joined"] for w in a["worlds"]] == [0, 1, 2], a
assert a["rank_hours"] > 0 and a["steps"] is None and a["training_seconds"] is None and a["standstill_seconds"] is None, a'
  expect_exit 0 bellows report run/events.jsonl
  expect_matches "$OUT" 'ranks +1 to 4'
  expect_lacks "$OUT" 'training s'
  # The first events are lost: the ranks are those of the others.
  sed -i 1d run/events.jsonl
  reported run/events.jsonl
  check 'a = r["runs"][0]; assert [w["ranks"] for w in a["worlds"]] == [2, 4] and a["joins"] == 2, a'
}

test_memory_and_gpus_are_shown_where_they_are_known() {
  data run memory=5e8 gpu=2e9
  reported run
  check 'a = r["runs"][0]
assert abs(a["peak_memory_bytes"] - 5.15e8) < 1 and abs(a["gpu_memory_bytes"] - 2.06e9) < 1, a
assert abs(a["gpu_utilisation"] - 0.5) < 1e-9, a
ids = {f["id"] for f in r["figures"]}; assert {"memory", "gpu-memory", "gpu-utilisation"} <= ids, ids'
  expect_exit 0 bellows report run
  expect_matches "$OUT" 'most memory of a rank MB +515'
  expect_matches "$OUT" 'utilisation of the GPUs +50%'
  data none
  reported none
  check 'assert r["runs"][0]["peak_memory_bytes"] is None and not [f for f in r["figures"] if "memory" in f["id"]]'
}

# The trainer's own model of step times; the parts of the steps fit t(N) = 0.1/N + 0.02 in a way.
test_the_throughput_model_says_which_size_is_best() {
  data run noise=1000
  reported run
  check 'm = r["scaling"][0]["throughput_model"]
assert m["error"] < 0.2 and [z["ranks"] for z in m["sizes"]] == [1, 2, 3, 4], m
assert m["fastest_ranks"] == 4 and m["cheapest_ranks"] == 1, m
assert m["most_goodput"]["batch"] == 64 and m["goodput"] > 0 and r["scaling"][0]["noise_scale"] == 1000, m'
  check 'for f in r["figures"]:
  if f["id"] in ("speedup", "efficiency", "cost"):
    assert [len(s["points"]) for s in f["series"] if s["name"] == "run: throughput model"] == [4], f'
  expect_exit 0 bellows report --price 0.36EUR run
  expect_contains "$OUT" 'the model of step times (Qiao et al., OSDI 2021) fits within '
  expect_contains "$OUT" 'EUR per million samples'
  expect_contains "$OUT" 'The most were the fastest'
  expect_contains "$OUT" 'With a gradient noise scale of 1000 most progress is made by 4 ranks with a batch of 64.'
}

test_what_is_better_than_ideal_is_doubted() {
  data run sizes=1,2 steps=30 work=0.1 fixed=0
  reported run
  expect_lacks "$ERR" 'efficiency far above'
  # One rank was disturbed.
  data slow sizes=1 work=0.5 fixed=0
  data two sizes=2 work=0.1 fixed=0
  reported slow two
  expect_contains "$ERR" 'all runs: an efficiency far above 100% at 2 (500%) ranks: most likely the smaller sizes were disturbed'
  check 'assert any("far above 100%" in n for n in r["notes"]), r["notes"]'
}

test_batches_that_differ_are_named() {
  data one sizes=1 batch=64
  data four sizes=4 batch=100
  reported one four
  expect_contains "$ERR" 'all runs: the batch is neither the same at each size nor grows with the ranks (ranks of batch: 1 of 64, 4 of 100)'
  data run sizes=2
  sed -i '12,22s/"batch": 64/"batch": 96/' run/metrics.jsonl
  reported run
  expect_contains "$ERR" 'run: the batch changed while it was measured at 2 ranks'
}

test_names_that_mean_something_to_gnuplot_or_html_do_no_harm() {
  # shellcheck disable=SC2016 # not to be expanded
  local name='a`touch harm`{b}^2'\''$x"<i>'
  data "$name"
  expect_exit 0 bellows report "$name"
  expect_no_file harm
  browse --dump-dom report.html >dom
  # shellcheck disable=SC2016
  expect_contains "$(<dom)" 'a`touch harm`{b}^2'\''$x"&lt;i&gt;'
}

test_wrong_use_is_named() {
  expect_exit 2 bellows report
  expect_contains "$ERR" 'bellows-report: no run: name files'
  expect_exit 2 bellows report nowhere
  expect_contains "$ERR" 'nowhere: No such file or directory'
  mkdir empty
  expect_exit 2 bellows report empty
  expect_contains "$ERR" 'empty: has no file *.jsonl'
  echo '{"a":1}' >other.jsonl
  expect_exit 2 bellows report other.jsonl
  expect_contains "$ERR" 'other.jsonl: has no line of a run; give a file of bellows-train --metrics'
  echo '{"event":"start","version":99,"step":0}' >newer.jsonl
  expect_exit 2 bellows report newer.jsonl
  expect_contains "$ERR" 'newer.jsonl: its lines are of version 99'
  data run
  expect_exit 2 bellows report --price free run
  expect_contains "$ERR" '--price=free: must be'
  expect_exit 2 bellows report --json --csv run
  expect_exit 2 bellows report --warm-up -1 run
  expect_exit 1 bellows report --html nowhere/report.html run
  expect_contains "$ERR" '--html=nowhere/report.html: No such file'
  expect_exit 1 env PATH=/nowhere "$BUILD/bin/bellows" report run
  expect_contains "$ERR" 'install gnuplot'
  expect_exit 0 bellows report --help
  expect_contains "$OUT" '--any-program'
}
