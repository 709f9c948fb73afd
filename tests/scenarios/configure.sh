# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# configure says what is missing and where it comes from; each half builds without what only the other
# needs.
export TIME_LIMIT=400

# without HEADER…: sets COMPILER to one for which these headers are not installed.
without() {
  COMPILER=$PWD/compiler
  cat >compiler <<END
#!/bin/bash
for a in "\$@"; do
  [[ \$a == *.cc || \$a == *.cpp ]] || continue
  if grep -qE '#include <($(printf '%s|' "$@")none)>' "\$a"; then
    echo "\$a: fatal error: No such file or directory" >&2
    exit 1
  fi
done
exec g++ "\$@"
END
  chmod +x compiler
}

# expect_missing HEADER OPTION DEBIAN RHEL [CONFIGURE OPTION…]: without HEADER, all of these are named.
expect_missing() {
  without "$1"
  expect_exit 1 "$ROOT/configure" -q CXXFLAGS=-O0 CXX="$COMPILER" "${@:5}"
  expect_contains "$ERR" "missing: "
  expect_contains "$ERR" "--with-$2=DIR"
  expect_matches "$ERR" "apt-get install [^"$'\n'"]*$3"
  expect_contains "$ERR" "$4"
}

test_a_library_that_is_missing_is_named_with_package_and_option() {
  expect_missing slurm/spank.h slurm libslurm-dev slurm-devel
  expect_missing munge.h munge libmunge-dev munge-devel --disable-plugin
  expect_missing pmix_server.h pmix libpmix-dev pmix-devel --disable-plugin
  expect_missing hdf5.h hdf5 libhdf5-dev hdf5-devel --disable-plugin
  expect_missing boost/json.hpp boost libboost-json-dev boost-devel --disable-plugin
  expect_missing spdlog/spdlog.h spdlog libspdlog-dev spdlog-devel --disable-plugin
  expect_missing torch/version.h torch libtorch-dev "pip install torch" --disable-plugin
}

test_a_folder_that_does_not_exist_is_named_with_its_option() {
  local option
  for option in munge slurm mpi torch; do
    expect_exit 1 "$ROOT/configure" -q "--with-$option=/no/such/folder"
    expect_contains "$ERR" "--with-$option=/no/such/folder: no such directory"
  done
}

test_an_mpi_without_ulfm_is_refused() {
  mkdir -p bin include
  echo '#define OMPI_MAJOR_VERSION 4' >include/mpi.h
  : >include/mpi-ext.h
  printf '#!/bin/bash\necho "-I%s"\n' "$PWD/include" >bin/mpicxx
  chmod +x bin/mpicxx
  expect_exit 1 "$ROOT/configure" -q --disable-plugin "--with-mpi=$PWD"
  expect_contains "$ERR" "$PWD/bin/mpicxx is not Open MPI >= 5 with ULFM"
  expect_contains "$ERR" "--with-mpi=DIR"
}

test_an_old_slurm_is_refused() {
  mkdir -p old/include/slurm
  printf '#define SLURM_VERSION_NUM(a,b,c) (((a) << 16) + ((b) << 8) + (c))\n#define SLURM_VERSION_NUMBER SLURM_VERSION_NUM(21,8,0)\n' \
    >old/include/slurm/slurm.h
  : >old/include/slurm/spank.h
  expect_exit 1 "$ROOT/configure" -q "--with-slurm=$PWD/old"
  expect_contains "$ERR" "missing: Slurm >= 22.05"
}

test_the_plugin_builds_without_what_the_trainer_needs() {
  without mpi.h pmix.h hdf5.h torch/version.h torch/torch.h boost/json.hpp spdlog/spdlog.h hwloc.h
  expect_exit 0 "$ROOT/configure" -q --enable-werror --disable-trainer CXXFLAGS=-O0 CXX="$COMPILER"
  expect_exit 0 make -j2
  expect_file lib/spank_bellows.so
  expect_no_file bin
  expect_exit 0 make install DESTDIR="$PWD/dest" PREFIX=/usr
  expect_file dest/usr/lib/bellows/spank_bellows.so
  expect_exit 0 "$ROOT/tests/layering" lib/spank_bellows.so
}

test_the_trainer_builds_without_slurm() {
  without slurm/slurm.h slurm/spank.h
  expect_exit 0 "$ROOT/configure" -q --enable-werror --disable-plugin CXXFLAGS=-O0 CXX="$COMPILER"
  expect_exit 0 make -n
  expect_lacks "$OUT" spank_plugin/
  expect_contains "$OUT" bin/bellows-train
  expect_exit 0 make -j2 bin/bellows-ckpt
  expect_exit 0 bin/bellows-ckpt --help
}
