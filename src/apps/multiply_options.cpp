#include "apps/multiply_options.hpp"

#include "apps/options.hpp"
#include "core/error.hpp"
#include "io/checksum.hpp"
#include "io/json_text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace varve {
namespace {

constexpr char const* multiply_footer = R"(
C = alpha op(A) op(B) + beta C0. Each number of C is one chain of fused multiply-adds in the precision, in ascending order
of the inner index, which begins at 0; it is scaled and C0 is added in double, and the result rounded once. So the bits
depend neither on tiles, devices, ranks nor threads. The `hash` of all nonzero numbers is printed. With --product library
a library adds up in its own order, which may depend on all of them.
Matrices are .safetensors files with an array `matrix` of 32-bit or 64-bit floating point (src/io/FORMAT.md).
The matrices may be larger than the device, and than memory: tiles of A and B are kept on the device while there is room.
Under mpirun, srun or flux the ranks share the tiles; start one rank per device. docs/products.md says how it works.
Exit codes: 0 success; 2 wrong usage; 3 bad input, also a number too large for the precision; 4 not enough memory, or an
output that cannot be written; 5 stopped by a signal, and the same command continues from the journal.
Example:
  varve multiply A.safetensors B.safetensors --transpose-b --output C.safetensors --report report.json)";

nlohmann::ordered_json identity_of(std::string const& matrix) {
  if (matrix.empty()) return nullptr;
  return fmt::format("{:016x}", file_checksum(matrix));
}

} // namespace

void add_options(CLI::App& command, MultiplyOptions& options) {
  command.footer(multiply_footer);
  OptionGroup const shown(command);
  shown.add("A", options.a, "left matrix (.safetensors)")->required();
  shown.add("B", options.b, "right matrix (.safetensors)")->required();
  shown.add("--output", options.output,
            "write C (.safetensors); without it only the hash of C is printed, by which products can be compared");
  shown.add("--transpose-a", options.transpose_a, "op(A) is A transposed");
  shown.add("--transpose-b", options.transpose_b, "op(B) is B transposed");
  shown.add("--alpha", options.alpha, "factor of the product");
  shown.add("--beta", options.beta, "factor of the matrix of --add (default: 1)");
  shown.add("--add", options.added, "matrix C0 to add, of the shape of C (.safetensors)");
  add_precision(shown, options.precision);
  add_backend(command, options.backend);
  shown.add("--journal", options.journal,
            "keep finished tiles in FILE (rank r: FILE.r): the same command continues a product that was killed, or "
            "stopped by SIGTERM or SIGUSR1 (exit code 5)");
  shown.add("--report", options.report, "write everything measured and decided as JSON");
  OptionGroup const memory(command, "Tiles and memory");
  memory.add("--tile", options.tile,
             "rows and columns of the tiles of C (default: those of the journal, else many tiles that fit the device)",
             above_zero());
  memory.add("--device-memory-limit", options.device_memory_limit,
             "device memory (GiB) for tiles (default: nine tenths of what is free; on CPUs half of the memory)",
             above_zero());
  memory.add("--product", options.product,
             "own: the same bits everywhere; library: gemm of Kokkos Kernels (cuBLAS, rocBLAS or a BLAS where it has "
             "one), faster where bits need not agree, in builds that have it",
             CLI::IsMember({"own", "library"}));
  add_share_devices(command, options.share_devices);
  add_tuning(command, {{"peer-tiles",
                        {"on", "off"},
                        "ranks of a machine copy tiles of A and B from each other's devices",
                        [&options](std::string const& value) { options.no_peer_tiles = value == "off"; }}});
}

void require_valid(MultiplyOptions const& options) {
  auto const require_finite = [](char const* name, double number) {
    if (!std::isfinite(number)) throw UsageError(fmt::format("{} is {}, expected a finite number", name, number));
  };
  require_finite("--alpha", options.alpha);
  require_finite("--beta", options.beta.value_or(1.0));
  if (options.beta && options.added.empty()) throw UsageError("--beta needs --add");
  if (!options.journal.empty() && options.output.empty()) throw UsageError("--journal needs --output");
}

FileRoles file_roles(MultiplyOptions const& options) {
  FileRoles files;
  auto const reads = [&](char const* role, std::string const& matrix) {
    if (!matrix.empty()) files.reads(role, matrix);
  };
  reads("A", options.a);
  reads("B", options.b);
  reads("--add", options.added);
  files.writes("--output", options.output, Content::container);
  files.writes("--report", options.report, Content::json);
  files.writes("--journal", options.journal, Content::journal);
  return files;
}

nlohmann::ordered_json describe_run(MultiplyOptions const& options, std::uint64_t tile) {
  nlohmann::ordered_json run = {{"command", "multiply"},
                                {"A", identity_of(options.a)},
                                {"B", identity_of(options.b)},
                                {"C0", identity_of(options.added)},
                                {"transpose A", options.transpose_a},
                                {"transpose B", options.transpose_b},
                                {"alpha", options.alpha},
                                {"beta", options.beta.value_or(1.0)},
                                {"precision", options.precision},
                                {"tile", tile}};
  if (options.product != "own") run["product"] = options.product;
  return run;
}

} // namespace varve
