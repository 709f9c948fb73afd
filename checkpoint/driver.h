// SPDX-License-Identifier: Apache-2.0
// HDF5 on a descriptor of ours. Why not HDF5's own file driver:
// - reading, HDF5 parses the very file that was verified, whatever its name means by then;
// - writing, an error is noted here and HDF5 goes on as if all were well, closes in order, and is
//   then told off by us. With its own driver a full disk leaves files that can be closed neither
//   now nor at exit;
// - no file locks of HDF5's, which fail on some cluster file systems.
#pragma once

#include <hdf5.h>

#include <cstdint>

namespace bellows::checkpoint {

/// Must outlive the HDF5 file opened on it.
struct Backing {
  int fd = -1;
  std::uint64_t end = 0;  ///< size of the file
  bool writable = false;
  int error = 0;  ///< errno of the first read or write that failed
};

/// Makes files opened with this access list live on `backing`. Negative on failure.
herr_t use_backing(hid_t access_list, Backing* backing);

}  // namespace bellows::checkpoint
