// SPDX-License-Identifier: Apache-2.0
// Slurm's header for plugins. It declares the callbacks outside its own extern "C", so that C++ has
// to include it within one, after the system headers that it includes itself.
#pragma once

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

extern "C" {
#include <slurm/spank.h>
}
