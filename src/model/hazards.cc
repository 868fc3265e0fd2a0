#include "model/hazards.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>

#include "model/origin.h"
#include "model/tensors.h"

namespace portwright {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Letters, with one "..." among them. Shape inference of ONNX 1.23 never passes any other character.
bool is_term(std::string_view term) {
  if (const auto dots = term.find("..."); dots != std::string_view::npos)
    return is_term(term.substr(0, dots)) && std::all_of(term.begin() + dots + 3, term.end(), is_letter);
  return std::all_of(term.begin(), term.end(), is_letter);
}

// The left side of an Einsum equation; spaces mean nothing.
bool has_sound_terms(std::string equation) {
  std::erase_if(equation, [](unsigned char c) { return std::isspace(c) != 0; });
  std::string_view left = std::string_view(equation).substr(0, equation.find("->"));
  for (;;) {
    const auto comma = left.find(',');
    if (!is_term(left.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    left.remove_prefix(comma + 1);
  }
}

// Numbers of axes, which inference of several operators (LayerNormalization, for one) narrows to 32 bits unseen.
bool has_sound_axes(const onnx::AttributeProto& attribute) {
  const auto fits = [](std::int64_t axis) {
    return axis >= std::numeric_limits<std::int32_t>::min() && axis <= std::numeric_limits<std::int32_t>::max();
  };
  if (attribute.name().find("ax") == std::string::npos) return true;
  return fits(attribute.i()) && std::all_of(attribute.ints().begin(), attribute.ints().end(), fits);
}

class Attributes {
 public:
  explicit Attributes(const onnx::ModelProto& model) : model_(model) {
    for (const auto& function : model.functions())
      for_each_node(function.node(), [&](const onnx::NodeProto& node) {
        if (node.op_type() != "Einsum") return;
        for (const auto& attribute : node.attribute())
          if (attribute.name() == "equation" && !attribute.ref_attr_name().empty())
            names_.insert(attribute.ref_attr_name());
      });
  }

  Status check() {
    const auto visit = [&](const onnx::NodeProto& node) { look_at(node.attribute(), label_of(node)); };
    for_each_node(model_.graph().node(), visit);
    for (const auto& function : model_.functions()) {
      look_at(function.attribute_proto(), function.name());
      for_each_node(function.node(), visit);
    }
    return std::move(status_);
  }

 private:
  template <class Nodes, class Visit>
  static void for_each_node(const Nodes& nodes, const Visit& visit) {
    for (const auto& node : nodes) {
      visit(node);
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) for_each_node(attribute.g().node(), visit);
        for (const auto& graph : attribute.graphs()) for_each_node(graph.node(), visit);
      }
    }
  }

  template <class List>
  void look_at(const List& attributes, const std::string& where) {
    for (const auto& attribute : attributes) {
      if (names_.contains(attribute.name()) && !has_sound_terms(attribute.s()))
        refuse(where, "an Einsum equation with something else than letters, commas and '...'",
               "write the equation with letters: \"bij,bjk->bik\"");
      if (!has_sound_axes(attribute)) refuse(where, "an axis that is none of any tensor", "export the model again");
    }
  }

  void refuse(const std::string& where, const std::string& what, const std::string& hint) {
    status_ = fail({Fault::input, "load", "bad_attribute", "'" + where + "' has " + what, where, hint, ""});
  }

  const onnx::ModelProto& model_;
  std::set<std::string> names_{"equation"};  // and those that functions hand on
  Status status_;
};

}  // namespace

Status check_hazards(const onnx::ModelProto& model) { return Attributes(model).check(); }

}  // namespace portwright
