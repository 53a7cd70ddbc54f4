#include "io/inflater.hpp"

#include "core/config.hpp"

#include <new>

#if VARVE_HAVE_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif

namespace varve {

#if VARVE_HAVE_LIBDEFLATE

Inflater::~Inflater() {
  if (state_ != nullptr) libdeflate_free_decompressor(static_cast<libdeflate_decompressor*>(state_));
}

bool Inflater::inflate(std::span<char const> in, std::span<char> out) {
  if (state_ == nullptr) state_ = libdeflate_alloc_decompressor();
  if (state_ == nullptr) throw std::bad_alloc();
  // without a place for the number of inflated bytes, libdeflate expects out.size() of them
  return libdeflate_zlib_decompress(static_cast<libdeflate_decompressor*>(state_), in.data(), in.size(), out.data(),
                                    out.size(), nullptr) == LIBDEFLATE_SUCCESS;
}

#else

Inflater::~Inflater() { static_cast<void>(state_); }

bool Inflater::inflate(std::span<char const> in, std::span<char> out) {
  auto num_inflated = static_cast<uLongf>(out.size());
  auto const status = uncompress(reinterpret_cast<Bytef*>(out.data()), &num_inflated,
                                 reinterpret_cast<Bytef const*>(in.data()), static_cast<uLong>(in.size()));
  if (status == Z_MEM_ERROR) throw std::bad_alloc();
  return status == Z_OK && num_inflated == out.size();
}

#endif

} // namespace varve
