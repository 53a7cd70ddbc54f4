#include "distribute/communicator.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#if defined(VARVE_HAVE_MPI)
#include <mpi.h>
#endif

namespace varve {

SampleRange static_part(SampleIndex num_samples, int rank, int num_ranks) {
  auto const parts = static_cast<SampleIndex>(num_ranks);
  auto const begin = [&](SampleIndex part) { return num_samples / parts * part + std::min(part, num_samples % parts); };
  auto const part = static_cast<SampleIndex>(rank);
  return {begin(part), begin(part + 1)};
}

#if defined(VARVE_HAVE_MPI)

namespace {

template <class T>
MPI_Datatype mpi_type();
template <>
MPI_Datatype mpi_type<std::uint64_t>() {
  return MPI_UINT64_T;
}
template <>
MPI_Datatype mpi_type<std::uint32_t>() {
  return MPI_UINT32_T;
}
template <>
MPI_Datatype mpi_type<double>() {
  return MPI_DOUBLE;
}
template <>
MPI_Datatype mpi_type<char>() {
  return MPI_CHAR;
}

/// MPI counts are int: longer arrays go in several messages.
constexpr std::size_t kMessageLength = std::size_t(1) << 28;

template <class T>
void send(std::vector<T> const& numbers, int target) {
  std::uint64_t const length = numbers.size();
  MPI_Send(&length, 1, MPI_UINT64_T, target, 0, MPI_COMM_WORLD);
  for (std::size_t first = 0; first < numbers.size(); first += kMessageLength) {
    MPI_Send(numbers.data() + first, static_cast<int>(std::min(kMessageLength, numbers.size() - first)), mpi_type<T>(),
             target, 0, MPI_COMM_WORLD);
  }
}

template <class T>
std::vector<T> receive(int source) {
  std::uint64_t length = 0;
  MPI_Recv(&length, 1, MPI_UINT64_T, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  std::vector<T> numbers(length);
  for (std::size_t first = 0; first < numbers.size(); first += kMessageLength) {
    MPI_Recv(numbers.data() + first, static_cast<int>(std::min(kMessageLength, numbers.size() - first)), mpi_type<T>(),
             source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return numbers;
}

template <class T>
std::vector<T> gather_numbers(std::vector<T> const& numbers, int rank, int size) {
  if (rank != 0) {
    send(numbers, 0);
    return {};
  }
  std::vector<T> all = numbers;
  for (int source = 1; source < size; ++source) {
    auto const part = receive<T>(source);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

template <class T>
T reduce(T number, MPI_Op operation) {
  T result{};
  MPI_Allreduce(&number, &result, 1, mpi_type<T>(), operation, MPI_COMM_WORLD);
  return result;
}

} // namespace

ParallelEnvironment::ParallelEnvironment(int& num_arguments, char**& arguments) {
  setenv("OMPI_MCA_ess_singleton_isolated", "1", 0); // without mpirun, Open MPI need not start a daemon (0.2 s)
  int provided = 0;
  MPI_Init_thread(&num_arguments, &arguments, MPI_THREAD_FUNNELED, &provided);
}

ParallelEnvironment::~ParallelEnvironment() { MPI_Finalize(); }

void ParallelEnvironment::abort_if_several(int exit_code) {
  if (Communicator().size() > 1) MPI_Abort(MPI_COMM_WORLD, exit_code);
}

Communicator::Communicator() {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

void Communicator::together(std::function<void()> const& work) const {
  if (size_ == 1) return work();
  std::string sentence;
  int kind = 0;
  try {
    work();
  } catch (Error const& error) {
    sentence = error.what();
    kind = static_cast<int>(error.kind());
  }
  int const mine = kind != 0 ? rank_ : size_;
  int failed = size_;
  MPI_Allreduce(&mine, &failed, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (failed == size_) return;
  std::array<int, 2> header = {kind, static_cast<int>(sentence.size())};
  MPI_Bcast(header.data(), 2, MPI_INT, failed, MPI_COMM_WORLD);
  sentence.resize(static_cast<std::size_t>(header[1]));
  MPI_Bcast(sentence.data(), header[1], MPI_CHAR, failed, MPI_COMM_WORLD);
  throw Error(static_cast<ErrorKind>(header[0]), fmt::format("{} (rank {} of {})", sentence, failed, size_));
}

std::uint64_t Communicator::sum(std::uint64_t number) const { return reduce(number, MPI_SUM); }
double Communicator::sum(double number) const { return reduce(number, MPI_SUM); }
double Communicator::max(double number) const { return reduce(number, MPI_MAX); }

std::vector<std::uint64_t> Communicator::gather(std::vector<std::uint64_t> const& numbers) const {
  return gather_numbers(numbers, rank_, size_);
}
std::vector<std::uint32_t> Communicator::gather(std::vector<std::uint32_t> const& numbers) const {
  return gather_numbers(numbers, rank_, size_);
}

std::vector<std::string> Communicator::gather(std::string const& text) const {
  std::vector<std::string> texts;
  if (!is_root()) {
    send(std::vector<char>(text.begin(), text.end()), 0);
    return texts;
  }
  texts.push_back(text);
  for (int source = 1; source < size_; ++source) {
    auto const letters = receive<char>(source);
    texts.emplace_back(letters.begin(), letters.end());
  }
  return texts;
}

void Communicator::gather_rows(SampleSet const& rows, std::function<void(SampleSet const&)> const& consume) const {
  if (!is_root()) {
    send(std::vector<std::uint64_t>{rows.matrix.num_rows, rows.matrix.num_columns, rows.first_sample}, 0);
    send(rows.matrix.row_pointers, 0);
    send(rows.matrix.column_indices, 0);
    send(rows.matrix.values, 0);
    return;
  }
  consume(rows);
  for (int source = 1; source < size_; ++source) {
    auto const shape = receive<std::uint64_t>(source);
    SampleSet part;
    part.matrix.num_rows = shape[0];
    part.matrix.num_columns = shape[1];
    part.first_sample = shape[2];
    part.matrix.row_pointers = receive<EdgeOffset>(source);
    part.matrix.column_indices = receive<NeuronIndex>(source);
    part.matrix.values = receive<double>(source);
    consume(part);
  }
}

#else

ParallelEnvironment::ParallelEnvironment(int&, char**&) {}
ParallelEnvironment::~ParallelEnvironment() = default;
void ParallelEnvironment::abort_if_several(int) {}

Communicator::Communicator() = default;

void Communicator::together(std::function<void()> const& work) const { work(); }
std::uint64_t Communicator::sum(std::uint64_t number) const { return number; }
double Communicator::sum(double number) const { return number; }
double Communicator::max(double number) const { return number; }
std::vector<std::uint64_t> Communicator::gather(std::vector<std::uint64_t> const& numbers) const { return numbers; }
std::vector<std::uint32_t> Communicator::gather(std::vector<std::uint32_t> const& numbers) const { return numbers; }
std::vector<std::string> Communicator::gather(std::string const& text) const { return {text}; }
void Communicator::gather_rows(SampleSet const& rows, std::function<void(SampleSet const&)> const& consume) const {
  consume(rows);
}

#endif

} // namespace varve
