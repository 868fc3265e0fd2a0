// One kind of rewriting. A pass changes the graph where it can prove by looking that results stay the same, and says
// what it did.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "portwright/graph.h"
#include "portwright/simplify.h"

namespace portwright {

class Rewriting {
 public:
  explicit Rewriting(const SimplifyOptions& options) : options_(options) {}
  const SimplifyOptions& options() const { return options_; }
  // Notes a change of the pass that runs.
  template <class... Values>
  void did(fmt::format_string<Values...> form, Values&&... values) {
    details_.push_back(fmt::format(form, std::forward<Values>(values)...));
  }
  std::vector<std::string> take() { return std::exchange(details_, {}); }

 private:
  const SimplifyOptions& options_;
  std::vector<std::string> details_;
};

struct Pass {
  const char* name;
  const char* summary;
  Status (*run)(Graph& graph, Rewriting& rewriting);
};

// In the order in which a round runs them.
const std::vector<Pass>& all_passes();

Status constants_to_initializers(Graph& graph, Rewriting& rewriting);
Status fold_shapes(Graph& graph, Rewriting& rewriting);
Status fix_reshapes(Graph& graph, Rewriting& rewriting);
Status fold_constants(Graph& graph, Rewriting& rewriting);
Status inline_branches(Graph& graph, Rewriting& rewriting);
Status remove_no_ops(Graph& graph, Rewriting& rewriting);
Status merge_chains(Graph& graph, Rewriting& rewriting);
Status merge_duplicate_constants(Graph& graph, Rewriting& rewriting);
Status merge_duplicate_nodes(Graph& graph, Rewriting& rewriting);
Status fold_batchnorm(Graph& graph, Rewriting& rewriting);
Status fold_factor(Graph& graph, Rewriting& rewriting);
Status fold_bias(Graph& graph, Rewriting& rewriting);
Status make_gemm(Graph& graph, Rewriting& rewriting);
Status fuse_layer_norm(Graph& graph, Rewriting& rewriting);
Status fuse_rms_norm(Graph& graph, Rewriting& rewriting);
Status fuse_gelu(Graph& graph, Rewriting& rewriting);
Status fuse_attention(Graph& graph, Rewriting& rewriting);
Status remove_unused(Graph& graph, Rewriting& rewriting);

// --- what several passes ask

// Same dtype and same dimensions, each a number or a symbol.
bool same_type(const Graph& graph, ValueId a, ValueId b);
// An int64 vector as a new constant.
ValueId add_integers(Graph& graph, const std::string& hint, const std::vector<std::int64_t>& values);
// Dimensions that Reshape can be given as a constant to turn `from` into a shape: numbers, 0 where a dimension is that
// of `from` at the same place, and at most one -1. nullopt when that does not say it all, or a dimension is empty.
std::optional<std::vector<std::int64_t>> reshape_target(const Graph& graph, ValueId from, ValueId to);
// The order of axes of a Transpose, where it says one that is a permutation.
std::optional<std::vector<std::int64_t>> permutation(const Graph& graph, NodeId transpose);
// A Transpose that leaves the order of elements alone: it moves only axes of size 1.
bool only_moves_ones(const Graph& graph, NodeId node);
// The constant does not change the shape of what it is combined with: it broadcasts into `value`.
bool broadcasts_into(const Graph& graph, ValueId constant, ValueId value);
// The one node that reads a value, which is no output; none otherwise.
NodeId only_reader(const Graph& graph, ValueId value);
// Lets readers of the node's output read `with`, and erases the node if nothing reads it any more.
bool bypass(Graph& graph, NodeId node, ValueId with);
// Draws, trains or keeps state: running it twice or never is not the same.
bool is_pure(const Graph& graph, NodeId node);

}  // namespace portwright
