#include "portwright/inputs.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/random.h"

namespace portwright {
namespace {

Error option_error(const char* code, const std::string& option, const std::string& text, const std::string& why,
                   const char* form) {
  return {Fault::usage,
          "arguments",
          code,
          option + " '" + text + "': " + why,
          text,
          std::string("the form is ") + form,
          ""};
}

constexpr const char* kInputForm = "NAME:SHAPE[:DTYPE][:VALUES], for example x:1x3x224x224:float32:normal";
constexpr const char* kDynamicForm = "NAME.AXIS=SYMBOL[:MIN..OPT..MAX], for example x.0=batch:1..8..32";

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at; (at = text.find(separator, from)) != std::string::npos; from = at + separator.size())
    parts.push_back(text.substr(from, at - from));
  parts.push_back(text.substr(from));
  return parts;
}

std::optional<Shape> parse_shape(const std::string& text) {
  Shape shape;
  if (text == "scalar") return shape;
  for (const auto& part : split(text, "x")) {
    const auto dim = integer(part);
    if (!dim || *dim < 0) return std::nullopt;
    shape.push_back(*dim);
  }
  return element_count(shape) ? std::optional(shape) : std::nullopt;
}

// The example's size of one axis.
std::int64_t example_size(const std::vector<InputSpec>& specs, const DynamicAxis& axis) {
  if (axis.opt > 0) return axis.opt;
  for (const InputSpec& spec : specs)
    if (spec.name == axis.input && axis.axis < static_cast<int>(spec.shape.size()))
      return spec.shape[static_cast<std::size_t>(axis.axis)];
  return 1;
}

std::int64_t odd_size(std::int64_t low, std::int64_t high, std::int64_t example) {
  std::int64_t odd = std::max<std::int64_t>({low, 3, example / 2});
  if (odd % 2 == 0) ++odd;
  if (odd == example) odd += 2;
  return odd > high && high > 0 ? high : odd;
}

Error bad_axis(const DynamicAxis& axis, const std::string& why, const std::vector<InputSpec>& specs) {
  std::string known;
  for (const InputSpec& spec : specs) known += (known.empty() ? "" : ", ") + spec.name + to_string(spec.shape);
  return {Fault::usage,
          "arguments",
          "bad_dynamic_option",
          "--dynamic " + to_string(axis) + ": " + why,
          axis.input,
          "the inputs are " + known,
          ""};
}

Status check_axes(const ModelInputs& inputs) {
  for (const DynamicAxis& axis : inputs.dynamic) {
    const auto spec = std::find_if(inputs.specs.begin(), inputs.specs.end(),
                                   [&](const InputSpec& s) { return s.name == axis.input; });
    if (spec == inputs.specs.end())
      return fail(bad_axis(axis, "no input is called '" + axis.input + "'", inputs.specs));
    if (axis.axis >= static_cast<int>(spec->shape.size()))
      return fail(bad_axis(axis, "'" + axis.input + "' has no axis " + std::to_string(axis.axis), inputs.specs));
  }
  return {};
}

}  // namespace

Result<InputSpec> parse_input(const std::string& text) {
  const auto bad = [&](const std::string& why) {
    return fail(option_error("bad_input_option", "--input", text, why, kInputForm));
  };
  const auto parts = split(text, ":");
  if (parts.size() < 2 || parts[0].empty()) return bad("a name and a shape are needed");
  InputSpec spec;
  spec.name = parts[0];
  const auto shape = parse_shape(parts[1]);
  if (!shape) return bad("'" + parts[1] + "' is not a shape");
  spec.shape = *shape;
  std::size_t next = 2;
  if (parts.size() > next)
    if (const auto dtype = dtype_from(parts[next])) {
      spec.dtype = *dtype;
      ++next;
    }
  if (parts.size() > next) spec.values = parts[next++];
  if (parts.size() > next) return bad("too many parts");
  if (!spec.values.empty())
    if (auto values = parse_values(spec.values); !values) return fail(values.error());
  return spec;
}

Result<DynamicAxis> parse_dynamic(const std::string& text) {
  const auto bad = [&](const std::string& why) {
    return fail(option_error("bad_dynamic_option", "--dynamic", text, why, kDynamicForm));
  };
  const auto equals = text.find('=');
  if (equals == std::string::npos) return bad("no '='");
  const std::string place = text.substr(0, equals), rest = text.substr(equals + 1);
  const auto dot = place.rfind('.');
  const auto number = dot == std::string::npos ? std::nullopt : integer(place.substr(dot + 1));
  if (!number || *number < 0) return bad("'" + place + "' does not name an axis");
  DynamicAxis axis{place.substr(0, dot), static_cast<int>(*number), rest.substr(0, rest.find(':')), 1, 0, 0};
  if (axis.symbol.empty()) return bad("no symbol behind '='");
  if (rest.find(':') == std::string::npos) return axis;
  const auto bounds = split(rest.substr(rest.find(':') + 1), "..");
  const auto low = integer(bounds.front()), high = integer(bounds.back());
  const auto best = bounds.size() == 3 ? integer(bounds[1]) : std::optional<std::int64_t>(0);
  if (bounds.size() < 2 || bounds.size() > 3 || !low || !high || !best) return bad("the range is not MIN..OPT..MAX");
  if (*low < 1 || *high < *low || (bounds.size() == 3 && (*best < *low || *best > *high)))
    return bad("the range is not ordered: 1 <= MIN <= OPT <= MAX");
  axis.min = *low;
  axis.opt = *best;
  axis.max = *high;
  return axis;
}

std::string to_string(const DynamicAxis& axis) {
  std::string text = axis.input + "." + std::to_string(axis.axis) + "=" + axis.symbol;
  if (axis.max > 0)
    text += ":" + std::to_string(axis.min) + ".." + (axis.opt > 0 ? std::to_string(axis.opt) + ".." : "") +
            std::to_string(axis.max);
  return text;
}

Size ModelInputs::example() const {
  Size size;
  for (const DynamicAxis& axis : dynamic) size.try_emplace(axis.symbol, example_size(specs, axis));
  return size;
}

std::vector<Size> ModelInputs::sizes() const {
  const Size base = example();
  std::vector<Size> all{base};
  for (const DynamicAxis& axis : dynamic) {
    const std::int64_t usual = base.at(axis.symbol);
    const std::int64_t high = axis.max > 0 ? axis.max : std::max<std::int64_t>(usual * 2, 4);
    for (const std::int64_t wanted :
         {axis.min, std::int64_t{1}, std::int64_t{2}, odd_size(axis.min, high, usual), high}) {
      if (wanted < axis.min || wanted > high) continue;
      Size size = base;
      size[axis.symbol] = wanted;
      if (std::find(all.begin(), all.end(), size) == all.end()) all.push_back(size);
    }
  }
  return all;
}

std::vector<InputSpec> ModelInputs::at(const Size& size) const {
  std::vector<InputSpec> sized = specs;
  for (const DynamicAxis& axis : dynamic)
    for (InputSpec& spec : sized)
      if (const auto it = size.find(axis.symbol); spec.name == axis.input && it != size.end())
        spec.shape[static_cast<std::size_t>(axis.axis)] = it->second;
  return sized;
}

Result<Tensors> ModelInputs::generate(const Size& size, std::uint64_t seed, std::uint64_t case_index) const {
  Tensors tensors;
  for (const InputSpec& spec : at(size)) {
    Values values = default_values(spec.dtype);
    if (!spec.values.empty()) {
      PW_TRY(parsed, parse_values(spec.values));
      values = parsed;
    }
    PW_TRY(tensor, portwright::generate(spec.dtype, spec.shape, values, seed, case_index, spec.name));
    tensors.push_back({spec.name, tensor});
  }
  return tensors;
}

Result<ModelInputs> inputs_of(const Model& model, const std::vector<InputSpec>& overrides,
                              const std::vector<DynamicAxis>& dynamic) {
  constexpr std::int64_t kFallback = 2;  // an example size of 1 would hide broadcasting mistakes
  ModelInputs inputs;
  std::set<std::string> known;
  for (const ValueInfo& info : model.inputs()) {
    known.insert(info.name);
    const auto given =
        std::find_if(overrides.begin(), overrides.end(), [&](const InputSpec& s) { return s.name == info.name; });
    if (!info.dtype)
      return fail({Fault::gate, "inputs", "unsupported", "input '" + info.name + "' has type " + info.type_text,
                   info.name, "give inputs of this type as .npz", ""});
    InputSpec spec{info.name, {}, *info.dtype, ""};
    for (std::size_t i = 0; i < info.shape.size(); ++i) {
      const Dimension& dim = info.shape[i];
      spec.shape.push_back(dim.value.value_or(kFallback));
      if (!dim.value)
        inputs.dynamic.push_back({info.name, static_cast<int>(i),
                                  dim.symbol.empty() ? info.name + "_" + std::to_string(i) : dim.symbol, 1, 0, 0});
    }
    inputs.specs.push_back(given == overrides.end() ? spec : *given);
  }
  for (const InputSpec& spec : overrides)
    if (!known.contains(spec.name))
      return fail({Fault::usage, "arguments", "bad_input_option",
                   "--input " + spec.name + ": the model has no such input", spec.name, "see portwright inspect", ""});
  for (const DynamicAxis& axis : dynamic) {
    const auto same = std::find_if(inputs.dynamic.begin(), inputs.dynamic.end(),
                                   [&](const DynamicAxis& d) { return d.input == axis.input && d.axis == axis.axis; });
    if (same == inputs.dynamic.end())
      inputs.dynamic.push_back(axis);
    else
      *same = axis;
  }
  PW_CHECK(check_axes(inputs));
  return inputs;
}

}  // namespace portwright
