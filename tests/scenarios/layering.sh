# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The layering check finds what it is there to find.

test_the_tree_as_it_is_passes() {
  local plugins=("$BUILD"/lib/*.so)
  [[ -e ${plugins[0]} ]] || plugins=()
  expect_exit 0 "$ROOT/tests/layering" "${plugins[@]}"
}

test_an_include_upward_is_named() {
  mkdir -p tree/protocol tree/checkpoint tree/trainer
  echo '#include "trainer/data.h"' >tree/protocol/frame.cc
  echo '#include "protocol/frame.h"' >tree/trainer/data.cc
  expect_exit 1 "$ROOT/tests/layering" --tree tree
  expect_contains "$ERR" "protocol/frame.cc:1: protocol/ may not include trainer/data.h"
  expect_lacks "$ERR" "trainer/data.cc"
  echo '#  include   <torch/torch.h>' >tree/protocol/frame.cc
  expect_exit 1 "$ROOT/tests/layering" --tree tree
  expect_contains "$ERR" "protocol/ may not use torch"
  echo '#include "../trainer/data.h"' >tree/protocol/frame.cc
  expect_exit 1 "$ROOT/tests/layering" --tree tree
  echo '// nothing' >tree/protocol/frame.cc
  expect_exit 0 "$ROOT/tests/layering" --tree tree
}

# plugin COMPILER_ARGUMENTS…: builds plugin.so from plugin.cc.
plugin() { g++ -shared -fPIC -fvisibility=hidden -o plugin.so plugin.cc -Wl,--no-as-needed "$@"; }

test_a_plugin_that_needs_or_exports_too_much_is_named() {
  cat >plugin.cc <<'END'
extern "C" {
__attribute__((visibility("default"))) int slurm_spank_init() { return 0; }
__attribute__((visibility("default"))) extern const char plugin_name[] = "x";
}
END
  plugin -nodefaultlibs -lc
  expect_exit 0 "$ROOT/tests/layering" plugin.so
  # shellcheck disable=SC2046 # words
  plugin $(mpicxx --showme:link)
  expect_exit 1 "$ROOT/tests/layering" plugin.so
  expect_contains "$ERR" "needs"
  expect_contains "$ERR" "libmpi"
  plugin -lc10
  expect_exit 1 "$ROOT/tests/layering" plugin.so
  expect_contains "$ERR" "libc10"
  echo '__attribute__((visibility("default"))) void helper() {}' >>plugin.cc
  plugin -nodefaultlibs -lc
  expect_exit 1 "$ROOT/tests/layering" plugin.so
  expect_contains "$ERR" "exports more than Slurm asks for: _Z6helperv"
  expect_exit 1 "$ROOT/tests/layering" absent.so
  expect_contains "$ERR" "no plugin absent.so"
}
