# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tree's own tools say about it.
export TIME_LIMIT=300

# sources NAME_PATTERN…: the tree's own files, one a line.
sources() {
  local pattern names=()
  for pattern in "$@"; do names+=(-o -name "$pattern"); done
  (cd "$ROOT" && find protocol checkpoint scheduler spank_plugin mpi_elastic trainer docs/examples scripts tests .ci -type f \
    \( "${names[@]:1}" \) | sort)
}

test_shell_scripts_pass_shellcheck() {
  local files
  mapfile -t files < <(cd "$ROOT" && find scripts tests docs/examples .ci -type f -exec grep -lE '^#!.*\b(ba)?sh$|^# shellcheck shell=bash' {} + | sort)
  ((${#files[@]} > 10)) || fail "found only ${#files[@]} scripts"
  cd "$ROOT"
  expect_exit 0 shellcheck -x "${files[@]}"
}

test_sources_are_formatted() {
  local files
  mapfile -t files < <(sources '*.cc' '*.h' '*.c')
  cd "$ROOT"
  expect_exit 0 clang-format-19 --dry-run --Werror "${files[@]}"
}

test_every_file_says_its_licence() {
  local file bad=()
  while read -r file; do
    head -n 2 "$ROOT/$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || bad+=("$file")
  done < <(sources '*.cc' '*.h' '*.c' '*.sh' '*.mk')
  ((${#bad[@]} == 0)) || fail "no SPDX line: ${bad[*]}"
}
