#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace varve {

/// A 64-bit checksum of bytes, going on from that of the bytes before them. It tells damaged or other bytes apart; it
/// does not withstand somebody who wants two contents to be equal.
std::uint64_t checksum(std::string_view bytes, std::uint64_t before = 0);

/// The checksum of a file's bytes as they are stored (compressed or not), read once on all host threads. Throws
/// InputError if the file cannot be read.
std::uint64_t file_checksum(std::filesystem::path const& path);

} // namespace varve
