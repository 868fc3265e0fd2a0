#include "model/points.h"

#include <algorithm>
#include <set>

#include "model/origin.h"
#include "model/tensors.h"
#include "model/types.h"

namespace portwright {
namespace {

using Point = Sizes;

constexpr std::int64_t kTried[] = {1, 2, 3, 4};
constexpr std::size_t kFrozen = 3;  // failures among them

struct Failure {
  std::string node, received;
  std::vector<Point> at;
};

std::string text(const Point& point) {
  std::string out;
  for (const auto& [symbol, size] : point) out += (out.empty() ? "" : ",") + symbol + "=" + std::to_string(size);
  return out;
}

class Points {
 public:
  Points(const onnx::ModelProto& model, const Inferred& symbolic) : model_(model) {
    for (const NodeProblem& problem : symbolic.problems()) known_.insert(problem.node);
  }

  void look_at(const Point& point) {
    const Inferred types = infer(model_, Declared::dropped, point);
    std::map<std::string, std::string> problems;
    for (const NodeProblem& problem : types.problems()) problems.emplace(problem.node, problem.message);
    for (const auto& node : model_.graph().node()) {
      const std::string label = label_of(node);
      if (known_.contains(label)) continue;
      std::string received = wrong_volume(node, types);
      if (const auto found = problems.find(label); received.empty() && found != problems.end())
        received = found->second;
      if (!received.empty()) return note(label, std::move(received), point);  // what comes after follows from it
    }
  }

  // At how many points the node fails that fails most often.
  std::size_t most() const {
    std::size_t out = 0;
    for (const Failure& failure : failures_) out = std::max(out, failure.at.size());
    return out;
  }

  std::vector<Failure> take() { return std::move(failures_); }

 private:
  // A Reshape into another number of elements, which inference lets pass.
  static std::string wrong_volume(const onnx::NodeProto& node, const Inferred& types) {
    if (node.op_type() != "Reshape" || node.input_size() == 0 || node.output_size() == 0) return {};
    const auto *from = types.type(node.input(0)), *to = types.type(node.output(0));
    const auto before = static_elements(from), after = static_elements(to);
    return before && after && *before != *after ? type_text(*from) + " into " + type_text(*to) : std::string();
  }

  void note(const std::string& node, std::string received, const Point& point) {
    auto found = std::find_if(failures_.begin(), failures_.end(), [&](const Failure& one) { return one.node == node; });
    if (found == failures_.end()) found = failures_.insert(failures_.end(), {node, std::move(received), {}});
    found->at.push_back(point);
  }

  const onnx::ModelProto& model_;
  std::set<std::string> known_;
  std::vector<Failure> failures_;
};

Finding finding(const Failure& failure) {
  std::string sizes;
  for (const Point& point : failure.at) sizes += (sizes.empty() ? "" : " and ") + text(point);
  return {Severity::error,
          "shape_at_size",
          failure.node,
          "the shapes do not work out at " + sizes,
          "shapes that follow the dynamic axes",
          failure.received,
          "a size of the example is frozen into the graph: take it from the tensor (x.shape, -1) and export again"};
}

// Symbols of the first axis of an input: batches, mostly, and every size of one must do.
std::set<std::string> first_symbols(const onnx::GraphProto& graph) {
  std::set<std::string> out;
  for (const auto& input : graph.input()) {
    const auto& shape = input.type().tensor_type().shape();
    if (shape.dim_size() > 0 && !shape.dim(0).dim_param().empty()) out.insert(shape.dim(0).dim_param());
  }
  return out;
}

}  // namespace

std::vector<Finding> check_points(const onnx::ModelProto& model, const Inferred& symbolic,
                                  const std::vector<std::map<std::string, std::int64_t>>& sizes) {
  std::vector<Finding> out;
  const auto flat = without_functions(model);
  if (!flat) return out;
  const auto look = [&](const std::vector<Point>& points, std::size_t least) {
    Points looking(**flat, symbolic);
    for (std::size_t done = 0; done < points.size(); ++done) {
      if (looking.most() + (points.size() - done) < least) return;  // too few are left to tell
      looking.look_at(points[done]);
    }
    for (const Failure& failure : looking.take())
      if (failure.at.size() >= least) out.push_back(finding(failure));
  };
  if (!sizes.empty()) {
    look(sizes, 1);
    return out;
  }
  for (const std::string& symbol : first_symbols((*flat)->graph())) {
    std::vector<Point> points;
    for (const std::int64_t size : kTried) points.push_back({{symbol, size}});
    look(points, kFrozen);
  }
  return out;
}

}  // namespace portwright
