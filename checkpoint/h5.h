// SPDX-License-Identifier: Apache-2.0
// HDF5 with owners for its handles and errors as exceptions.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "checkpoint/state.h"

namespace bellows::checkpoint::h5 {

/// A call of HDF5's that failed. what(): "WHAT (HDF5: innermost reason)".
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// While it lives: this thread alone uses HDF5 through this library, and HDF5 prints no errors.
class Session {
 public:
  Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

 private:
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

/// Closes its handle. Build it with the result of the call that opens it.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  /// Throws Failure("cannot WHAT") when `id` is negative.
  Handle(hid_t id, Close closer, const std::string& what);
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT: stands for the handle in every HDF5 call
  /// Closes now. Throws Failure.
  void close(const std::string& what);

 private:
  hid_t id_;
  Close close_;
};

/// Throws Failure("cannot WHAT ...") when `status` is negative.
void check(herr_t status, const std::string& what);

/// The type of a tensor's elements in the file. bf16 is an HDF5 floating-point type of 16 bits:
/// sign 1, exponent 8 (bias 127), mantissa 7 bits; bool is an enumeration FALSE, TRUE over 8 bits,
/// as h5py's.
Handle element_type(Element element);
/// Fixed-length UTF-8 text of max(size, 1) bytes, padded with zeros.
Handle text_type(std::size_t size);
/// FALSE, TRUE.
Handle bool_type();

}  // namespace bellows::checkpoint::h5
