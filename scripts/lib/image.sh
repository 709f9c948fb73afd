# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The container image: found by the hash of what it is made from, built when it is not there.
# Sourced after common.sh and engine.sh.

BASE_IMAGE=localhost/bellows-base:trixie
PUBLIC_BASE=docker.io/library/debian:trixie
PULL_SECONDS=60

# The hash of every file in scripts/container but podman's settings, which are not in the image.
image_name() {
  local hash
  hash=$(cd "$ROOT/scripts/container" && find . -type f ! -name containers.conf -print0 |
    LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
  echo "localhost/bellows:${hash:0:12}"
}

# Debian 13 from its packages alone, for hosts that reach a Debian mirror but no image registry.
image_bootstrap_base() {
  mmdebstrap --quiet --variant=minbase --include=ca-certificates trixie - | engine import - "$BASE_IMAGE"
}

# Makes sure there is a base image; prints its name.
image_base() {
  local name
  for name in "$BASE_IMAGE" "$PUBLIC_BASE"; do
    if engine_has_image "$name"; then
      echo "$name"
      return
    fi
  done
  mkdir -p "$LOGS"
  note "fetching $PUBLIC_BASE"
  if timeout "$PULL_SECONDS" "$ENGINE" pull -q "$PUBLIC_BASE" >"$LOGS/pull.log" 2>&1; then
    echo "$PUBLIC_BASE"
    return
  fi
  note "not to be had from here; making Debian 13 from its packages instead"
  if ! command -v mmdebstrap >/dev/null; then
    ((EUID == 0)) || die "cannot fetch $PUBLIC_BASE ($(tail -n 1 "$LOGS/pull.log")), nor make it: as root, apt-get install mmdebstrap"
    apt_install mmdebstrap debian-archive-keyring
  fi
  logged image-base image_bootstrap_base
  echo "$BASE_IMAGE"
}

# Sets IMAGE; builds it when needed. One at a time: others wait for the lock.
image_ensure() {
  local base
  IMAGE=$(image_name)
  if engine_has_image "$IMAGE"; then return; fi
  mkdir -p "$LOGS"
  exec {image_lock}>"$LOGS/image.lock"
  flock "$image_lock"
  if ! engine_has_image "$IMAGE"; then
    note "building the container image (some minutes, once)"
    base=$(image_base)
    logged image-build "$ENGINE" build --network host --build-arg "BASE=$base" -t "$IMAGE" \
      -f "$ROOT/scripts/container/Containerfile" "$ROOT/scripts/container"
  fi
  exec {image_lock}>&-
}
