#include "apps/command.hpp"
#include "apps/multiply_options.hpp"
#include "apps/multiply_report.hpp"
#include "apps/options.hpp"
#include "apps/standard_streams.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "distribute/ranks.hpp"
#include "distribute/record_store.hpp"
#include "distribute/shared_product.hpp"
#include "distribute/stop_signal.hpp"
#include "io/dense_file.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/matrix_block.hpp"
#include "io/output_file.hpp"
#include "products/product_engine.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace varve {
namespace {

constexpr std::size_t most_in_run = 32; ///< tiles of a band that one rank takes, so that they share inputs on it

/// One run of `varve multiply` on one rank. Rank 0 speaks and writes for all.
template <class Scalar>
class MultiplyJob {
public:
  explicit MultiplyJob(MultiplyOptions const& options)
      : options_(options), scaling_{options.alpha, options.beta.value_or(1.0)} {
    facts_.element_size = sizeof(Scalar);
  }

  int run() {
    std::optional<StopSignal> stop_signal;
    if (!options_.journal.empty()) stop_signal.emplace();
    open_files();
    place_ranks();
    choose_tiles();
    find_finished();
    ranks_.together([&] { make_engine(); });
    order_tasks();
    open_output();
    compute();
    auto const num_finished = facts_.num_found + ranks_.sum(num_finished_.load());
    if (num_finished < facts_.num_tasks) {
      VARVE_REQUIRE(!options_.journal.empty(), "a product without a journal ends before its last tile");
      return say_stopped(num_finished);
    }
    finish();
    return 0;
  }

private:
  void open_files() {
    ranks_.together([&] { require_valid(options_); });
    ranks_.together([&] {
      auto const files = file_roles(options_);
      files.require_readable_by(static_cast<std::size_t>(ranks_.size()));
      if (ranks_.is_root()) check_files(files);
    });
    ranks_.together([&] {
      a_ = std::make_unique<DenseFile>(options_.a);
      b_ = std::make_unique<DenseFile>(options_.b);
      if (!options_.added.empty()) added_ = std::make_unique<DenseFile>(options_.added);
      facts_.tiles.shape = shape_of_product();
      if (!ranks_.is_root()) return;
      if (!options_.output.empty()) require_writable(options_.output);
      if (!options_.report.empty()) require_writable(options_.report);
    });
    require_same_matrices();
  }

  void require_same_matrices() {
    std::vector<RankInput> inputs;
    for (auto const& [role, matrix] :
         {std::pair("A ", options_.a), std::pair("B ", options_.b), std::pair("--add ", options_.added)})
      if (!matrix.empty()) inputs.push_back({role + matrix, {matrix}});
    auto const& shape = facts_.tiles.shape;
    require_same_inputs(ranks_,
                        {{"the number of rows of C", shape.rows},
                         {"the number of columns of C", shape.columns},
                         {"the inner dimension", shape.depth}},
                        inputs);
  }

  /// The shape of C. Throws InputError if the shapes of the matrices do not fit.
  ProductShape shape_of_product() const {
    auto const side = [](DenseFile const& matrix, bool is_transposed) {
      return ProductSide{matrix.path().string(), matrix.num_rows(), matrix.num_columns(), is_transposed};
    };
    std::optional<ProductSide> added;
    if (added_) added = side(*added_, false);
    return varve::shape_of_product(side(*a_, options_.transpose_a), side(*b_, options_.transpose_b), added,
                                   sizeof(Scalar));
  }

  void place_ranks() {
    ranks_.together([&] { backend_ = parse_backend(options_.backend); });
    auto const places = varve::place_ranks(ranks_, backend_, options_.share_devices);
    facts_.devices = places.devices;
    auto const num_alike = num_ranks_with(ranks_, kind_of(places.own)); // collective, so before any condition
    are_alike_ = has_own_memory(backend_) && num_alike == static_cast<std::size_t>(ranks_.size());
    ranks_.together([&] { memory_limit_ = memory_limit(places.num_ranks_on_device); });
  }

  std::size_t memory_limit(std::size_t ranks_on_device) const {
    if (options_.device_memory_limit) return *bytes_of(options_.device_memory_limit);
    return default_product_memory(backend_, ranks_on_device);
  }

  /// All ranks take the tile of the journal, else the smallest one that one of them would choose.
  void choose_tiles() {
    std::uint64_t tile = 0;
    std::uint64_t of_journal = 0; // 0: none
    ranks_.together([&] {
      tile = options_.tile ? *options_.tile : default_product_tile<Scalar>(facts_.tiles.shape, backend_, memory_limit_);
      if (options_.journal.empty()) return;
      store_.emplace(options_.journal, ranks_.rank(), ranks_.size());
      auto const found = store_->found_run();
      if (!options_.tile && found.contains("tile") && found["tile"].is_number_unsigned()) of_journal = found["tile"];
      if (of_journal > largest_product_tile) of_journal = 0;
    });
    tile = std::ranges::min(ranks_.gather_everywhere({tile}));
    of_journal = std::ranges::max(ranks_.gather_everywhere({of_journal}));
    is_tile_of_journal_ = of_journal > 0;
    ranks_.together([&] { facts_.tiles = tiles_of(facts_.tiles.shape, is_tile_of_journal_ ? of_journal : tile); });
  }

  /// Finds the tiles in the journal, if there is one.
  void find_finished() {
    if (!store_) return;
    std::string run;
    ranks_.together([&] {
      if (ranks_.is_root()) run = json_text(describe_run(options_, facts_.tiles.tile));
    });
    run = ranks_.broadcast(run);
    ranks_.together([&] {
      store_->resume(nlohmann::ordered_json::parse(run), [&](std::string_view record, std::string const& place) {
        return range_of_tile(facts_.tiles, sizeof(Scalar), record, place);
      });
      store_->begin();
    });
    facts_.num_found = ranks_.sum(std::uint64_t{store_->ranges().size()});
    facts_.num_discarded_bytes = ranks_.sum(store_->num_discarded_bytes());
  }

  /// Without a journal: finished tiles go to the output at once, or to temporary files if ranks cannot all write there.
  void open_output() {
    if (store_ || options_.output.empty()) return;
    create_output();
    ranks_.together([&] {
      if (!is_output_open_) store_.emplace(std::filesystem::path(options_.output).parent_path());
    });
  }

  /// Rank 0 creates the file. The others open it, unless it lies in a folder that only the machine of rank 0 has.
  void create_output() {
    auto const& shape = facts_.tiles.shape;
    auto const precision = sizeof(Scalar) == 4 ? Precision::single_precision : Precision::double_precision;
    std::string place;
    ranks_.together([&] {
      if (!ranks_.is_root()) return;
      output_.emplace(options_.output, shape.rows, shape.columns, precision);
      place = output_->place();
    });
    place = ranks_.broadcast(place);
    try {
      if (!ranks_.is_root()) output_.emplace(place);
    } catch (ResourceError const&) { // all hear of it
    }
    is_output_open_ = std::ranges::min(ranks_.gather_everywhere({std::uint64_t{output_ ? 1U : 0U}})) == 1;
  }

  void commit_output() {
    ranks_.together([&] {
      if (output_ && !ranks_.is_root()) output_->finish();
    });
    ranks_.together([&] {
      if (output_ && ranks_.is_root()) output_->commit(facts_.hash);
    });
  }

  void make_engine() {
    ProductInputs<Scalar> inputs;
    inputs.a = [this](MatrixBlock const& block, Scalar* values) { a_->read(block, values); };
    inputs.b = [this](MatrixBlock const& block, Scalar* values) { b_->read(block, values); };
    inputs.transpose_a = options_.transpose_a;
    inputs.transpose_b = options_.transpose_b;
    auto const way = options_.product == "library" ? ProductWay::library : ProductWay::own;
    try {
      engine_ = std::make_unique<ProductEngine<Scalar>>(backend_, facts_.tiles, memory_limit_, inputs, way);
    } catch (ResourceError const& error) {
      if (!is_tile_of_journal_) throw;
      throw ResourceError(fmt::format("{}; its tiles are those of the journal {}", error.what(), options_.journal));
    }
    facts_.memory = engine_->memory();
  }

  /// The tasks that are left, in the order that suits the rank with the narrowest bands.
  void order_tasks() {
    auto const& mine = facts_.memory.order;
    auto const words = ranks_.gather_everywhere(
        {4 * std::uint64_t{mine.band} + (mine.is_of_columns ? 2U : 0U) + (mine.stays ? 1U : 0U)});
    std::uint64_t narrowest = 0; // ranks without bands take any order
    for (auto const word : words)
      if (word >= 4 && (narrowest == 0 || word < narrowest)) narrowest = word;
    ProductOrder const order{static_cast<std::size_t>(narrowest / 4), narrowest / 2 % 2 == 1, narrowest % 2 == 1};
    left_ =
        tasks_left(ranks_, order_of_tasks(facts_.tiles, order), store_ ? store_->ranges() : std::vector<SampleRange>());
    auto const num_lanes = std::ranges::min(ranks_.gather_everywhere({std::uint64_t{facts_.memory.num_lanes}}));
    if (order.band > 0) run_length_ = std::min(most_in_run, order.stays ? order.band : std::size_t{num_lanes});
    facts_.num_tasks = facts_.num_found + left_.size();
    ranks_.together([&] {
      if (!ranks_.is_root()) return;
      print_head(options_, facts_);
      flush_output();
    });
  }

  void compute() {
    auto const progress = ranks_.is_root() ? terminal_progress("multiplying tiles") : Progress();
    std::optional<TileSharing> sharing;
    if (ranks_.size() > 1 && !options_.no_peer_tiles) sharing.emplace(ranks_, *engine_);
    TileQueue queue(ranks_, left_, are_alike_, ranks_.size() == 1 ? 1 : run_length_);
    auto const next = [&]() -> std::optional<std::uint64_t> {
      if (!options_.journal.empty() && StopSignal::has_come()) return std::nullopt;
      if (progress) progress(facts_.num_found + queue.num_taken(), facts_.num_tasks);
      auto const num_kept = [&](std::uint64_t one) {
        return ranks_.size() == 1 ? std::uint64_t{0} : engine_->num_kept(one); // one rank keeps to the order
      };
      return queue.next(num_kept, num_finished_);
    };
    Stopwatch const time;
    RankProducts mine;
    ranks_.together([&] {
      engine_->run(next, [&](std::uint64_t task, TileSums<Scalar> const& sums) { take(task, sums); });
      mine.seconds = time.seconds();
    });
    facts_.run_seconds = ranks_.max(mine.seconds);
    if (progress) progress(facts_.num_tasks, facts_.num_tasks);
    mine.num_tasks = num_finished_;
    mine.memory_bytes = facts_.memory.bytes();
    mine.traffic = engine_->traffic();
    if (sharing) mine.peers = sharing->peers();
    facts_.ranks = gather_json(ranks_, describe_rank(mine, options_.report.empty() ? nullptr : &engine_->timeline()));
  }

  /// Scales a finished tile and stores or writes it.
  void take(std::uint64_t task, TileSums<Scalar> const& sums) {
    auto const size = static_cast<std::size_t>(sums.block.size());
    values_.resize(size);
    if (added_) {
      added_values_.resize(size);
      added_->read(sums.block, added_values_.data());
    }
    auto const hash = finish_tile(sums, scaling_, added_ ? added_values_.data() : nullptr, values_.data());
    if (store_) {
      store_->add({task, task + 1},
                  record_of_tile(task, {reinterpret_cast<char const*>(values_.data()), size * sizeof(Scalar)}));
    } else {
      if (output_) output_->write(sums.block, values_.data());
      facts_.hash += hash;
    }
    ++num_finished_;
  }

  int say_stopped(std::uint64_t num_finished) const {
    if (ranks_.is_root()) {
      say(fmt::format("varve: a signal stopped the product after {} of {} tiles; the same command continues from {}",
                      num_finished, facts_.num_tasks, printable(options_.journal)));
    }
    return stopped_by_signal;
  }

  /// Writes the output, the report and the last lines.
  void finish() {
    ranks_.together([&] { require_unchanged_inputs(); });
    if (store_) write_stored();
    facts_.hash = ranks_.sum(facts_.hash);
    commit_output();
    ranks_.together([&] {
      if (!ranks_.is_root()) return;
      facts_.total_seconds = total_time_.seconds();
      if (!options_.report.empty()) write_report(options_.report, multiply_report(options_, facts_));
      print_result(options_, facts_); // last: a failure to print loses no output
    });
  }

  /// Writes the stored tiles: each rank its own, or rank 0 those of all.
  void write_stored() {
    if (!options_.journal.empty()) create_output();
    ranks_.together([&] {
      if (!is_output_open_)
        return for_each_in_order(ranks_, *store_, [&](std::string const& record) { write(record); });
      for (std::size_t number = 0; number < store_->ranges().size(); ++number) write(store_->read(number));
    });
  }

  /// Writes a stored tile to the output.
  void write(std::string_view record) {
    auto const block = facts_.tiles.block(task_of_record(record));
    auto const bytes = numbers_of_record(record);
    values_.resize(static_cast<std::size_t>(block.size()));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(values_.data()));
    output_->write(block, values_.data());
    facts_.hash += hash_of_block(block, values_.data());
  }

  MultiplyOptions const& options_;
  ProductScaling scaling_;
  Communicator const ranks_;
  Stopwatch const total_time_;
  ProductFacts facts_;
  Backend backend_ = Backend::serial;
  std::size_t memory_limit_ = 0;
  bool are_alike_ = false; ///< all ranks have GPUs of one kind
  std::unique_ptr<DenseFile> a_, b_, added_;
  std::optional<RecordStore> store_;
  std::optional<DenseFileWriter> output_;
  bool is_output_open_ = false; ///< on all ranks; else rank 0 alone writes
  std::vector<std::uint64_t> left_;
  std::size_t run_length_ = 1; ///< tasks that share inputs
  bool is_tile_of_journal_ = false;
  std::unique_ptr<ProductEngine<Scalar>> engine_;
  std::vector<Scalar> values_, added_values_;   ///< of a tile
  std::atomic<std::uint64_t> num_finished_ = 0; ///< tiles that this rank has computed
};

int multiply(MultiplyOptions const& options) {
  return options.precision == "double" ? MultiplyJob<double>(options).run() : MultiplyJob<float>(options).run();
}

} // namespace

void add_multiply(CLI::App& command_line, Action& action) {
  auto* const command = command_line.add_subcommand("multiply", "Multiply dense matrices of any size: C = alpha A B");
  auto const options = std::make_shared<MultiplyOptions>();
  add_options(*command, *options);
  command->callback([options, &action] { action = {[options] { return multiply(*options); }, true, true}; });
}

} // namespace varve
