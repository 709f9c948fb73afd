// SPDX-License-Identifier: Apache-2.0
// HDF5 on a descriptor of ours.
#include "checkpoint/driver.h"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <memory>
#include <span>

#include "checkpoint/disk.h"

namespace bellows::checkpoint {
namespace {

constexpr haddr_t kMostBytes = std::numeric_limits<std::int64_t>::max();

constexpr std::size_t kWorthStarting = std::size_t{1} << 20;

struct Access {
  Backing* backing;
};

// HDF5 sees the first member.
struct File {
  H5FD_t base;
  Backing* backing;
  haddr_t allocated;
};

File* as_file(H5FD_t* base) { return reinterpret_cast<File*>(base); }
const File* as_file(const H5FD_t* base) { return reinterpret_cast<const File*>(base); }

H5FD_t* open_file(const char*, unsigned flags, hid_t access_list, haddr_t) {
  const auto* access = static_cast<const Access*>(H5Pget_driver_info(access_list));
  if (access == nullptr || ((flags & H5F_ACC_RDWR) != 0 && !access->backing->writable))
    return nullptr;
  auto file = std::make_unique<File>();
  file->backing = access->backing;
  if ((flags & H5F_ACC_TRUNC) != 0) file->backing->end = 0;
  return &file.release()->base;
}

herr_t close_file(H5FD_t* base) {
  const std::unique_ptr<File> file(as_file(base));
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DATA_SIEVE;
  return 0;
}

haddr_t get_eoa(const H5FD_t* base, H5FD_mem_t) { return as_file(base)->allocated; }

herr_t set_eoa(H5FD_t* base, H5FD_mem_t, haddr_t address) {
  as_file(base)->allocated = address;
  return 0;
}

haddr_t get_eof(const H5FD_t* base, H5FD_mem_t) { return as_file(base)->backing->end; }

herr_t read_bytes(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* buffer) {
  Backing& backing = *as_file(base)->backing;
  const std::span bytes(static_cast<std::byte*>(buffer), size);
  // Beyond the end HDF5 expects zeros, as its own drivers give.
  const std::uint64_t there = address < backing.end ? backing.end - address : 0;
  const std::size_t inside = static_cast<std::size_t>(std::min<std::uint64_t>(there, size));
  std::ranges::fill(bytes.subspan(inside), std::byte{0});
  const int code = read_fully(backing.fd, bytes.subspan(0, inside), address);
  if (code == 0) return 0;
  if (backing.error == 0) backing.error = code;
  return -1;
}

herr_t write_bytes(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, size_t size,
                   const void* buffer) {
  Backing& backing = *as_file(base)->backing;
  backing.end = std::max<std::uint64_t>(backing.end, address + size);
  if (backing.error == 0)
    backing.error =
        write_fully(backing.fd, std::span(static_cast<const std::byte*>(buffer), size), address);
  // Without waiting: a hint that spreads the disk's work over ours.
  if (size >= kWorthStarting && backing.error == 0)
    ::sync_file_range(backing.fd, static_cast<off_t>(address), static_cast<off_t>(size),
                      SYNC_FILE_RANGE_WRITE);
  return 0;
}

herr_t set_length(H5FD_t* base, hid_t, hbool_t) {
  File& file = *as_file(base);
  if (!file.backing->writable || file.allocated == file.backing->end) return 0;
  file.backing->end = file.allocated;
  if (file.backing->error == 0 &&
      ::ftruncate(file.backing->fd, static_cast<off_t>(file.allocated)) != 0)
    file.backing->error = errno;
  return 0;
}

H5FD_class_t driver_class() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  // HDF5 leaves 256 to 511 to drivers that are not registered with it.
  driver.value = static_cast<H5FD_class_value_t>(301);
#endif
  driver.name = "bellows";
  driver.maxaddr = kMostBytes;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(Access);
  driver.open = open_file;
  driver.close = close_file;
  driver.query = query;
  driver.get_eoa = get_eoa;
  driver.set_eoa = set_eoa;
  driver.get_eof = get_eof;
  driver.read = read_bytes;
  driver.write = write_bytes;
  driver.truncate = set_length;
  constexpr H5FD_mem_t kMap[] = H5FD_FLMAP_DICHOTOMY;
  std::ranges::copy(kMap, std::begin(driver.fl_map));
  return driver;
}

}  // namespace

herr_t use_backing(hid_t access_list, Backing* backing) {
  const H5FD_class_t driver = driver_class();
  const hid_t id = H5FDregister(&driver);
  if (id < 0) return -1;
  const Access access{backing};
  const herr_t status = H5Pset_driver(access_list, id, &access);
  // The access list holds its own reference.
  return H5FDunregister(id) < 0 ? -1 : status;
}

}  // namespace bellows::checkpoint
