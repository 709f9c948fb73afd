# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bellows picture, as a browser shows it.

# example: a log in which three jobs have five bars, and whose last line is not whole.
example() {
  python3 - >events.jsonl <<'END'
import json
def line(time, kind, **more): print(json.dumps({"time": time, "kind": kind, **more}))
def nodes(time, job, names, elastic=True):
    line(time, "nodes", job=job, name="<script>alert(1)</script>", user=1000, partition="main", elastic=elastic, nodes=names)
line(1000, "begin", policy="fair")
line(1000, "cluster", nodes=["n1", "n2", "n3", "n4"])
nodes(1000, 7, ["n1"])
nodes(1050, 7, ["n1", "n2"])
nodes(1100, 7, ["n1"])
nodes(1100, 8, ["n2", "n3"])
nodes(1150, 9, ["n3"], False)  # shares n3 with 8
nodes(1200, 9, [], False)
line(1200, "alive")
print('{"time":1210,"kind":"no', end="")
END
}

# in_browser PAGE: draws it, and prints each box as "plot x y width height", in pixels of a window of 1200.
in_browser() {
  sed 's|</body>|<script>const out = [];\
    document.querySelectorAll("svg [id^=bars_plot_] polygon").forEach(p => { const b = p.getBoundingClientRect(), f = p.closest("svg").getBoundingClientRect();\
      out.push([p.closest("[id]").id, b.x - f.x, b.y - f.y, b.width, b.height].map(v => typeof v == "number" ? Math.round(v) : v).join(" ")); });\
    document.body.dataset.boxes = out.join(";"); document.body.dataset.text = getComputedStyle(document.querySelector("svg text")).fill;</script></body>|' "$1" >measured.html
  timeout -k 5 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/browser" --window-size=1200,900 \
    --enable-logging=stderr "${@:2}" --dump-dom "file://$PWD/measured.html" >dom 2>browser.log
  if grep -E 'CONSOLE|Uncaught' browser.log; then fail "the browser has something to say"; fi
  grep -o 'data-boxes="[^"]*"' dom | cut -d'"' -f2 | tr ';' '\n'
}

test_a_browser_shows_every_bar_where_it_belongs() {
  example
  expect_exit 0 bellows picture events.jsonl -o page.html
  expect_contains "$ERR" "line 10 is not whole, and left out"
  expect_equal "$(bellows picture events.jsonl --json 2>/dev/null | wc -l)" 5
  in_browser page.html >boxes
  expect_equal "$(wc -l <boxes)" 5
  python3 - <<'END'
boxes = [line.split() for line in open("boxes")]
plots = {name: [[int(v) for v in box[1:]] for box in boxes if box[0] == name] for name in {box[0] for box in boxes}}
seven, eight, nine = (sorted(plots[f"bars_plot_{i}"], key=lambda b: b[1]) for i in (1, 2, 3))
assert [len(p) for p in (seven, eight, nine)] == [2, 2, 1], plots
whole = seven[0][2]                      # n1: all the 200 s
assert whole > 600, whole
near = lambda a, b: abs(a - b) <= 3
left = seven[0][0]
for box, begin, end in ((seven[1], 50, 100), (eight[0], 100, 200), (eight[1], 100, 200), (nine[0], 150, 200)):
    assert near(box[0], left + whole * begin / 200) and near(box[2], whole * (end - begin) / 200), (box, begin, end)
row = seven[1][1] - seven[0][1]          # from n1 to n2
assert near(eight[0][1], seven[1][1]) and near(eight[1][1], seven[0][1] + 2 * row), (eight, row)
assert near(nine[0][1], eight[1][1] + eight[1][3]) and near(nine[0][3], eight[1][3]), (eight, nine)
assert near(2 * nine[0][3], eight[0][3]), (nine, eight)
END
  expect_contains "$(<dom)" 'data-text="rgb(27, 31, 36)"'
  in_browser page.html --blink-settings=preferredColorScheme=0 >boxes
  expect_contains "$(<dom)" 'data-text="rgb(230, 237, 243)"'
}

test_the_picture_has_the_colours_of_its_legend() {
  example
  bellows picture events.jsonl -o page.html 2>/dev/null
  timeout -k 5 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/browser" --hide-scrollbars \
    --window-size=1200,500 --screenshot="$PWD/shot.png" "file://$PWD/page.html" 2>browser.log
  # Some antialiasing is the browser's business: the areas are right within a tenth.
  python3 - <<'END'
import struct, zlib
data = open("shot.png", "rb").read()
width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
assert (width, depth) == (1200, 8), (width, depth)
channels, packed, at = {2: 3, 6: 4}[kind], b"", 8
while at < len(data):
    length, name = struct.unpack(">I4s", data[at:at + 8])
    if name == b"IDAT": packed += data[at + 8:at + 8 + length]
    at += 12 + length
raw, stride, before, areas = zlib.decompress(packed), width * channels, bytes(width * channels), {}
for y in range(height):
    way, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
    for x in range(stride):
        a, b, c = (line[x - channels] if x >= channels else 0), before[x], (before[x - channels] if x >= channels else 0)
        paeth = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
        line[x] = (line[x] + (0, a, b, (a + b) // 2, paeth)[way]) & 255
    for x in range(0, stride, channels):
        colour = tuple(line[x:x + 3])
        areas[colour] = areas.get(colour, 0) + 1
    before = bytes(line)
seven, eight, nine = (areas.get(c, 0) for c in ((0x44, 0x77, 0xaa), (0xee, 0x66, 0x77), (0x22, 0x88, 0x33)))
# In node-seconds: 250, 200 of which the half are shared with another (so 150), 25.
assert 0.9 < seven / 250 / (eight / 150) < 1.1 and 0.85 < nine / 25 / (seven / 250) < 1.2, (seven, eight, nine)
END
}

test_what_is_no_log_is_named() {
  expect_exit 3 bellows picture /nowhere
  expect_contains "$ERR" "/nowhere: No such file"
  echo '{"number":1}' >other
  expect_exit 3 bellows picture other
  expect_contains "$ERR" "other has no event of bellowsd's"
  bellows-run --elastic 1-2 -n 1 --events run.jsonl elastic_steps --steps 3 </dev/null >out
  expect_exit 3 bellows picture run.jsonl
  expect_contains "$ERR" "run.jsonl has no event of bellowsd's"
  head -c 100000 /dev/urandom >noise
  example
  expect_exit 3 bellows picture events.jsonl noise
  expect_contains "$ERR" "noise has no event of bellowsd's"
  ((${#ERR} < 2000)) || fail "${#ERR} bytes of complaints"
  expect_exit 3 bellows picture events.jsonl -o /nowhere/page.html
  expect_contains "$ERR" "/nowhere/page.html: No such file"
  expect_exit 3 env PATH=/nowhere "$BUILD/bin/bellows" picture events.jsonl
  expect_contains "$ERR" "cannot start gnuplot"
}
