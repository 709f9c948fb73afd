// SPDX-License-Identifier: Apache-2.0
// One checkpoint in one file: sealed when written, checked against its seal before it is parsed.
#include "checkpoint/file.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <stdexcept>
#include <vector>

#include "checkpoint/digest.h"
#include "checkpoint/disk.h"
#include "checkpoint/driver.h"
#include "checkpoint/h5.h"
#include "checkpoint/layout.h"
#include "checkpoint/seal.h"
#include "checkpoint/timestamp.h"

namespace bellows::checkpoint {
namespace {

using h5::Handle;

// Fits the cache of the second level, so that hashing runs on warm bytes.
constexpr std::size_t kChunk = std::size_t{512} << 10;
constexpr const char* kDamageAdvice = "restore it from a copy, or use an older checkpoint";

// The hash of [kSealSize, end) of the file; `error` is 0 or errno.
std::uint64_t hash_body(int fd, std::uint64_t end, int& error) {
  std::vector<std::byte> chunk(kChunk);
  Xxh64 hash;
  error = 0;
  for (std::uint64_t at = kSealSize; at < end && error == 0;) {
    const std::span part(chunk.data(), std::min<std::uint64_t>(kChunk, end - at));
    error = read_fully(fd, part, at);
    if (error == 0) hash.update(part);
    at += part.size();
  }
  return hash.digest();
}

Handle access_list(Backing* backing) {
  Handle list(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make a property list");
  h5::check(use_backing(list, backing), "set up file access");
#if H5_VERSION_GE(1, 10, 2)
  // Readable by every HDF5 since 1.10, metadata with checksums of its own.
  h5::check(H5Pset_libver_bounds(list, H5F_LIBVER_V18, H5F_LIBVER_V110), "set a property");
#endif
  return list;
}

void write_hdf5(OutputFile& output, const State& state, const Info& info, Backing& backing) {
  const h5::Session session;
  const Handle access = access_list(&backing);
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "make a property list");
  h5::check(H5Pset_userblock(creation, kSealSize), "set a property");
  h5::check(H5Pset_obj_track_times(creation, false), "set a property");
  Handle file(H5Fcreate(output.temporary().c_str(), H5F_ACC_TRUNC, creation, access), H5Fclose,
              "create the file");
  write_layout(file, state, info);
  file.close("close the file");
}

Seal read_seal(const InputFile& input) {
  std::vector<std::byte> head(std::min<std::uint64_t>(input.size(), kSealSize + 8));
  const int error = read_fully(input.fd(), head, 0);
  if (error != 0) throw system_error(input.path(), "cannot read", error);
  return decode_seal(input.path(), head, input.size());
}

void check_body(const InputFile& input, const Seal& seal) {
  int error = 0;
  const std::uint64_t hash = hash_body(input.fd(), seal.info.size, error);
  if (error != 0) throw system_error(input.path(), "cannot read", error);
  if (hash != seal.xxh64)
    throw Error(input.path(), Reason::kDamaged, "its content does not match its checksum",
                kDamageAdvice);
}

// Every byte is as it was written by now: what goes wrong here was written wrongly, or the disk
// fails under us.
State read_hdf5(const InputFile& input, const Info& info, bool keep,
                const std::function<bool(std::string_view)>& wanted) {
  Backing backing{input.fd(), input.size(), false, 0};
  try {
    const h5::Session session;
    const Handle access = access_list(&backing);
    const Handle file(H5Fopen(input.path().c_str(), H5F_ACC_RDONLY, access), H5Fclose,
                      "open the file");
    return read_layout(file, info, keep, wanted);
  } catch (const h5::Failure& failure) {
    if (backing.error != 0) throw system_error(input.path(), "cannot read", backing.error);
    throw Error(input.path(), Reason::kDamaged, failure.what(), kDamageAdvice);
  } catch (const Mismatch& mismatch) {
    throw Error(input.path(), Reason::kDamaged, mismatch.what(), kDamageAdvice);
  }
}

}  // namespace

std::string current_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return timestamp(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

Info write(const std::filesystem::path& file, const State& state, std::int64_t step,
           std::string created) {
  Seal seal{{kFormatVersion, step, created.empty() ? current_time() : std::move(created), 0}, 0};
  if (!parse_timestamp(seal.info.created))
    throw std::invalid_argument("'" + seal.info.created + "' is not a checkpoint's time");
  OutputFile output(file);
  std::uint64_t bytes = kSealSize;
  for (const auto& [path, tensor] : state.tensors()) bytes += tensor.bytes().size();
  output.reserve(bytes);

  Backing backing{output.fd(), 0, true, 0};
  try {
    write_hdf5(output, state, seal.info, backing);
  } catch (const h5::Failure& failure) {
    if (backing.error == 0) throw Error(file, Reason::kIo, failure.what());
  }
  if (backing.error != 0) throw system_error(file, "cannot write", backing.error);

  seal.info.size = backing.end;
  // The disk takes the bytes while they are hashed; commit() waits for what remains, the seal.
  auto synced = std::async(std::launch::async, sync_to_disk, output.fd());
  int error = 0;
  seal.xxh64 = hash_body(output.fd(), backing.end, error);
  const int sync_error = synced.get();
  if (error != 0) throw system_error(file, "cannot read back", error);
  if (sync_error != 0) throw system_error(file, "cannot write to disk", sync_error);
  error = write_fully(output.fd(), encode_seal(seal), 0);
  if (error != 0) throw system_error(file, "cannot write", error);
  output.commit();
  return seal.info;
}

Info peek(const std::filesystem::path& file) { return read_seal(InputFile(file)).info; }

Info verify(const std::filesystem::path& file) {
  const InputFile input(file);
  const Seal seal = read_seal(input);
  check_body(input, seal);
  read_hdf5(input, seal.info, false, {});
  return seal.info;
}

Contents read(const std::filesystem::path& file,
              const std::function<bool(std::string_view path)>& wanted) {
  const InputFile input(file);
  const Seal seal = read_seal(input);
  check_body(input, seal);
  return {seal.info, read_hdf5(input, seal.info, true, wanted)};
}

}  // namespace bellows::checkpoint
