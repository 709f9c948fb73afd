# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Runs commands in the image, and builds the project there. Sourced after the others.

# run_arguments: fills RUN_ARGS with what every run needs. The tree is always at /bellows, so that
# compiler caches, debug information and configured paths are the same on every machine.
run_arguments() {
  local here=/bellows
  [[ $PWD/ != "$ROOT"/* ]] || here=/bellows${PWD#"$ROOT"}
  RUN_ARGS=(run --rm -i --init --shm-size 2g --cap-add SYS_PTRACE --hostname bellows
    -v "$ROOT:/bellows" -w "$here"
    -e BELLOWS_IN_IMAGE=1 -e CCACHE_DIR=/bellows/build/ccache -e CCACHE_NOHASHDIR=1 -e "TERM=${TERM:-dumb}" -e "CI=${CI:-}"
    -e GIT_CONFIG_COUNT=1 -e GIT_CONFIG_KEY_0=safe.directory -e GIT_CONFIG_VALUE_0='*')
  if ((EUID)); then
    RUN_ARGS+=(--user "$(id -u):$(id -g)" -e HOME=/tmp)
    [[ $ENGINE != podman ]] || RUN_ARGS+=(--userns keep-id)
  fi
  mkdir -p "$ROOT/build/ccache"
  # A compiler cache that is shared by several checkouts.
  if [[ ${BELLOWS_CCACHE:-} ]]; then
    mkdir -p "$BELLOWS_CCACHE"
    RUN_ARGS+=(-v "$BELLOWS_CCACHE:/bellows/build/ccache")
  fi
}

# in_image_run COMMAND…: in the image, without a network but its own loopback.
in_image_run() {
  if in_image; then
    "$@"
    return
  fi
  run_arguments
  engine "${RUN_ARGS[@]}" --network none "$IMAGE" "$@"
}

# project_build DIR [CONFIGURE OPTIONS…]: configures DIR (relative to the tree) if that is due or
# the options changed, and makes everything. The compiler is the image's: warnings are errors.
project_build() {
  local dir=$1
  shift
  logged "make-$dir" in_image_run /bellows/scripts/lib/make "$dir" --enable-werror "$@"
}
