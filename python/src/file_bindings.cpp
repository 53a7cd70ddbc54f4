#include "arrays.hpp"
#include "bindings.hpp"
#include "gil.hpp"
#include "interruptible.hpp"

#include "core/host.hpp"
#include "io/container.hpp"
#include "io/foreign_files.hpp"
#include "io/open.hpp"
#include "io/sample_file.hpp"

#include <varve/io.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace varve::python {
namespace {

v0_3::Network open(std::string const& path, v0_3::OpenOptions const& options) {
  return v0_3::hold_copy(InterruptibleNetwork(v0_3::open_network(path, options)));
}

void save(v0_3::Network const& network, std::string const& path) {
  save_network(network, path, [](std::size_t, std::size_t) { run_signal_handlers(); });
}

/// Reads all samples of a reader.
SampleSet read_all(SampleReader& reader) {
  constexpr std::size_t max_values = std::size_t{1} << 26U;
  auto const at_a_time = std::max<std::size_t>(max_values / std::max<std::size_t>(reader.num_neurons(), 1), 1);
  return in_parts(reader.num_samples(), at_a_time,
                  [&](std::size_t first, std::size_t last) { return reader.read(first, last); });
}

/// The samples of a file and what is wanted for them.
struct AnsweredSamples {
  SampleSet samples;
  std::optional<std::vector<std::int64_t>> labels;
  std::optional<SparseMatrix> targets;
};

std::vector<std::int64_t> read_labels(std::string const& path, SampleIndex first, std::size_t num_samples) {
  auto const labels = open_labels(path, {first, first + num_samples}, OtherSamples::refused);
  return {labels.classes.begin(), labels.classes.end()};
}

AnsweredSamples read_answered(std::string const& path, std::optional<std::size_t> neurons, bool wants_answers) {
  AnsweredSamples read;
  auto const reader =
      open_sample_reader(path, neurons, std::nullopt, available_host_memory() / 2); // text is sorted in memory
  read.samples = read_all(*reader);
  if (!wants_answers || !container::is_container(path)) return read;
  auto const header = read_sample_header(path);
  auto const first = read.samples.first_sample;
  if (header.has_labels) read.labels = read_labels(path, first, read.samples.num_samples());
  if (header.num_targets) {
    SampleRange const range{first, first + read.samples.num_samples()};
    auto const targets = open_targets(path, std::nullopt, range, OtherSamples::refused);
    read.targets = read_all(*targets).matrix;
  }
  return read;
}

/// The arrays and the shape of a matrix.
nb::tuple with_shape(SparseMatrix const& matrix) {
  return nb::make_tuple(to_tuple(matrix), matrix.num_rows, matrix.num_columns);
}

/// The samples of a file: matrix, number of the first one, labels or None, targets or None.
nb::tuple read_samples(std::string const& path, std::optional<std::size_t> neurons, bool wants_answers) {
  AnsweredSamples read;
  {
    WithoutGil const no_gil;
    read = read_answered(path, neurons, wants_answers);
  }
  nb::object const labels = read.labels ? nb::cast(to_numpy(std::move(*read.labels))) : nb::none();
  nb::object const targets = read.targets ? nb::object(with_shape(*read.targets)) : nb::none();
  return nb::make_tuple(with_shape(read.samples.matrix), read.samples.first_sample, labels, targets);
}

nb::tuple matrix_of_matrix_market(std::string const& path) {
  SparseMatrix matrix;
  {
    WithoutGil const no_gil;
    matrix = read_matrix_market(path);
  }
  return with_shape(matrix);
}

nb::object labels_of_file(std::string const& path, SampleIndex first, std::size_t num_samples) {
  std::vector<std::int64_t> labels;
  {
    WithoutGil const no_gil;
    labels = read_labels(path, first, num_samples);
  }
  return nb::cast(to_numpy(std::move(labels)));
}

void write_samples(std::string const& path, CompressedRows const& rows,
                   std::optional<Vector<std::int64_t>> const& labels, std::optional<CompressedRows> const& targets,
                   SampleIndex first_sample) {
  auto const numbered = [&](CompressedRows const& some, char const* place) {
    auto samples = to_samples(some, place, Precision::double_precision);
    samples.first_sample = first_sample;
    return samples;
  };
  auto const samples = numbered(rows, "X");
  auto const writer = open_sample_writer(path, samples.num_neurons());
  if (labels) writer->append_labels({to_classes(*labels, no_class, "labels"), first_sample});
  if (targets) writer->append_targets(numbered(*targets, "targets"));
  writer->append(samples);
  writer->commit();
}

} // namespace

void add_files(nb::module_& module) {
  using NoGil = nb::call_guard<WithoutGil>;
  using v0_3::OpenOptions;
  nb::class_<OpenOptions>(module, "FileOptions", "What files of networks may not say.")
      .def(nb::init<>())
      .def_rw("neurons", &OpenOptions::neurons, nb::arg().none())
      .def_rw("layers", &OpenOptions::layers, nb::arg().none())
      .def_rw("bias", &OpenOptions::bias, nb::arg().none())
      .def_rw("cap", &OpenOptions::cap, nb::arg().none());
  module.def("open_network", &open, nb::arg("path"), nb::arg("options"), NoGil());
  module.def("save_network", &save, nb::arg("network"), nb::arg("path"), NoGil());
  module.def("read_samples", &read_samples, nb::arg("path"), nb::arg("neurons").none(), nb::arg("wants_answers"),
             "((arrays, rows, columns), number of the first sample, labels, the same three of the targets).");
  module.def("read_matrix_market", &matrix_of_matrix_market, nb::arg("path"), "(arrays, rows, columns).");
  module.def("read_labels", &labels_of_file, nb::arg("path"), nb::arg("first_sample"), nb::arg("num_samples"));
  module.def("write_samples", &write_samples, nb::arg("path"), nb::arg("rows"), nb::arg("labels").none(),
             nb::arg("targets").none(), nb::arg("first_sample"), NoGil());
}

} // namespace varve::python
