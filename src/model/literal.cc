// Sizes of the example that are frozen into the graph.
//
// A model that was exported at batch 8 with a Reshape to [8, 512] works at batch 8 only. Each symbol is set to other
// sizes than the example's, and inference is asked what the shapes then are. A frozen size contradicts every other one,
// which tells it from a model that only wants multiples (a U-Net) or has a largest size (a position table).
#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "model/impl.h"
#include "model/inference.h"
#include "model/origin.h"
#include "model/tensors.h"
#include "model/types.h"
#include "model/uses.h"

namespace portwright {
namespace {

// One symbol at another size than the example's.
struct Trial {
  std::string symbol;
  std::int64_t example = 0, size = 0;
};

struct Blame {
  const onnx::NodeProto* node = nullptr;
  std::string received;
};
using Blames = std::map<int, Blame>;  // by the node's index, so that the first comes first

class LiteralSizes {
 public:
  LiteralSizes(const onnx::ModelProto& model, Sizes example)
      : model_(model), example_(std::move(example)), uses_(model.graph()), at_example_(at(example_)) {
    const auto& nodes = model_.graph().node();
    for (int i = 0; i < nodes.size(); ++i) {
      index_[&nodes.Get(i)] = i;
      by_label_.emplace(label_of(nodes.Get(i)), &nodes.Get(i));
    }
  }

  std::vector<Finding> run() {
    std::vector<Finding> out;
    for (const auto& [symbol, size] : example_)
      for (const auto& [index, blame] : frozen(symbol, size)) out.push_back(finding(symbol, size, blame));
    return out;
  }

 private:
  Inferred at(const Sizes& sizes) const { return infer(model_, Declared::dropped, sizes); }

  // Nodes that freeze the symbol: those that are to blame at every other size.
  Blames frozen(const std::string& symbol, std::int64_t size) const {
    std::set<std::int64_t> others = {size + 1, size * 2 + (size == 1 ? 1 : 0)};
    if (size >= 3) others.insert(size - 1);
    std::optional<Blames> common;
    for (const std::int64_t other : others) {
      Blames blames = blamed({symbol, size, other});
      if (common) std::erase_if(blames, [&](const auto& entry) { return !common->contains(entry.first); });
      common = std::move(blames);
      if (common->empty()) break;
    }
    return common.value_or(Blames());
  }

  Blames blamed(const Trial& trial) const {
    Sizes sizes = example_;
    sizes[trial.symbol] = trial.size;
    const Inferred types = at(sizes);
    Blames out;
    reshapes(types, out);
    contradictions(types, trial, out);
    declared(model_.graph().output(), types, trial, out);
    declared(model_.graph().value_info(), types, trial, out);
    return out;
  }

  void add(const onnx::NodeProto& node, std::string received, Blames& out) const {
    out.emplace(index_.at(&node), Blame{&node, std::move(received)});
  }

  // A Reshape that changes the number of elements; ONNX's inference does not look.
  void reshapes(const Inferred& types, Blames& out) const {
    for (const auto& node : model_.graph().node()) {
      if (node.op_type() != "Reshape" || node.input_size() == 0 || node.output_size() == 0) continue;
      const auto before = static_elements(types.type(node.input(0))),
                 after = static_elements(types.type(node.output(0)));
      const bool sound =
          static_elements(at_example_.type(node.input(0))) == static_elements(at_example_.type(node.output(0)));
      if (before && after && *before != *after && sound)
        add(node, type_text(*types.type(node.input(0))) + " into " + type_text(*types.type(node.output(0))), out);
    }
  }

  // Nodes that inference rejects at this size and accepts at the example's.
  void contradictions(const Inferred& types, const Trial& trial, Blames& out) const {
    for (const auto& problem : types.problems()) {
      const auto& known = at_example_.problems();
      const auto same_node = [&](const NodeProblem& each) { return each.node == problem.node; };
      const auto found = by_label_.find(problem.node);
      if (found == by_label_.end() || std::any_of(known.begin(), known.end(), same_node)) continue;
      const auto& guilty = culprit(*found->second, trial);
      add(guilty, guilty_text(guilty, trial) + "; " + label_of(*found->second) + " then fails: " + problem.message,
          out);
    }
  }

  // Values that are declared to follow the symbol and do not.
  template <class Infos>
  void declared(const Infos& infos, const Inferred& types, const Trial& trial, Blames& out) const {
    for (const auto& info : infos) {
      const auto* node = uses_.producer(info.name());
      const auto* type = types.type(info.name());
      if (node == nullptr || type == nullptr) continue;
      const auto &a = info.type().tensor_type().shape(), &b = type->tensor_type().shape();
      for (int i = 0; i < std::min(a.dim_size(), b.dim_size()); ++i) {
        if (a.dim(i).dim_param() != trial.symbol || !b.dim(i).has_dim_value() || b.dim(i).dim_value() != trial.example)
          continue;
        const auto& guilty = culprit(*node, trial);
        add(guilty,
            guilty_text(guilty, trial) + "; axis " + std::to_string(i) + " of '" + info.name() + "' stays " +
                std::to_string(trial.example),
            out);
      }
    }
  }

  // The nearest node at or before this one with the example's size among its literal numbers; else the node itself.
  const onnx::NodeProto& culprit(const onnx::NodeProto& from, const Trial& trial) const {
    std::deque<const onnx::NodeProto*> queue = {&from};
    std::unordered_set<const onnx::NodeProto*> seen = {&from};
    while (!queue.empty()) {
      const auto* node = queue.front();
      queue.pop_front();
      const auto numbers = literals(*node);
      if (std::find(numbers.begin(), numbers.end(), trial.example) != numbers.end()) return *node;
      for (const auto& input : node->input())
        if (const auto* before = uses_.producer(input); before != nullptr && seen.insert(before).second)
          queue.push_back(before);
    }
    return from;
  }

  // Numbers that a node takes as a shape, a size or an end.
  std::vector<std::int64_t> literals(const onnx::NodeProto& node) const {
    static const std::set<std::string_view> kNodes = {"Reshape", "Expand", "Tile",   "ConstantOfShape",
                                                      "Slice",   "Split",  "Resize", "Range"};
    static const std::set<std::string_view> kAttributes = {"shape", "ends", "split", "sizes"};
    std::vector<std::int64_t> out;
    if (!kNodes.contains(node.op_type())) return out;
    for (const auto& input : node.input()) {
      const auto* tensor = uses_.constant(input);
      if (const auto values = tensor == nullptr ? std::nullopt : integers_of(*tensor))
        out.insert(out.end(), values->begin(), values->end());
    }
    for (const auto& attribute : node.attribute())
      if (kAttributes.contains(attribute.name()))
        out.insert(out.end(), attribute.ints().begin(), attribute.ints().end());
    return out;
  }

  std::string guilty_text(const onnx::NodeProto& node, const Trial& trial) const {
    const auto numbers = literals(node);
    return numbers.empty() ? "the size " + std::to_string(trial.example)
                           : node.op_type() + " with " + to_string(numbers);
  }

  Finding finding(const std::string& symbol, std::int64_t size, const Blame& blame) const {
    const NodeOrigin origin = origin_of(*blame.node);
    Finding out{Severity::error, "literal_size", origin.node, "", "", "", ""};
    out.message = origin.op_type + " '" + origin.node + "' freezes '" + symbol + "' at the example's size " +
                  std::to_string(size);
    if (!origin.python_line.empty()) out.message += " [" + origin.python_line + "]";
    out.expected = "a size that follows '" + symbol + "'";
    out.received = blame.received;
    out.hint = "take the size from the tensor (x.shape, x.size(), -1) where the code has a number, then export again";
    return out;
  }

  const onnx::ModelProto& model_;
  const Sizes example_;
  const Uses uses_;
  const Inferred at_example_;
  std::unordered_map<const onnx::NodeProto*, int> index_;
  std::unordered_map<std::string, const onnx::NodeProto*> by_label_;
};

}  // namespace

std::vector<Finding> Model::literal_sizes(const std::map<std::string, std::int64_t>& example) const {
  const auto model = without_functions(impl_->proto);
  if (!model) return {};  // not a sound model: check() says why
  Sizes known;
  for (const auto& [symbol, unused] : symbols_of(**model, 1))
    if (const auto found = example.find(symbol); found != example.end() && found->second > 0) known.insert(*found);
  return LiteralSizes(**model, std::move(known)).run();
}

}  // namespace portwright
