#include "model/guarded_schemas.h"

#include <onnx/defs/shape_inference.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace portwright {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Letters, with one "..." among them. Inference of ONNX 1.23 never passes any other character.
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

// Axes are narrowed to 32 bits unseen (LayerNormalization of ONNX 1.23 then writes beyond the shape).
void look_at_axes(const onnx::InferenceContext& context) {
  const auto fits = [](std::int64_t axis) {
    return axis >= std::numeric_limits<std::int32_t>::min() && axis <= std::numeric_limits<std::int32_t>::max();
  };
  for (const char* name : {"axis", "axes"}) {
    const auto* attribute = context.getAttribute(name);
    if (attribute == nullptr) continue;
    if (!fits(attribute->i()) || !std::all_of(attribute->ints().begin(), attribute->ints().end(), fits))
      fail_shape_inference("Attribute ", name, " names an axis that no tensor has");
  }
}

// Inference takes these operators' first input for typed, which it need not be.
bool takes_type_for_granted(const std::string& op) {
  static constexpr std::string_view kOps[] = {"EyeLike", "RegexFullMatch", "LabelEncoder"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

void guarded(const std::string& op, const onnx::InferenceFunction& inference, onnx::InferenceContext& context) {
  if (op == "Einsum")
    if (const auto* equation = context.getAttribute("equation"); equation && !has_sound_terms(equation->s()))
      fail_shape_inference("The equation has something else than letters, commas and '...'");
  if (takes_type_for_granted(op) && (context.getNumInputs() == 0 || context.getInputType(0) == nullptr)) return;
  look_at_axes(context);
  inference(context);
}

class GuardedSchemas final : public onnx::ISchemaRegistry {
 public:
  const onnx::OpSchema* GetSchema(const std::string& key, int version, const std::string& domain) const override {
    const onnx::OpSchema* plain = onnx::OpSchemaRegistry::Instance()->GetSchema(key, version, domain);
    if (plain == nullptr || !needs_guard(*plain)) return plain;
    const std::lock_guard lock(mutex_);
    auto& copy = copies_[plain];
    if (!copy) {
      copy = std::make_unique<onnx::OpSchema>(*plain);
      copy->TypeAndShapeInferenceFunction([op = plain->Name(), inference = plain->GetTypeAndShapeInferenceFunction()](
                                              onnx::InferenceContext& context) { guarded(op, inference, context); });
    }
    return copy.get();
  }

 private:
  static bool needs_guard(const onnx::OpSchema& schema) {
    const auto& attributes = schema.attributes();
    return schema.Name() == "Einsum" || takes_type_for_granted(schema.Name()) || attributes.contains("axis") ||
           attributes.contains("axes");
  }

  static std::unique_ptr<onnx::OpSchema> copy_with_guard(const onnx::OpSchema& schema) {
    auto copy = std::make_unique<onnx::OpSchema>(schema);
    copy->TypeAndShapeInferenceFunction([op = schema.Name(), inference = schema.GetTypeAndShapeInferenceFunction()](
                                            onnx::InferenceContext& context) { guarded(op, inference, context); });
    return copy;
  }

  mutable std::mutex mutex_;
  mutable std::unordered_map<const onnx::OpSchema*, std::unique_ptr<onnx::OpSchema>> copies_;  // null: needs none
};

}  // namespace

const onnx::ISchemaRegistry& guarded_schemas() {
  static const GuardedSchemas schemas;
  return schemas;
}

}  // namespace portwright
