# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Looks at pages in a real browser without a display.
: "${ROOT:?}"

# browse OPTIONS… FILE: Chromium on this page. What it says goes to browser.err.
browse() {
  HOME=$PWD timeout -k 1 60 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars \
    --user-data-dir="$PWD/browser" --enable-logging=stderr "${@:1:$#-1}" "file://$PWD/${*: -1}" 2>browser.err ||
    fail "the browser: $(tail -n 5 browser.err)"
  ! grep -E 'CONSOLE.*source: file:|net::ERR' browser.err || fail "the page has errors"
}
# picture FILE PICTURE HEIGHT OPTIONS…: of the page, 1000 pixels wide, at half its size.
picture() { browse --force-device-scale-factor=0.5 --window-size="1000,$3" --screenshot="$2" "${@:4}" "$1"; }
