#include "io/zip_file.hpp"

#include "core/config.hpp"
#include "core/error.hpp"
#include "io/input_files.hpp"
#include "io/line_error.hpp"

#include <fmt/format.h>

#include <array>
#include <set>
#include <string_view>

#if VARVE_HAVE_ZIP
#include <zip.h>

#include <new>
#include <utility>
#endif

namespace varve {

bool is_zip(std::filesystem::path const& path) {
  using namespace std::string_view_literals;
  std::array<char, 4> head{};
  if (open_bytes(path)->read(head) < head.size()) return false;
  std::string_view const begin(head.data(), head.size());
  return begin == "PK\3\4"sv || begin == "PK\5\6"sv; // the latter is an archive without members
}

#if VARVE_HAVE_ZIP
namespace {

using ZipPointer = std::unique_ptr<zip_t, decltype(&zip_discard)>;
using MemberPointer = std::unique_ptr<zip_file_t, decltype(&zip_fclose)>;

class MemberSource final : public ByteSource {
public:
  MemberSource(MemberPointer member, std::string place) : member_(std::move(member)), place_(std::move(place)) {}

  std::size_t read(std::span<char> buffer) override {
    std::size_t filled = 0;
    while (filled < buffer.size()) {
      auto const count = zip_fread(member_.get(), buffer.data() + filled, buffer.size() - filled);
      if (count < 0) {
        auto* const error = zip_file_get_error(member_.get());
        if (zip_error_code_zip(error) == ZIP_ER_MEMORY) throw std::bad_alloc();
        auto const* const reason = zip_error_strerror(error);
        throw InputError(fmt::format("{} is corrupt: its ZIP data cannot be decompressed ({})", place_, reason));
      }
      if (count == 0) break;
      filled += static_cast<std::size_t>(count);
    }
    return filled;
  }

private:
  MemberPointer member_;
  std::string place_;
};

} // namespace

struct ZipFile::Contents {
  std::filesystem::path path;
  ZipPointer archive;
};

ZipFile::ZipFile(std::filesystem::path const& path) {
  int code = 0;
  ZipPointer archive(zip_open(readable_place(path).c_str(), ZIP_RDONLY, &code), &zip_discard);
  if (code == ZIP_ER_MEMORY) throw std::bad_alloc();
  if (!archive) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    auto const sentence = fmt::format("{} is no whole ZIP archive ({})", path.string(), zip_error_strerror(&error));
    zip_error_fini(&error);
    throw InputError(sentence);
  }
  std::set<std::string_view> names; // libzip takes the first of equal names, other programs the last
  for (zip_int64_t number = 0; number < zip_get_num_entries(archive.get(), 0); ++number) {
    auto const* const name = zip_get_name(archive.get(), static_cast<zip_uint64_t>(number), ZIP_FL_ENC_RAW);
    if (name != nullptr && !names.insert(name).second)
      throw InputError(fmt::format("{}: found two members of the name {}, expected one", path.string(), quote(name)));
  }
  contents_.reset(new Contents{path, std::move(archive)});
}

bool ZipFile::has(std::string const& member) const {
  return zip_name_locate(contents_->archive.get(), member.c_str(), 0) >= 0;
}

std::unique_ptr<ByteSource> ZipFile::open(std::string const& member) const {
  auto* const archive = contents_->archive.get();
  auto const place = fmt::format("{}: {}", contents_->path.string(), member);
  auto const number = zip_name_locate(archive, member.c_str(), 0);
  if (number < 0) {
    throw InputError(
        fmt::format("{}: found no member \"{}\" in the ZIP archive, expected one", contents_->path.string(), member));
  }
  zip_stat_t status;
  zip_stat_init(&status);
  bool const is_known = zip_stat_index(archive, static_cast<zip_uint64_t>(number), 0, &status) == 0 &&
                        (status.comp_method == ZIP_CM_STORE || status.comp_method == ZIP_CM_DEFLATE) &&
                        status.encryption_method == ZIP_EM_NONE;
  if (!is_known)
    throw InputError(
        fmt::format("{}: found an encrypted member or another compression, expected deflate or none", place));
  MemberPointer stream(zip_fopen_index(archive, static_cast<zip_uint64_t>(number), 0), &zip_fclose);
  if (!stream) throw InputError(fmt::format("{} cannot be read ({})", place, zip_strerror(archive)));
  return std::make_unique<MemberSource>(std::move(stream), place);
}

#else

struct ZipFile::Contents {};

ZipFile::ZipFile(std::filesystem::path const& path) {
  throw InputError(
      fmt::format("{} is a ZIP archive, which this build of Varve cannot read; build it with libzip", path.string()));
}

bool ZipFile::has(std::string const& /*member*/) const { return false; }

std::unique_ptr<ByteSource> ZipFile::open(std::string const& /*member*/) const { return nullptr; }

#endif

ZipFile::~ZipFile() = default;

} // namespace varve
