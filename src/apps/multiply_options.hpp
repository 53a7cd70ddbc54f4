#pragma once

#include "apps/cli_types.hpp"
#include "core/backend.hpp"
#include "core/types.hpp"
#include "io/file_roles.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace varve {

/// The options of `varve multiply` as given by the user.
struct MultiplyOptions {
  std::string a, b, added; ///< files; `added` is C0
  std::string output, report, journal;
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1.0;
  std::optional<double> beta; ///< default: 1 with C0
  std::string precision = "float";
  std::string product = "own"; ///< or "library"
  std::optional<std::uint64_t> tile;
  std::string backend = to_string(compiled_backends().front());
  std::optional<double> device_memory_limit; ///< in GiB
  bool no_peer_tiles = false;
  bool share_devices = false;
};

/// Adds the options to the subcommand.
void add_options(CLI::App& command, MultiplyOptions& options);

/// Throws UsageError if options contradict each other or a number is not finite.
void require_valid(MultiplyOptions const& options);

/// All files that the command reads and writes, with the options that name them.
FileRoles file_roles(MultiplyOptions const& options);

/// What the bits of a tile depend on, for journals.
nlohmann::ordered_json describe_run(MultiplyOptions const& options, std::uint64_t tile);

} // namespace varve
