#include "apps/command.hpp"
#include "apps/documents.hpp"
#include "apps/plain_values.hpp"
#include "apps/same_command.hpp"
#include "apps/standard_streams.hpp"
#include "apps/usage.hpp"
#include "core/error.hpp"
#include "core/failure.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "core/version.hpp"
#include "distribute/communicator.hpp"
#include "io/input_files.hpp"
#include "io/open.hpp"
#include "io/partial_output.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

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
  using namespace varve;
  std::string backends;
  for (Backend const backend : compiled_backends()) backends += (backends.empty() ? "" : ", ") + to_string(backend);
  return fmt::format("varve {} (numerics {}, commit {}, {}, {}, Kokkos {}, backends: {})", provenance.version,
                     kNumerics, provenance.git_commit, provenance.compiler, provenance.build_type,
                     provenance.kokkos_version, backends);
}

int fail(int exit_code, std::string const& sentence, bool speaks) {
  constexpr std::size_t longest = 2000; // limit on the length of a sentence that quotes long names
  if (speaks) varve::say("varve: " + varve::printable(sentence, longest));
  return exit_code;
}

/// The error that a failure means. Other failures may be a consequence of a failed standard output.
varve::Error error_of(std::exception const& failure) {
  auto error = varve::error_of(failure);
  if (dynamic_cast<varve::Error const*>(&failure) != nullptr) return error;
  auto const of_output = varve::failure_of_output();
  return of_output.empty() ? error : varve::ResourceError(of_output);
}

/// The arguments without those for Kokkos, which may stand anywhere.
std::vector<char*> own_arguments(int num_arguments, char** arguments) {
  std::vector<char*> own(arguments, arguments + num_arguments);
  std::erase_if(own, [](char const* argument) { return std::string_view(argument).starts_with("--kokkos-"); });
  return own;
}

/// Takes the arguments. Returns true if they ask for help or the version, which is printed then. Throws UsageError.
bool is_answered(CLI::App& command_line, std::vector<char*> const& arguments, varve::Communicator const& communicator) {
  std::string answer;
  communicator.together([&] { // each rank parses its own command line
    varve::require_values_behind_equals(std::span(arguments).subspan(std::min<std::size_t>(arguments.size(), 1)));
    try {
      command_line.parse(static_cast<int>(arguments.size()), arguments.data());
    } catch (CLI::Success const& help_or_version) {
      std::ostringstream text;
      command_line.exit(help_or_version, text, text);
      answer = text.str();
    } catch (CLI::ParseError const& error) {
      throw varve::UsageError(varve::explain(command_line, error));
    }
  });
  require_same_command(communicator, command_line, answer);
  if (communicator.is_root()) fmt::print("{}", answer);
  return !answer.empty();
}

constexpr char const* description = "Exact inference of very deep sparse neural networks, on laptops and GPU clusters.";

/// Declares all commands and their options.
void declare(CLI::App& command_line, varve::Action& action) {
  command_line.footer(main_footer);
  varve::add_help(command_line);
  command_line.set_version_flag("--version", version_text());
  command_line.add_option("--document", "print a document made from all options, and end: man or bash (completion)");
  command_line.require_subcommand(1);
  varve::add_infer(command_line, action);
  varve::add_generate(command_line, action);
  varve::add_convert(command_line, action);
  varve::add_info(command_line, action);
  varve::add_train(command_line, action);
  varve::add_tune(command_line, action);
  varve::add_verify(command_line, action);
  varve::add_evaluate(command_line, action);
  varve::add_benchmark(command_line, action);
  varve::add_multiply(command_line, action);
  varve::require_plain_values(command_line);
}

/// Answers `varve --document KIND`, which needs neither Kokkos nor a device. Returns the exit code; nullopt for any
/// other command line.
std::optional<int> answer_document(int num_arguments, char** arguments) {
  if (num_arguments < 2 || std::string_view(arguments[1]) != "--document") return std::nullopt;
  try {
    if (num_arguments != 3) throw varve::UsageError("--document takes one word, man or bash, and stands alone");
    CLI::App command_line(description, "varve");
    varve::Action action;
    declare(command_line, action);
    fmt::print("{}", varve::document(arguments[2], command_line, std::string(varve::provenance.version)));
    varve::flush_output();
    return 0;
  } catch (varve::Error const& error) {
    return fail(static_cast<int>(error.kind()), error.what(), true);
  } catch (std::exception const& error) { // {fmt} could not print
    return fail(4, error_of(error).what(), true);
  }
}

int run(int num_arguments, char** arguments, varve::Communicator const& communicator) {
  CLI::App command_line(description, "varve");
  varve::Action action;
  declare(command_line, action);
  varve::InputFiles const inputs;
  // before Kokkos starts, because a machine without the GPU of this build can help, too
  if (is_answered(command_line, own_arguments(num_arguments, arguments), communicator)) {
    varve::flush_output();
    return 0;
  }
  if (communicator.size() > 1 && !action.is_parallel) {
    throw varve::UsageError(
        fmt::format("varve {} runs as one rank", command_line.get_subcommands().front()->get_name()));
  }
  std::optional<varve::Runtime> runtime;
  communicator.together([&] {
    if (action.uses_devices) {
      runtime.emplace(num_arguments, arguments);
    } else {
      varve::start_on_host(num_arguments, arguments);
    }
  });
  // last, so that the handlers of MPI and device libraries do not replace ours
  communicator.together(varve::remove_partial_outputs_on_signals);
  int const exit_code = action.run();
  communicator.together(varve::require_unchanged_inputs);
  varve::flush_output(); // before ending libraries flush it and discard the error
  return exit_code;
}

/// Raises the limit of open files if it is too low: MPI ends a process that lacks descriptors without an error of ours.
/// Throws ResourceError if the limit cannot be raised.
void require_descriptors() {
  constexpr rlim_t fewest = 64;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= fewest) return;
  limit.rlim_cur = std::min(fewest, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= fewest) return;
  throw varve::ResourceError(fmt::format(
      "this process may have {} files open at a time (ulimit -n), expected at least {}", limit.rlim_max, fewest));
}

int run_in_parallel(int num_arguments, char** arguments) {
  varve::ParallelEnvironment const parallel(num_arguments, arguments, varve::StartMpi::if_launched);
  varve::Communicator const communicator;
  auto const say_last = [](varve::Error const& error) { fail(static_cast<int>(error.kind()), error.what(), true); };
  varve::ParallelEnvironment::set_last_words(say_last);
  varve::set_last_words_of_start(say_last);
  try {
    return run(num_arguments, arguments, communicator);
  } catch (varve::Error const& failure) {
    // All ranks throw the same error (Communicator::together); only the root prints it.
    auto const error = error_of(failure);
    return fail(static_cast<int>(error.kind()), error.what(), communicator.is_root());
  } catch (std::exception const& failure) {
    fail(4, error_of(failure).what(), true);
    varve::ParallelEnvironment::abort_if_several(4);
    return 4;
  }
}

} // namespace

int main(int num_arguments, char** arguments) {
  varve::open_missing_streams();
  // writing beyond the file size limit then fails with an error instead of ending the process
  std::signal(SIGXFSZ, SIG_IGN);
  int exit_code = 0;
  try {
    require_descriptors();
    if (auto const answered = answer_document(num_arguments, arguments)) {
      exit_code = *answered;
    } else {
      exit_code = run_in_parallel(num_arguments, arguments);
    }
  } catch (varve::Error const& error) {
    exit_code = fail(static_cast<int>(error.kind()), error.what(), true);
  }
  return varve::exit_code_of_streams(exit_code);
}
