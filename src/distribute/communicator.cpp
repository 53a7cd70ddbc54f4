#include "distribute/communicator.hpp"

#include "core/config.hpp"
#include "core/stopwatch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#if VARVE_HAVE_MPI
#include <mpi.h>
#endif

namespace varve {

SampleRange static_part(SampleIndex num_samples, int rank, int num_ranks) {
  auto const parts = static_cast<SampleIndex>(num_ranks);
  auto const begin = [&](SampleIndex part) { return num_samples / parts * part + std::min(part, num_samples % parts); };
  auto const part = static_cast<SampleIndex>(rank);
  return {begin(part), begin(part + 1)};
}

bool is_launched(char const* const* environment) {
  // Open MPI; PMIx and PMI (Slurm, Flux, MPICH, Intel MPI); MPICH, Cray, IBM, MVAPICH; batch systems
  constexpr std::array launchers = {"OMPI_COMM_WORLD_",
                                    "PMIX_RANK=",
                                    "PMIX_NAMESPACE=",
                                    "PMI_",
                                    "PMI2_",
                                    "MPI_LOCAL",
                                    "MPIRUN_",
                                    "PALS_",
                                    "ALPS_",
                                    "JSM_",
                                    "MV2_COMM_WORLD_",
                                    "SLURM_",
                                    "FLUX_",
                                    "LSF_",
                                    "LSB_",
                                    "PBS_",
                                    "COBALT_"};
  for (; *environment != nullptr; ++environment) {
    std::string_view const variable = *environment;
    if (std::ranges::any_of(launchers, [&](char const* prefix) { return variable.starts_with(prefix); })) return true;
  }
  return false;
}

#if VARVE_HAVE_MPI

namespace {

/// MPI counts are int: longer arrays are sent in several messages.
constexpr std::size_t max_message_bytes = std::size_t(1) << 30;

template <class List>
void send(List const& list, int target) {
  std::uint64_t const length = list.size();
  MPI_Send(&length, 1, MPI_UINT64_T, target, 0, MPI_COMM_WORLD);
  auto const bytes = std::as_bytes(std::span(list));
  for (std::size_t first = 0; first < bytes.size(); first += max_message_bytes) {
    auto const count = static_cast<int>(std::min(max_message_bytes, bytes.size() - first));
    MPI_Send(&bytes[first], count, MPI_BYTE, target, 0, MPI_COMM_WORLD);
  }
}

template <class List>
List receive(int source) {
  std::uint64_t length = 0;
  MPI_Recv(&length, 1, MPI_UINT64_T, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  List list(length, typename List::value_type{});
  auto const bytes = std::as_writable_bytes(std::span(list));
  for (std::size_t first = 0; first < bytes.size(); first += max_message_bytes) {
    auto const count = static_cast<int>(std::min(max_message_bytes, bytes.size() - first));
    MPI_Recv(&bytes[first], count, MPI_BYTE, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return list;
}

struct LastWords {
  std::function<void(Error const&)> say;
  double patience = 5.0;
};

LastWords& last_words() {
  static LastWords words;
  return words;
}

/// Polls a request, sleeping in between; returns false if `is_over` returned true first.
bool wait(MPI_Request& request, std::function<bool()> const& is_over) {
  int is_complete = 0;
  for (MPI_Test(&request, &is_complete, MPI_STATUS_IGNORE); is_complete == 0;
       MPI_Test(&request, &is_complete, MPI_STATUS_IGNORE)) {
    if (is_over()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

} // namespace

bool mpi_runs() {
  int has_begun = 0;
  int has_ended = 0;
  MPI_Initialized(&has_begun);
  MPI_Finalized(&has_ended);
  return has_begun != 0 && has_ended == 0;
}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string const whole(text, static_cast<std::size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n")); // what follows tells who built it and where
}

ParallelEnvironment::ParallelEnvironment(int& num_arguments, char**& arguments, StartMpi when) {
  if (when == StartMpi::if_launched && !is_launched(environ)) return;
  // without mpirun, Open MPI then starts no daemon, which would take 0.2 s
  setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
  // hwloc, through which it looks at the machine, would start OpenCL and the libraries of all GPUs for that
  setenv("HWLOC_COMPONENTS", "-opencl,-cuda,-nvml,-rsmi,-levelzero,-gl", 0);
  int provided = 0;
  MPI_Init_thread(&num_arguments, &arguments, MPI_THREAD_FUNNELED, &provided);
  has_started_ = true;
}

ParallelEnvironment::~ParallelEnvironment() {
  if (has_started_) MPI_Finalize();
}

void ParallelEnvironment::abort_if_several(int exit_code) {
  if (Communicator().size() > 1) MPI_Abort(MPI_COMM_WORLD, exit_code);
}

Communicator::Communicator() {
  if (!mpi_runs()) return;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

void ParallelEnvironment::set_failure_handler(std::function<void(Error const&)> say, double patience) {
  last_words() = {std::move(say), patience};
}

void Communicator::together(std::function<void()> const& work) const {
  if (size_ == 1) return work();
  std::optional<Error> error; // of this rank
  try {
    work();
  } catch (std::exception const& failure) {
    error = error_of(failure);
  }
  int const mine = error ? rank_ : size_;
  int failed = size_;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&mine, &failed, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &request);
  Stopwatch const time;
  if (!wait(request, [&] { return error && time.seconds() > last_words().patience; })) {
    auto const sentence = fmt::format("{} (rank {} of {})", error->what(), rank_, size_);
    if (last_words().say) last_words().say(Error(error->kind(), sentence));
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(error->kind()));
  }
  if (failed == size_) return;
  std::string sentence = error ? error->what() : "";
  std::array<int, 2> header = {error ? static_cast<int>(error->kind()) : 0, static_cast<int>(sentence.size())};
  MPI_Bcast(header.data(), 2, MPI_INT, failed, MPI_COMM_WORLD);
  sentence.resize(static_cast<std::size_t>(header[1]));
  MPI_Bcast(sentence.data(), header[1], MPI_CHAR, failed, MPI_COMM_WORLD);
  throw Error(static_cast<ErrorKind>(header[0]), fmt::format("{} (rank {} of {})", sentence, failed, size_));
}

std::uint64_t Communicator::sum(std::uint64_t number) const {
  if (size_ > 1) MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return number;
}
double Communicator::max(double number) const {
  if (size_ > 1) MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return number;
}

#else

bool mpi_runs() { return false; }
std::string mpi_library() { return "none"; }

ParallelEnvironment::ParallelEnvironment(int&, char**&, StartMpi) {}
ParallelEnvironment::~ParallelEnvironment() = default;
void ParallelEnvironment::abort_if_several(int) {}
void ParallelEnvironment::set_failure_handler(std::function<void(Error const&)>, double) {}

Communicator::Communicator() = default;

void Communicator::together(std::function<void()> const& work) const { work(); }
std::uint64_t Communicator::sum(std::uint64_t number) const { return number; }
double Communicator::max(double number) const { return number; }

namespace {

template <class List>
void send(List const&, int) {} // there are no other ranks
template <class List>
List receive(int) {
  return {};
}

} // namespace

#endif

namespace {

/// The lists of all ranks in rank order on rank 0; nothing on other ranks.
template <class List>
std::vector<List> gather_lists(List const& list, int rank, int size) {
  if (rank != 0) {
    send(list, 0);
    return {};
  }
  std::vector<List> lists = {list};
  for (int source = 1; source < size; ++source) lists.push_back(receive<List>(source));
  return lists;
}

/// One item of gather_in_order.
struct Item {
  std::uint64_t key = 0;
  int rank = 0;
  std::size_t place = 0;
};

} // namespace

std::vector<std::string> Communicator::gather(std::string const& text) const {
  return gather_lists(text, rank_, size_);
}

std::vector<std::uint64_t> Communicator::gather_everywhere(std::vector<std::uint64_t> const& numbers) const {
  std::vector<std::uint64_t> all;
  for (auto const& list : gather_lists(numbers, rank_, size_)) all.insert(all.end(), list.begin(), list.end());
  for (int target = 1; target < size_ && is_root(); ++target) send(all, target);
  return is_root() ? all : receive<std::vector<std::uint64_t>>(0);
}

std::string Communicator::broadcast(std::string text) const {
  for (int target = 1; target < size_ && is_root(); ++target) send(text, target);
  return is_root() ? text : receive<std::string>(0);
}

void Communicator::gather_in_order(std::vector<std::uint64_t> const& keys,
                                   std::function<std::string(std::size_t place)> const& produce,
                                   std::function<void(std::string const& bytes)> const& consume) const {
  std::exception_ptr failure; // a failed rank keeps sending or receiving, so that the others can finish
  auto const attempt = [&](auto const& work) {
    try {
      if (!failure) work();
    } catch (...) {
      failure = std::current_exception();
    }
  };
  auto const bytes_of = [&](std::size_t place) {
    std::string bytes;
    attempt([&] { bytes = produce(place); });
    return bytes;
  };
  auto const lists = gather_lists(keys, rank_, size_);
  if (!is_root()) {
    for (std::size_t place = 0; place < keys.size(); ++place) send(bytes_of(place), 0);
  }
  std::vector<Item> items;
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    for (std::size_t place = 0; place < lists[rank].size(); ++place)
      items.push_back({lists[rank][place], static_cast<int>(rank), place});
  std::ranges::sort(items, {}, &Item::key);
  for (auto const& [key, rank, place] : items) {
    auto const bytes = rank == 0 ? bytes_of(place) : receive<std::string>(rank);
    attempt([&, &sent = bytes] {
      if (!sent.empty()) consume(sent); // empty bytes: the sending rank has failed and reports it itself
    });
  }
  if (failure) std::rethrow_exception(failure);
}

} // namespace varve
