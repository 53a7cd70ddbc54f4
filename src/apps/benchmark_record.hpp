#pragma once

#include "apps/benchmark_contender.hpp"
#include "apps/benchmark_steps.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace varve {

/// Median, interquartile range over median, minimum, and the percentiles 50, 95, 99 of these seconds, and how many
/// there are. (Of few measurements, the high percentiles are near the longest.)
nlohmann::ordered_json summary_of(std::vector<double> const& seconds);

/// The beginning of every record: its kind, the machine, the options of the command, the suite and the case.
struct RecordHead {
  nlohmann::ordered_json machine, options;
  std::string suite, case_name, about;
};

/// The members of a record that come first, in their order.
nlohmann::ordered_json begin_record(RecordHead const& head, std::string const& kind);

/// The record of a contender: how it was prepared, how it was judged, its times and rates, its steps.
nlohmann::ordered_json describe(RecordHead const& head, BenchmarkContender& contender, NetworkSource const& network,
                                SampleBatch const& samples, ContenderVerdict const& verdict);

/// Adds the steps and what they are judged by.
void add_steps(nlohmann::ordered_json& record, std::vector<StepMeasurement> const& steps, Ceilings const& ceilings);

/// Prints the names of the columns that print_record() prints.
void print_columns();

/// Prints the times of a record of inference, in a line or two.
void print_record(nlohmann::ordered_json const& record);

/// The spans of contender `number` as events of Chrome's trace format (chrome://tracing, Perfetto): one process each.
void add_trace_events(nlohmann::ordered_json& events, std::size_t number, std::string const& name,
                      std::vector<TracedSpan> const& spans);

} // namespace varve
