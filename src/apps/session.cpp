#include "apps/session.hpp"

#include "apps/command.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/printable.hpp"
#include "core/version.hpp"
#include "io/input_files.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"

#include <algorithm>
#include <exception>
#include <sstream>

namespace varve {
namespace {

constexpr char const* main_footer = R"(
Exit codes: 0 success; 1 results differ from the truth; 2 wrong usage; 3 bad input; 4 not enough memory, no such device,
or an output that cannot be written; 5 stopped by SIGTERM or SIGUSR1, run again to continue from the journal or the
checkpoint.
Options that start with --kokkos- are passed to Kokkos (--kokkos-num-threads=8, --kokkos-device-id=1, ...).
Under mpirun, srun or flux the ranks share the samples; start one rank per device.
Examples:
  varve generate radixnet --neurons 1024 --layers 120 --output net.safetensors
  varve generate images --neurons 1024 --samples 60000 --output images.safetensors
  varve infer --network net.safetensors --input images.safetensors --categories alive.tsv
  varve verify --network net.safetensors --input images.safetensors --result alive.tsv --exact)";

std::string version_text() {
  return fmt::format("varve {} (numerics {}, commit {}, {}, {}, Kokkos {}, backends: {})", provenance.version,
                     kNumerics, provenance.git_commit, provenance.compiler, provenance.build_type,
                     provenance.kokkos_version, compiled_backend_names());
}

int refuse(int exit_code, std::string const& sentence, bool speaks) {
  constexpr std::size_t longest = 2000; // limit on the length of a sentence that quotes long names
  if (speaks) say("varve: " + printable(sentence, longest));
  return exit_code;
}

/// The error that a failure means. Other failures may be a consequence of a failed standard output.
Error error_meant_by(std::exception const& failure) {
  auto error = error_of(failure);
  if (dynamic_cast<Error const*>(&failure) != nullptr) return error;
  auto const of_output = failure_of_output();
  return of_output.empty() ? error : ResourceError(of_output);
}

/// The arguments without those for Kokkos, which may stand anywhere.
std::vector<char*> own_arguments(int num_arguments, char** arguments) {
  std::vector<char*> own(arguments, arguments + num_arguments);
  std::erase_if(own, [](char const* argument) { return std::string_view(argument).starts_with("--kokkos-"); });
  return own;
}

/// Takes the arguments. Returns true if they ask for help, the version or a document, which is printed then. Throws
/// UsageError.
bool is_answered(CLI::App& command_line, std::vector<char*> const& arguments, Communicator const& communicator) {
  std::string answer;
  communicator.together([&] { // each rank parses its own command line
    require_values_behind_equals(std::span(arguments).subspan(std::min<std::size_t>(arguments.size(), 1)));
    try {
      command_line.parse(static_cast<int>(arguments.size()), arguments.data());
    } catch (CLI::Success const& help_or_version) {
      std::ostringstream text;
      command_line.exit(help_or_version, text, text);
      answer = text.str();
    } catch (CLI::ParseError const& error) {
      throw UsageError(explain(command_line, error));
    }
  });
  require_same_command(communicator, command_line, answer);
  if (communicator.is_root()) fmt::print("{}", answer);
  return !answer.empty();
}

constexpr char const* description = "Exact inference of very deep sparse neural networks, on laptops and GPU clusters.";

/// Declares all commands and their options.
void declare(CLI::App& command_line, Action& action) {
  command_line.footer(main_footer);
  add_help(command_line);
  command_line.set_version_flag("--version", version_text());
  auto const print_document = [&command_line](std::string const& kind) {
    auto text = document(kind, command_line);
    text.pop_back(); // the newline that printing adds
    throw CLI::CallForVersion(text, 0);
  };
  command_line
      .add_option_function<std::string>("--document", print_document,
                                        "print a document made from all options, and end: man or bash (completion)")
      ->check(known({"man", "bash"}));
  command_line.require_subcommand(1);
  for (auto const add : all_commands) add(command_line, action);
  require_plain_values(command_line);
}

} // namespace

int say_stopped(bool speaks, char const* what, std::uint64_t done, std::uint64_t all, char const* parts,
                std::string const& journal) {
  if (speaks)
    say(fmt::format("varve: a signal stopped {} after {} of {} {}; the same command continues from {}", what, done, all,
                    parts, printable(journal)));
  return stopped_by_signal;
}

int Session::run_on(Communicator const& communicator, int num_arguments, char** arguments) {
  CLI::App command_line(description, "varve");
  Action action;
  declare(command_line, action);
  InputFiles const inputs;
  // before Kokkos starts, because a machine without the GPU of this build can help, too
  if (is_answered(command_line, own_arguments(num_arguments, arguments), communicator)) {
    flush_output();
    return 0;
  }
  if (communicator.size() > 1 && !action.is_parallel) {
    fail<UsageError>("varve {} runs as one rank", command_line.get_subcommands().front()->get_name());
  }
  communicator.together([&] {
    if (action.uses_devices) {
      if (!devices_) {
        devices_.emplace(num_arguments, arguments);
      } else if (own_arguments(num_arguments, arguments).size() < static_cast<std::size_t>(num_arguments)) {
        throw UsageError("Kokkos runs already and takes no further options");
      }
      // the driver of a GPU reserves addresses as it likes
      if (!has_own_memory(compiled_backends().front())) limit_memory_to_available();
    } else {
      start_on_host(num_arguments, arguments);
    }
  });
  communicator.together([&] { // last, so that the handlers of MPI and device libraries do not replace ours
    if (!std::exchange(watches_signals_, true)) remove_partial_outputs_on_signals();
  });
  int const exit_code = action.run();
  communicator.together(require_unchanged_inputs);
  flush_output(); // before ending libraries flush it and discard the error
  return exit_code;
}

int Session::run(int num_arguments, char** arguments) {
  if (!ranks_) {
    ranks_.emplace(num_arguments, arguments, StartMpi::if_launched);
    auto const say_last = [](Error const& error) { refuse(static_cast<int>(error.kind()), error.what(), true); };
    ParallelEnvironment::set_failure_handler(say_last);
    set_start_failure_handler(say_last);
  }
  Communicator const communicator;
  try {
    return run_on(communicator, num_arguments, arguments);
  } catch (Error const& failure) {
    // All ranks throw the same error (Communicator::together); only the root prints it.
    auto const error = error_meant_by(failure);
    return refuse(static_cast<int>(error.kind()), error.what(), communicator.is_root());
  } catch (std::exception const& failure) {
    refuse(4, error_meant_by(failure).what(), true);
    ParallelEnvironment::abort_if_several(4);
    return 4;
  }
}

} // namespace varve
