// SPDX-License-Identifier: Apache-2.0
// HDF5 with owners for its handles and errors as exceptions.
#include "checkpoint/h5.h"

#include <algorithm>

namespace bellows::checkpoint::h5 {
namespace {

std::mutex& turn() {
  static std::mutex mutex;
  return mutex;
}

herr_t keep_first(unsigned index, const H5E_error2_t* error, void* text) {
  if (index == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

// Upward, the first entry of HDF5's error stack is the innermost one.
[[noreturn]] void fail(const std::string& what) {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  H5Eclear2(H5E_DEFAULT);
  throw Failure("cannot " + what + (reason.empty() ? "" : " (HDF5: " + reason + ")"));
}

Handle copy_of(hid_t type) { return {H5Tcopy(type), H5Tclose, "copy a type"}; }

Handle bits16(std::size_t exponent_bits, std::size_t bias) {
  constexpr std::size_t kSign = 15;
  const std::size_t mantissa_bits = kSign - exponent_bits;
  Handle type = copy_of(H5T_IEEE_F32LE);
  check(H5Tset_fields(type, kSign, mantissa_bits, exponent_bits, 0, mantissa_bits),
        "define a 16-bit type");
  check(H5Tset_size(type, 2), "define a 16-bit type");
  check(H5Tset_ebias(type, bias), "define a 16-bit type");
  return type;
}

}  // namespace

Session::Session() : lock_(turn()) {
  check(H5open(), "start HDF5");
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Session::~Session() { H5Eset_auto2(H5E_DEFAULT, print_, print_data_); }

Handle::Handle(hid_t id, Close closer, const std::string& what) : id_(id), close_(closer) {
  if (id_ < 0) fail(what);
}

void Handle::close(const std::string& what) {
  const hid_t id = std::exchange(id_, H5I_INVALID_HID);
  check(close_(id), what);
}

void check(herr_t status, const std::string& what) {
  if (status < 0) fail(what);
}

Handle element_type(Element element) {
  switch (element) {
    case Element::f16:
      return bits16(5, 15);
    case Element::bf16:
      return bits16(8, 127);
    case Element::f32:
      return copy_of(H5T_IEEE_F32LE);
    case Element::f64:
      return copy_of(H5T_IEEE_F64LE);
    case Element::i8:
      return copy_of(H5T_STD_I8LE);
    case Element::u8:
      return copy_of(H5T_STD_U8LE);
    case Element::i16:
      return copy_of(H5T_STD_I16LE);
    case Element::i32:
      return copy_of(H5T_STD_I32LE);
    case Element::i64:
      return copy_of(H5T_STD_I64LE);
    case Element::boolean:
      break;
  }
  return bool_type();
}

Handle text_type(std::size_t size) {
  Handle type = copy_of(H5T_C_S1);
  check(H5Tset_size(type, std::max<std::size_t>(size, 1)), "define a text type");
  check(H5Tset_strpad(type, H5T_STR_NULLPAD), "define a text type");
  check(H5Tset_cset(type, H5T_CSET_UTF8), "define a text type");
  return type;
}

Handle bool_type() {
  Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose, "define the type of a boolean");
  const signed char no = 0;
  const signed char yes = 1;
  check(H5Tenum_insert(type, "FALSE", &no), "define the type of a boolean");
  check(H5Tenum_insert(type, "TRUE", &yes), "define the type of a boolean");
  return type;
}

}  // namespace bellows::checkpoint::h5
