#include "apps/command.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "core/version.hpp"
#include "distribute/communicator.hpp"
#include "io/open.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>

namespace {

constexpr char const* footer = R"(
Exit codes: 0 fine; 1 the categories differ from the truth; 2 wrong usage; 3 bad input; 4 not enough memory, no such
device, or an output that cannot be written; 5 stopped by SIGTERM or SIGUSR1, to go on from the journal.
Options that start with --kokkos- go to Kokkos (--kokkos-num-threads=8, --kokkos-device-id=1, ...).
Under mpirun, srun or flux every rank takes batches of the samples; one rank per device.
Examples:
  varve generate radixnet --neurons 1024 --layers 120 --output net.h5
  varve generate images --neurons 1024 --samples 60000 --output images.h5
  varve infer --network net.h5 --input images.h5 --categories alive.tsv)";

std::string version_text() {
  using namespace varve;
  std::string backends;
  for (Backend const backend : compiled_backends()) backends += (backends.empty() ? "" : ", ") + to_string(backend);
  return fmt::format("varve {} (commit {}, {}, {}, Kokkos {}, backends: {})", provenance.version, provenance.git_commit,
                     provenance.compiler, provenance.build_type, provenance.kokkos_version, backends);
}

int fail(int exit_code, std::string const& sentence, bool speaks) {
  constexpr std::size_t longest = 2000; // of a sentence that quotes long names
  if (speaks) fmt::print(stderr, "varve: {}\n", varve::printable(sentence, longest));
  return exit_code;
}

/// Broken HDF5 files are found by a child process, made before MPI, threads and devices start. What is wrong with them
/// is said when they are opened.
void try_out_files(int num_arguments, char** arguments) {
  for (int number = 1; number < num_arguments; ++number) {
    std::string_view name = arguments[number];
    if (name.starts_with("-")) name.remove_prefix(std::min(name.find('='), name.size() - 1) + 1);
    try {
      varve::try_out_hdf5(name);
    } catch (std::exception const&) {
      continue;
    }
  }
}

int run(int num_arguments, char** arguments, varve::Communicator const& communicator) {
  CLI::App command_line("Exact inference of very deep sparse neural networks, on laptops and GPU clusters.", "varve");
  command_line.footer(footer);
  command_line.set_version_flag("--version", version_text());
  command_line.require_subcommand(1);
  varve::Action action;
  varve::add_infer(command_line, action);
  varve::add_generate(command_line, action);
  varve::add_convert(command_line, action);
  varve::add_info(command_line, action);
  varve::add_tune(command_line, action);
  std::uint64_t is_answered = 0;
  communicator.together([&] { // every rank has a command line of its own
    try {
      command_line.parse(num_arguments, arguments);
    } catch (CLI::Success const& help_or_version) {
      is_answered = 1;
      if (communicator.is_root()) command_line.exit(help_or_version);
    } catch (CLI::ParseError const& error) {
      throw varve::UsageError(fmt::format("{} (try varve --help)", error.what()));
    }
  });
  return communicator.sum(is_answered) > 0 ? 0 : action();
}

} // namespace

int main(int num_arguments, char** arguments) {
  try_out_files(num_arguments, arguments);
  varve::ParallelEnvironment const parallel(num_arguments, arguments);
  varve::Communicator const communicator;
  varve::ParallelEnvironment::set_last_words(
      [](varve::Error const& error) { fail(static_cast<int>(error.kind()), error.what(), true); });
  try {
    std::optional<varve::Runtime> runtime;
    communicator.together([&] { runtime.emplace(num_arguments, arguments); });
    return run(num_arguments, arguments, communicator);
  } catch (varve::Error const& error) {
    // Errors reach all ranks together (Communicator::together): one of them speaks.
    return fail(static_cast<int>(error.kind()), error.what(), communicator.is_root());
  } catch (std::bad_alloc const&) {
    fail(4, "the memory of this machine does not suffice; try a smaller --batch or --memory-limit", true);
    varve::ParallelEnvironment::abort_if_several(4);
    return 4;
  } catch (std::exception const& error) {
    fail(4, error.what(), true);
    varve::ParallelEnvironment::abort_if_several(4);
    return 4;
  }
}
