# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Finds the container engine, podman or docker, and installs podman where there is none. No global
# configuration file is touched: what podman needs comes from scripts/container/containers.conf.
# Sourced after common.sh.

ENGINE=${BELLOWS_ENGINE:-} # podman or docker, taken as it is; otherwise the first that works
ENGINE_PACKAGES=(podman runc uidmap slirp4netns fuse-overlayfs netavark aardvark-dns catatonit iptables)

engine() { "$ENGINE" "$@"; }

# podman's own choices fail in two places: crun refuses cgroup hierarchies of version 1, and the
# default limits cannot be set where the host's own are lower.
engine_configure() {
  [[ $ENGINE == podman && -z ${CONTAINERS_CONF:-} ]] || return 0
  if [[ $(stat -f -c %T /sys/fs/cgroup) != cgroup2fs ]] ||
    { [[ $(ulimit -Hn) != unlimited ]] && (($(ulimit -Hn) < 1048576)); }; then
    command -v runc >/dev/null || [[ -x /usr/sbin/runc ]] || return 0
    export CONTAINERS_CONF=$ROOT/scripts/container/containers.conf
  fi
}

# engine_works NAME: installed, and answering within seconds.
engine_works() { command -v "$1" >/dev/null && timeout 20 "$1" info >/dev/null 2>&1; }

# apt_install PACKAGES…: those that are missing, as root.
apt_install() {
  local missing=() p
  for p in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing+=("$p")
  done
  ((${#missing[@]})) || return 0
  export DEBIAN_FRONTEND=noninteractive
  logged apt-update apt-get -q update
  logged apt-install apt-get -q install -y --no-install-recommends "${missing[@]}"
}

# engine_present: sets ENGINE to one that works, if there is one.
engine_present() {
  local candidate
  if [[ $ENGINE ]]; then
    command -v "$ENGINE" >/dev/null || die "BELLOWS_ENGINE=$ENGINE: no such program; use podman or docker"
    engine_configure
    return
  fi
  for candidate in podman docker; do
    ENGINE=$candidate
    engine_configure
    if engine_works "$candidate"; then return 0; fi
  done
  ENGINE=
  return 1
}

# engine_find: sets ENGINE, installs podman if that is needed and possible, or ends the script.
engine_find() {
  if engine_present; then return; fi
  ((EUID == 0)) || die "neither podman nor docker works for user $(id -un); as root: apt-get install ${ENGINE_PACKAGES[*]} (or dnf install podman)"
  command -v apt-get >/dev/null || die "no container engine, and no apt-get to install one with: install podman"
  note "installing podman"
  apt_install "${ENGINE_PACKAGES[@]}"
  ENGINE=podman
  engine_configure
  engine_works podman || die "podman is installed but does not work: $(podman info 2>&1 | tail -n 1)"
}

engine_has_image() { engine image inspect "$1" >/dev/null 2>&1; }
