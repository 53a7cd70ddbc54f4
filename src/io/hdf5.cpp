#include "io/hdf5.hpp"

#include "core/failure.hpp"
#include "io/hdf5_access.hpp"
#include "io/input_files.hpp"
#include "io/line_error.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace varve::hdf5 {
namespace {

/// Extracts the operating system's error message from HDF5's long list of details; other messages stay unchanged.
std::string essence_of(std::string text) {
  std::string_view const mark = "error message = '";
  if (auto const begin = text.find(mark); begin != std::string::npos) {
    text.erase(0, begin + mark.size());
    text.resize(std::min(text.find('\''), text.size()));
  }
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// HDF5 calls it after each failure of one of its functions. A caller may take the failure for an answer.
herr_t look_for_lack_of_memory(hid_t stack, void*) {
  auto const look = [](unsigned, H5E_error2_t const* error, void*) -> herr_t {
    if (error->maj_num == H5E_RESOURCE && error->min_num == H5E_NOSPACE) note_lack_of_memory();
    return 0;
  };
  return H5Ewalk2(stack, H5E_WALK_UPWARD, look, nullptr);
}

} // namespace

std::string reason() {
  std::string text;
  auto const take = [](unsigned, H5E_error2_t const* error, void* target) -> herr_t {
    auto& found = *static_cast<std::string*>(target);
    if (found.empty() && error->desc != nullptr) found = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take, &text);
  text = essence_of(text);
  return text.empty() ? "HDF5 gives no reason" : "HDF5: " + text;
}

Properties file_access() {
  Properties access(H5Pcreate(H5P_FILE_ACCESS));
#if H5_VERSION_GE(1, 10, 7)
  // locking fails on many cluster file systems; outputs are renamed when complete, so it is not needed
  H5Pset_file_locking(access.id(), false, true);
#endif
  return access;
}

std::unique_lock<std::recursive_mutex> lock() {
  static std::recursive_mutex mutex;
  // outputs are locked already, see PartialOutput
  static auto const no_locks = setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
  static_cast<void>(no_locks);
  // HDF5's exit handler crashes if a full disk kept a file from being closed
  static auto const no_exit_handler = H5dont_atexit();
  static_cast<void>(no_exit_handler);
  std::unique_lock held(mutex);
  H5Eset_auto2(H5E_DEFAULT, look_for_lack_of_memory, nullptr); // this setting is per thread
  return held;
}

bool has_signature(std::filesystem::path const& path) {
  constexpr std::string_view signature("\x89HDF\r\n\x1a\n", 8);
  return bytes_of_file(path, 0, signature.size()) == signature;
}

bool is_hdf5_name(std::filesystem::path const& path) {
  return path.extension() == ".h5" || path.extension() == ".hdf5";
}

bool is_hdf5_and_not_text(std::filesystem::path const& path) {
  if (has_signature(path)) return true;
  std::error_code error;
  if (is_hdf5_name(path) && std::filesystem::is_regular_file(path, error))
    fail_at(path.string(), "no HDF5 file", "one by the ending of its name");
  return false;
}

} // namespace varve::hdf5
