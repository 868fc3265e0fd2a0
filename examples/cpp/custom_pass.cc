// A pass of one's own: x * sigmoid(x) becomes Swish, which opset 24 has.
//
//     custom_pass MODEL OUT
#include <cstdio>

#include "portwright/graph.h"

using namespace portwright;

int fuse_swish(Graph& graph) {
  int found = 0;
  for (const NodeId product : graph.nodes()) {
    if (!graph.is(product, "Mul")) continue;
    for (const std::size_t slot : {0U, 1U}) {
      const NodeId sigmoid = graph.producer(graph.input(product, slot));
      const ValueId x = graph.input(product, 1 - slot);
      if (!graph.is(sigmoid, "Sigmoid") || graph.input(sigmoid, 0) != x) continue;
      const NodeId swish = graph.insert_before(product, {.op = "Swish", .inputs = {x}, .like = product});
      graph.replace(graph.output(product, 0), graph.output(swish, 0));
      graph.erase(product);
      ++found;
      break;
    }
  }
  graph.sweep();
  return found;
}

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: custom_pass MODEL OUT\n"), 2;
  const auto model = Model::load(argv[1]);
  if (!model) return std::fprintf(stderr, "%s\n", model.error().message.c_str()), 1;
  Graph graph(*model);
  if (graph.opset() < 24) return std::fprintf(stderr, "Swish needs opset 24\n"), 1;
  std::printf("%d fused\n", fuse_swish(graph));
  const auto saved = graph.model().save(argv[2], model->stored_as());
  return saved ? 0 : (std::fprintf(stderr, "%s\n", saved.error().message.c_str()), 1);
}
