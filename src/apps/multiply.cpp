#include "apps/command.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "core/types.hpp"
#include "distribute/shared_product.hpp"
#include "io/checksum.hpp"
#include "io/dense_file.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/matrix_block.hpp"
#include "io/output_file.hpp"
#include "products/product_engine.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

namespace varve {
namespace {

/// The options of `varve multiply` as given by the user.
struct MultiplyOptions {
  std::string a, b, added; ///< files; `added` is C0
  std::string output, report, journal;
  std::string transpose; ///< "a", "b", "ab" or empty
  double alpha = 1.0;
  std::optional<double> beta; ///< default: 1 with C0
  std::string precision = "float";
  std::string product = "own"; ///< or "library"
  std::optional<std::uint64_t> tile;
  std::string backend = to_string(compiled_backends().front());
  std::optional<std::size_t> device_memory_limit; ///< in bytes
  std::string peer_tiles = "on", share_devices = "off";
  CommandFiles files; ///< that the options above name

  bool transposes(char matrix) const { return transpose.find(matrix) != std::string::npos; }
};

constexpr char const* multiply_footer = R"(
C = alpha op(A) op(B) + beta C0. Each number of C is one chain of fused multiply-adds in the precision, in ascending order
of the inner index, which begins at 0; it is scaled and C0 is added in double, and the result rounded once. So the bits
depend neither on tiles, devices, ranks nor threads. The `hash` of all nonzero numbers is printed. With --tuning
product=library a library adds up in its own order, which may depend on all of them.
Matrices are .safetensors files with an array `matrix` of 32-bit or 64-bit floating point (src/io/FORMAT.md).
The matrices may be larger than the device, and than memory: tiles of A and B are kept on the device while there is room.
Under mpirun, srun or flux the ranks share the tiles; start one rank per device. docs/products.md says how it works.
Exit codes: 0 success; 2 wrong usage; 3 bad input, also a number too large for the precision; 4 not enough memory, or an
output that cannot be written; 5 stopped by a signal, and the same command continues from the journal.
Example:
  varve multiply A.safetensors B.safetensors --transpose b --output C.safetensors --report report.json)";

/// Adds the options to the subcommand.
void add_options(CLI::App& command, MultiplyOptions& options) {
  command.footer(multiply_footer);
  auto& files = options.files;
  OptionGroup const shown(command);
  shown.reads(files, "A", options.a, "left matrix (.safetensors)")->required();
  shown.reads(files, "B", options.b, "right matrix (.safetensors)")->required();
  shown.writes(files, "--output", options.output, Content::container,
               "write C (.safetensors); without it only the hash of C is printed, by which products can be compared");
  shown.add("--transpose", options.transpose, "op(A), op(B) or both are transposed", CLI::IsMember({"a", "b", "ab"}));
  shown.add("--alpha", options.alpha, "factor of the product");
  shown.add("--beta", options.beta, "factor of the matrix of --add (default: 1)");
  shown.reads(files, "--add", options.added, "matrix C0 to add, of the shape of C (.safetensors)");
  add_precision(shown, options.precision);
  add_backend(command, options.backend);
  shown.writes(files, "--journal", options.journal, Content::journal,
               "keep finished tiles in FILE (rank r: FILE.r): the same command continues a product that was killed, or "
               "stopped by SIGTERM or SIGUSR1 (exit code 5)");
  add_report(shown, files, options.report);
  OptionGroup const memory(command, "Tiles and memory");
  memory.add("--tile", options.tile,
             "rows and columns of the tiles of C (default: those of the journal, else many tiles that fit the device)",
             above_zero());
  memory.add_keys("--memory",
                  {memory_key("device", options.device_memory_limit,
                              "of the device, for tiles (default: nine tenths of what is free; on CPUs half of the "
                              "memory)")},
                  "limit in GiB:");
  add_tuning(command,
             {name_key("product", options.product, {"own", "library"},
                       "the same bits everywhere, or gemm of Kokkos Kernels (cuBLAS, rocBLAS or a BLAS where it "
                       "has one), faster where bits need not agree, in builds that have it"),
              name_key("peer-tiles", options.peer_tiles, {"on", "off"},
                       "ranks of a machine copy tiles of A and B from each other's devices"),
              share_devices_key(options.share_devices)});
}

/// Throws UsageError if options contradict each other or a number is not finite.
void require_valid(MultiplyOptions const& options) {
  auto const require_finite = [](char const* name, double number) {
    if (!std::isfinite(number)) fail<UsageError>("{} is {}, expected a finite number", name, number);
  };
  require_finite("--alpha", options.alpha);
  require_finite("--beta", options.beta.value_or(1.0));
  if (options.beta && options.added.empty()) throw UsageError("--beta needs --add");
  if (!options.journal.empty() && options.output.empty()) throw UsageError("--journal needs --output");
}

/// What the bits of a tile depend on, for journals.
Json describe_run(MultiplyOptions const& options, std::uint64_t tile) {
  auto const identity_of = [](std::string const& matrix) {
    return matrix.empty() ? Json() : Json(fmt::format("{:016x}", file_checksum(matrix)));
  };
  Json run = {{"command", "multiply"},
              {"A", identity_of(options.a)},
              {"B", identity_of(options.b)},
              {"C0", identity_of(options.added)},
              {"transpose A", options.transposes('a')},
              {"transpose B", options.transposes('b')},
              {"alpha", options.alpha},
              {"beta", options.beta.value_or(1.0)},
              {"precision", options.precision},
              {"tile", tile}};
  if (options.product != "own") run["product"] = options.product;
  return run;
}

/// The sum over the ranks of what each has at this place: "/tile_cache/bytes/peers".
double sum(Json const& ranks, char const* place) {
  return std::accumulate(ranks.begin(), ranks.end(), 0.0, [&](double total, Json const& rank) {
    return total + rank.at(Json::json_pointer(place)).get<double>();
  });
}

/// A tile is a hit of the rank's own device, of another device of its machine, or comes from host memory or a file.
Json cache_of(ProductTraffic const& traffic, std::vector<TilePeer> const& other_ranks) {
  auto const& peers = traffic.peers;
  Json json = {
      {"tiles",
       {{"own", traffic.num_hits}, {"peers", peers.num_copied}, {"host", traffic.num_misses - peers.num_copied}}},
      {"bytes", {{"peers", peers.bytes}, {"host", traffic.loaded_bytes - peers.bytes}}},
      {"lost", peers.num_lost},
      {"peer_wait_seconds", peers.wait_seconds},
      {"peers", Json::array()}};
  for (auto const& peer : other_ranks) {
    json["peers"].push_back({{"rank", peer.rank}, {"used", peer.obstacle.empty()}});
    if (!peer.obstacle.empty()) json["peers"].back()["obstacle"] = peer.obstacle;
  }
  return json;
}

/// What devices copied from each other, and which do not.
void print_peers(Json const& ranks) {
  bool has_peers = false;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (auto peer : ranks[rank].at("tile_cache")["peers"]) {
      has_peers = true;
      peer["own"] = rank;
      print_lines({"peers     rank {own} copies no tiles from rank {rank}: {obstacle}"}, peer);
    }
  }
  if (!has_peers) return;
  print_lines(
      {"peers     {tiles} tiles, {bytes:B} of what was brought, copied from devices of other ranks; {seconds:s} "
       "waited for them"},
      {{"tiles", sum(ranks, "/tile_cache/tiles/peers")},
       {"bytes", sum(ranks, "/tile_cache/bytes/peers")},
       {"seconds", sum(ranks, "/tile_cache/peer_wait_seconds")}});
}

/// The events of a rank.
Json describe(ProductTimeline const& timeline) {
  auto events = Json::array();
  for (auto const& event : timeline.events()) {
    events.push_back({{"what", name_of(event.what)}, {"begin", event.begin}, {"end", event.end}});
    if (event.what != ProductEvent::What::wait) events.back().update({{"task", event.task}, {"lane", event.lane}});
  }
  return events;
}

constexpr std::size_t max_in_run = 32; ///< tiles of a band that one rank takes, so that they share inputs on it

/// One run of `varve multiply` on one rank. Rank 0 speaks and writes for all.
template <class Scalar>
class MultiplyJob {
public:
  explicit MultiplyJob(MultiplyOptions const& options)
      : options_(options), scaling_{options.alpha, options.beta.value_or(1.0)} {}

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
    auto const num_finished = num_found_ + ranks_.sum(num_finished_.load());
    if (num_finished < num_tasks_) {
      VARVE_REQUIRE(!options_.journal.empty(), "a product without a journal ends before its last tile");
      return say_stopped(ranks_.is_root(), "the product", num_finished, num_tasks_, "tiles", options_.journal);
    }
    finish();
    return 0;
  }

private:
  void open_files() {
    ranks_.together([&] { require_valid(options_); });
    check_files(options_.files.roles(), ranks_);
    ranks_.together([&] {
      a_ = std::make_unique<DenseFile>(options_.a);
      b_ = std::make_unique<DenseFile>(options_.b);
      if (!options_.added.empty()) added_ = std::make_unique<DenseFile>(options_.added);
      tiles_.shape = shape_of_product();
      if (ranks_.is_root()) options_.files.require_writable();
    });
    auto const& shape = tiles_.shape;
    require_same_inputs(ranks_,
                        {{"the number of rows of C", shape.rows},
                         {"the number of columns of C", shape.columns},
                         {"the inner dimension", shape.depth}},
                        options_.files.inputs());
  }

  /// The shape of C. Throws InputError if the shapes of the matrices do not fit.
  ProductShape shape_of_product() const {
    auto const side = [](DenseFile const& matrix, bool is_transposed) {
      return ProductSide{matrix.path().string(), matrix.num_rows(), matrix.num_columns(), is_transposed};
    };
    std::optional<ProductSide> added;
    if (added_) added = side(*added_, false);
    return varve::shape_of_product(side(*a_, options_.transposes('a')), side(*b_, options_.transposes('b')), added,
                                   sizeof(Scalar));
  }

  /// Begins the report with what is known before the product.
  void begin_report() {
    auto const& [shape, tile, step] = tiles_;
    report_["a"] = {{"name", options_.a}, {"transposed", options_.transposes('a')}};
    report_["b"] = {{"name", options_.b}, {"transposed", options_.transposes('b')}};
    if (added_) report_["c0"] = {{"name", options_.added}};
    report_["alpha"] = scaling_.alpha;
    if (added_) report_["beta"] = scaling_.beta;
    report_["shape"] = {{"rows", shape.rows}, {"columns", shape.columns}, {"depth", shape.depth}};
    report_["precision"] = options_.precision;
    report_["backend"] = options_.backend;
    add_devices(report_, devices_);
    report_["product"] = options_.product;
    report_["tiles"] = {{"tile", tile}, {"step", step}, {"tiles", tiles_.num_tasks()}, {"tasks", num_tasks_}};
    auto const& memory = engine_->memory();
    report_["memory"] = {{"tasks_at_a_time", memory.num_lanes},
                         {"bytes_of_task", memory.lane_bytes},
                         {"kept_tiles", memory.num_slots},
                         {"bytes_of_tile", memory.slot_bytes},
                         {"bytes", memory.bytes()}};
    if (!options_.journal.empty()) {
      report_["journal"] = {
          {"name", options_.journal}, {"found_tiles", num_found_}, {"discarded_bytes", num_discarded_bytes_}};
    }
    report_["peer_tiles"] = options_.peer_tiles == "on";
  }

  void print_head() const {
    auto shown = report_;
    if (devices_.size() > 1) shown["plural"] = "s";
    if (options_.transposes('a')) shown["a"]["how"] = "transposed";
    if (options_.transposes('b')) shown["b"]["how"] = "transposed";
    shown["engine"] = options_.product == "library" ? "gemm of Kokkos Kernels" : "varve";
    print_lines({"A         {a/name}[ {a/how}]: {shape/rows} x {shape/depth}",
                 "B         {b/name}[ {b/how}]: {shape/depth} x {shape/columns}", "C0        {c0/name}",
                 options_.output.empty() ? "C         kept nowhere, as there is no --output" : ""},
                shown);
    print_devices(shown);
    print_lines({"engine    {engine} on {backend}: {devices/0}, {precision}; {ranks} rank[{plural}]",
                 "tiles     {tiles/tiles} of {tiles/tile} x {tiles/tile}, in steps of {tiles/step}; "
                 "{memory/tasks_at_a_time} at a time, room for {memory/kept_tiles} of A and B in {memory/bytes:B}",
                 num_found_ > 0 ? "resumed   {journal/found_tiles} of {tiles/tasks} tiles found" : ""},
                shown);
  }

  /// Adds what the ranks did. The least traffic is that of A and B to all devices together; the memory of finished sums
  /// counts as cache.
  void end_report() {
    auto const& shape = tiles_.shape;
    std::vector<double> memories;
    for (auto const& rank : of_ranks_) memories.push_back(rank.at("memory_bytes"));
    report_["memory"]["least_traffic_bytes"] = min_traffic(shape, sizeof(Scalar), memories);
    report_.update({{"ranks", of_ranks_},
                    {"run_seconds", run_seconds_},
                    {"seconds", total_time_.seconds()},
                    {"fma", static_cast<double>(shape.rows) * static_cast<double>(shape.columns) *
                                static_cast<double>(shape.depth)},
                    {"hash", fmt::format("{:016x}", hash_)}});
  }

  void print_result() const {
    auto shown = report_;
    auto const& ranks = report_["ranks"];
    std::vector<std::string> tasks;
    for (auto const& rank : ranks) tasks.push_back(rank["tasks"].dump());
    if (tasks.size() > 1) shown["shares"] = list_of(tasks);
    shown["brought"] = sum(ranks, "/brought_bytes");
    shown["uncached"] = sum(ranks, "/bytes_without_cache");
    if (num_found_ == 0) {
      shown["least"] = report_["memory"]["least_traffic_bytes"];
      shown["rate"] = report_["fma"].get<double>() / run_seconds_;
    }
    print_lines({"ranks     tiles {shares}"}, shown);
    print_peers(ranks);
    print_lines({"traffic   {brought:B} brought to devices, {uncached:B} without a cache[, no less than {least:B}]",
                 "time      {run_seconds:s}, {seconds:s} with writing[; {rate:fma/s}]",
                 "product   {shape/rows} x {shape/columns}   hash {hash}"},
                shown);
  }

  void place_ranks() {
    ranks_.together([&] { backend_ = parse_backend(options_.backend); });
    auto const places = varve::place_ranks(ranks_, backend_, options_.share_devices == "on");
    devices_ = places.devices;
    auto const num_alike = num_ranks_with(ranks_, kind_of(places.own)); // collective, so before any condition
    are_alike_ = has_own_memory(backend_) && num_alike == static_cast<std::size_t>(ranks_.size());
    ranks_.together([&] {
      memory_limit_ = options_.device_memory_limit ? *options_.device_memory_limit
                                                   : default_product_memory(backend_, places.num_ranks_on_device);
    });
  }

  /// All ranks take the tile of the journal, else the smallest one that one of them would choose.
  void choose_tiles() {
    std::uint64_t tile = 0;
    std::uint64_t of_journal = 0; // 0: none
    ranks_.together([&] {
      tile = options_.tile ? *options_.tile : default_product_tile<Scalar>(tiles_.shape, backend_, memory_limit_);
      if (options_.journal.empty()) return;
      store_.emplace(options_.journal, ranks_.rank(), ranks_.size());
      auto const found = store_->found_run();
      if (!options_.tile && found.contains("tile") && found["tile"].is_number_unsigned()) of_journal = found["tile"];
      if (of_journal > largest_product_tile) of_journal = 0;
    });
    tile = std::ranges::min(ranks_.gather_everywhere({tile}));
    of_journal = std::ranges::max(ranks_.gather_everywhere({of_journal}));
    is_tile_of_journal_ = of_journal > 0;
    ranks_.together([&] { tiles_ = tiles_of(tiles_.shape, is_tile_of_journal_ ? of_journal : tile); });
  }

  /// Finds the tiles in the journal, if there is one.
  void find_finished() {
    if (!store_) return;
    resume(
        *store_, ranks_, [&] { return describe_run(options_, tiles_.tile); },
        [&](std::string_view record, std::string const& place) {
          return range_of_tile(tiles_, sizeof(Scalar), record, place);
        });
    ranks_.together([&] { store_->begin(); });
    num_found_ = ranks_.sum(std::uint64_t{store_->ranges().size()});
    num_discarded_bytes_ = ranks_.sum(store_->num_discarded_bytes());
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
    auto const& shape = tiles_.shape;
    auto const precision = sizeof(Scalar) == 4 ? Precision::single_precision : Precision::double_precision;
    std::string place;
    ranks_.on_root([&] {
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

  void make_engine() {
    ProductInputs<Scalar> const inputs{[this](MatrixBlock const& block, Scalar* values) { a_->read(block, values); },
                                       [this](MatrixBlock const& block, Scalar* values) { b_->read(block, values); },
                                       options_.transposes('a'), options_.transposes('b')};
    auto const way = options_.product == "library" ? ProductWay::library : ProductWay::own;
    try {
      engine_ = std::make_unique<ProductEngine<Scalar>>(backend_, tiles_, memory_limit_, inputs, way);
    } catch (ResourceError const& error) {
      if (!is_tile_of_journal_) throw;
      fail<ResourceError>("{}; its tiles are those of the journal {}", error.what(), options_.journal);
    }
  }

  /// The tasks that are left, in the order that suits the rank with the narrowest bands.
  void order_tasks() {
    auto const& mine = engine_->memory().order;
    auto const words = ranks_.gather_everywhere(
        {4 * std::uint64_t{mine.band} + (mine.is_of_columns ? 2U : 0U) + (mine.stays ? 1U : 0U)});
    std::uint64_t narrowest = 0; // ranks without bands take any order
    for (auto const word : words)
      if (word >= 4 && (narrowest == 0 || word < narrowest)) narrowest = word;
    ProductOrder const order{static_cast<std::size_t>(narrowest / 4), narrowest / 2 % 2 == 1, narrowest % 2 == 1};
    left_ = tasks_left(ranks_, order_of_tasks(tiles_, order), store_ ? store_->ranges() : std::vector<SampleRange>());
    auto const num_lanes = std::ranges::min(ranks_.gather_everywhere({std::uint64_t{engine_->memory().num_lanes}}));
    if (order.band > 0) run_length_ = std::min(max_in_run, order.stays ? order.band : std::size_t{num_lanes});
    num_tasks_ = num_found_ + left_.size();
    ranks_.on_root([&] {
      begin_report();
      print_head();
      flush_output();
    });
  }

  void compute() {
    auto const progress = ranks_.is_root() ? terminal_progress("multiplying tiles") : Progress();
    std::optional<TileSharing> sharing;
    if (ranks_.size() > 1 && options_.peer_tiles == "on") sharing.emplace(ranks_, *engine_);
    TileQueue queue(ranks_, left_, are_alike_, ranks_.size() == 1 ? 1 : run_length_);
    auto const next = [&]() -> std::optional<std::uint64_t> {
      if (!options_.journal.empty() && StopSignal::has_come()) return std::nullopt;
      if (progress) progress(num_found_ + queue.num_taken(), num_tasks_);
      auto const num_kept = [&](std::uint64_t one) {
        return ranks_.size() == 1 ? std::uint64_t{0} : engine_->num_kept(one); // one rank keeps to the order
      };
      return queue.next(num_kept, num_finished_);
    };
    Stopwatch const time;
    double seconds = 0.0; // until this rank found no further task
    ranks_.together([&] {
      engine_->run(next, [&](std::uint64_t task, TileSums<Scalar> const& sums) { take(task, sums); });
      seconds = time.seconds();
    });
    run_seconds_ = ranks_.max(seconds);
    if (progress) progress(num_tasks_, num_tasks_);
    auto const traffic = engine_->traffic();
    bool const has_events = !options_.report.empty();
    of_ranks_ =
        gather_json(ranks_, {{"tasks", num_finished_.load()},
                             {"seconds", seconds},
                             {"memory_bytes", engine_->memory().bytes()},
                             {"hits", traffic.num_hits},
                             {"misses", traffic.num_misses},
                             {"brought_bytes", traffic.loaded_bytes},
                             {"bytes_without_cache", traffic.all_bytes},
                             {"tile_cache", cache_of(traffic, sharing ? sharing->peers() : std::vector<TilePeer>())},
                             {"read_seconds", traffic.read_seconds},
                             {"wait_seconds", traffic.wait_seconds},
                             {"finish_seconds", traffic.take_seconds},
                             {"events", has_events ? describe(engine_->timeline()) : Json::array()},
                             {"dropped_events", has_events ? engine_->timeline().num_dropped() : 0}});
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
      hash_ += hash;
    }
    ++num_finished_;
  }

  /// Writes the output, the report and the last lines.
  void finish() {
    ranks_.together(require_unchanged_inputs);
    if (store_) write_stored();
    hash_ = ranks_.sum(hash_);
    ranks_.together([&] {
      if (output_ && !ranks_.is_root()) output_->finish();
    });
    ranks_.on_root([&] {
      if (output_) output_->commit(hash_);
    });
    ranks_.on_root([&] {
      end_report();
      if (!options_.report.empty()) write_report(options_.report, report_);
      print_result(); // last: a failure to print loses no output
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
    auto const block = tiles_.block(task_of_record(record));
    auto const bytes = numbers_of_record(record);
    values_.resize(static_cast<std::size_t>(block.size()));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(values_.data()));
    output_->write(block, values_.data());
    hash_ += hash_of_block(block, values_.data());
  }

  MultiplyOptions const& options_;
  ProductScaling scaling_;
  Communicator const ranks_;
  Stopwatch const total_time_;
  Json report_ = report_head("varve multiply"); ///< on rank 0
  ProductTiles tiles_;
  std::vector<RankDevice> devices_;
  std::vector<Json> of_ranks_;  ///< what each did
  std::uint64_t num_tasks_ = 0; ///< tiles, found and computed
  std::uint64_t num_found_ = 0; ///< tiles that the journal held
  std::uint64_t num_discarded_bytes_ = 0;
  double run_seconds_ = 0.0;
  std::uint64_t hash_ = 0;
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
  auto [command, options] = add_command<MultiplyOptions>(
      command_line, action, "multiply", "Multiply dense matrices of any size: C = alpha A B", multiply, true, true);
  add_options(command, options);
}

} // namespace varve
